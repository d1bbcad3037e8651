"""A server of accounts whose answers show keys: as fields, as columns, in lines and in a file."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

READS = ToolAnnotations(readOnlyHint=True)
server = MCPServer("vault")

OWNERS = ("Ada Holm", "Bruno Dunn", "Chiara Fuchs", "Dmitri Grant", "Elif Jansen", "Farid Castell")
CITIES = ("Bremen", "Cork", "Graz", "Lund", "Turku", "Vaduz")
KEYS = (
    "q7Xr2Lm9Tz4Bw8",
    "h3Jk6Pn1Vd5Cy0",
    "u9Se4Gf7Ra2Mo6",
    "b1Wq8Zx3Ni5Tl7",
    "k4Hv0Uc6Ej9Ps2",
    "y8Fd2Ag5Ob7Ik3",
)
PASSWORDS = ("tr0ub4dor-1", "c0rrect-h0rse", "b4ttery-staple7", "s3same-0pen", "m4ple-syrup9", "d0rmouse-22")


def accounts() -> list[dict[str, Any]]:
    rows = zip(OWNERS, CITIES, KEYS, PASSWORDS, strict=True)
    return [
        {"account_id": f"A{number}", "owner": owner, "city": city, "api_key": key, "password": password}
        for number, (owner, city, key, password) in enumerate(rows, start=201)
    ]


@server.tool(annotations=READS)
def list_accounts() -> dict[str, Any]:
    """List all accounts."""
    return {"accounts": accounts()}


@server.tool(annotations=READS)
def get_account(account_id: str) -> dict[str, Any]:
    """Return an account."""
    for row in accounts():
        if row["account_id"] == account_id:
            return row
    raise ToolError(f"no account {account_id!r}; ids look like A201")


@server.tool(annotations=READS)
def get_settings(account_id: str) -> str:
    """Return the settings of an account as lines."""
    for number, row in enumerate(accounts()):
        if row["account_id"] == account_id:
            return f"region: eu-{number}\nquota: {117 + 13 * number}\naccess_token: {row['api_key']}"
    raise ToolError(f"no account {account_id!r}; ids look like A201")


if __name__ == "__main__":
    server.run()
