"""Calls to unknown tools, and the facts that follow from their answers."""
