"""`python -m turnwise` is the `turnwise` command."""

from turnwise.cli import app

app()
