"""Adapters, one per model family, from a request to tensors and back to pictures."""
