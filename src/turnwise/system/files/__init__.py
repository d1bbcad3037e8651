"""Files that survive kills and hostile folders: atomic writes, locks, regular files only."""
