"""One update: targets, loss, optimizer steps, statistics, checkpoints."""
