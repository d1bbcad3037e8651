"""Questions in plain words: the server's own nouns, one grammar, three frames."""
