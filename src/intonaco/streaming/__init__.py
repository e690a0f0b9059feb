"""Streaming of template state over a link whose rate changes.

The controller and the simulator are pure: time is an argument, nothing here opens a socket.
"""
