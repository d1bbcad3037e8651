"""A small MCP server of one's own: quotes of six stocks."""

from mcp.server.mcpserver import MCPServer

PRICES = {"ACME": 12.5, "BOLT": 30.25, "CRUX": 7.75, "DUNE": 99.5, "ECHO": 41.5, "FLUX": 3.6}

server = MCPServer("quotes")


@server.tool()
def fmp_get_quote(symbol: str) -> dict[str, str | float]:
    """Latest quote of a stock."""
    return {"symbol": symbol, "price": PRICES[symbol]}


if __name__ == "__main__":
    server.run()
