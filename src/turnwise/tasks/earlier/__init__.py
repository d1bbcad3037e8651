"""Task files and criteria of the system before this one, read as tasks of today."""
