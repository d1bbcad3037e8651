"""The second version of explore, which `turnwise explore` does not run yet: from calls to proven tasks."""
