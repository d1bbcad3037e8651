"""Input handling grows linearly with its input."""
