"""Is the run healthy: rules over each step's figures, and the memory it takes."""
