"""Learning from demonstrations: lessons, successes, rescues and the warm start."""
