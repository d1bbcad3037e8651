"""What a run leaves behind: its folder, its figures, its log."""
