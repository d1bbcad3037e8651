"""Takes a policy and held-out tasks, gives how often it succeeds and how sure that is."""
