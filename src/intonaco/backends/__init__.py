"""Backends compile, load and call programs; each speaks the one protocol in `base`."""
