"""Evaluation: how often a policy succeeds on held-out tasks, with confidence intervals."""
