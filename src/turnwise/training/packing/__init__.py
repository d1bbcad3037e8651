"""Samples as packed rows, and the log-probs at the positions that were chosen."""
