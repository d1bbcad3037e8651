"""The half of the sandbox that runs inside: stdlib only, relative imports, because turnwise is not visible there."""
