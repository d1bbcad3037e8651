"""Programs over tool calls: look-ups, chains, changes, transfers, computations."""
