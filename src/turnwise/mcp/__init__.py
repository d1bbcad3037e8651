"""Real MCP servers as one toolbox: launched, pooled, leased to episodes, recorded and replayed."""
