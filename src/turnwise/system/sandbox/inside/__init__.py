"""The half of the sandbox that runs inside: stdlib only and relative, since turnwise is not visible there."""
