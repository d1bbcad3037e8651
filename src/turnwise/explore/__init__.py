"""Find verified tasks for any MCP servers: execute first, ask afterwards."""
