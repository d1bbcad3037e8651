"""Random and damaged inputs for every parser."""
