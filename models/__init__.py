"""The shipped model's world, training and judging: everything that makes `paper-dolls`."""
