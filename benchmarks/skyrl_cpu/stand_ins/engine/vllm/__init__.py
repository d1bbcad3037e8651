"""Stands in for vLLM on the side of SkyRL's trainer: its weight transfer, over gloo instead of NCCL."""
