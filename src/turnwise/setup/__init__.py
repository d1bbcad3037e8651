"""From a request to open collaborators: what a recipe means on this machine."""
