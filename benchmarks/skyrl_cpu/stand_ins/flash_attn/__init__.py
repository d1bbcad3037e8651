"""Stands in for flash-attn, which SkyRL always imports and, with `trainer.flash_attn = false`, never calls."""
