"""A training run: the loop, what it keeps, and what it says."""
