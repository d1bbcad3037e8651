"""Build the embedded model; not part of the installed package."""
