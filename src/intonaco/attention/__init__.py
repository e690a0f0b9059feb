"""Joint attention and its bounded, partial and distributed forms."""
