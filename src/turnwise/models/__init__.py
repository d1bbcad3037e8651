"""A language model on this machine: its place, device and memory, loading, and chat format."""
