"""Stands in for flash-attn, which SkyRL imports on all hardware; with `trainer.flash_attn = false` it is not called."""
