"""Host code that orders a family's components: generate, edit, and what a picture carries."""
