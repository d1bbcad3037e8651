"""Continuous batching over shared prefixes: what `engines/transformers.py` runs in its worker thread."""
