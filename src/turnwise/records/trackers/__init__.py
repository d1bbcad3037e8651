"""Copies of a run's figures and episodes for wandb, Weave, TensorBoard and trackio."""
