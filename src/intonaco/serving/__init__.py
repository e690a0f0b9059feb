"""The server: an API process without torch, and a resident model process that it supervises."""
