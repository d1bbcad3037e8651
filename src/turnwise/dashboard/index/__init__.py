"""The page's database over run folders, rebuilt from their files."""
