"""The policy, its value head and its reference; adapters and quantisation."""
