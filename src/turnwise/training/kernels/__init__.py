"""Attention, adapters and norms in fewer or hand-written kernels."""
