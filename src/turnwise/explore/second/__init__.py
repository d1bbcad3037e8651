"""Explore, the second version: from calls to facts, from facts to tasks that were executed."""
