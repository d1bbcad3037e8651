"""What the page shows, one file a view."""
