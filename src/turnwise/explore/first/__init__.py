"""The first version of explore, which `turnwise explore` still runs."""
