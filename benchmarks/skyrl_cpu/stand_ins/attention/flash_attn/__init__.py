"""Stands in for flash-attn, which SkyRL imports always and calls only with `trainer.flash_attn`."""
