"""How good a picture is, and how to show it to a person."""
