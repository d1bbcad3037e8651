"""Runs untrusted Python: code in, bounded output out, nothing else."""
