"""turnwise trains language models to use tools over many turns, against real MCP servers."""

__version__ = "0.1.0"
