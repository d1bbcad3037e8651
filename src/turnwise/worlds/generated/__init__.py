"""Hundreds of MCP servers from a seed, with verified tasks of many kinds: no language model makes them."""
