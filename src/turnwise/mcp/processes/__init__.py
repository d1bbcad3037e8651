"""Starting servers as processes, inside walls, on private folders."""
