"""Tasks: reading and checking files of them, making verified ones, and the order they are played in."""
