"""Other ways to make state small, to compare with. Offline; nothing in the product uses them.

Each takes keys and values (S, B, N, d), and returns what comes back of them and honest bytes.
"""
