"""Write an mcp.json for every installed server, one for several servers together, and values for `fetch`.

Usage: python mcp_files.py FOLDER, where FOLDER holds `node`, `venvs` and `data`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SITE_PORT = 8765
"""The port at which `benchmarks.explore` serves the folder `site` for the fetch server."""

TOGETHER = ("files", "database", "calculator", "time", "units")
"""The servers of the combined file: data in two places, and three that compute."""


def node(folder: Path, script: str, *args: str, **rest: Any) -> dict[str, Any]:
    found = folder / "node" / "node_modules" / script
    return {
        "command": str(folder / "node/node_modules/.bin/node"),
        "args": [str(found), *args],
        **rest,
    }


def python(folder: Path, package: str, command: str, *args: str, **rest: Any) -> dict[str, Any]:
    return {"command": str(folder / "venvs" / package / "bin" / command), "args": list(args), **rest}


def blocks(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return every server's entry."""
    data = folder / "data"
    official = "@modelcontextprotocol/server-"
    memory = {"MEMORY_FILE_PATH": "${EPISODE_DIR}/memory.jsonl"}
    return {
        "files": node(folder, f"{official}filesystem/dist/index.js", str(data / "notes")),
        "graph": node(
            folder,
            f"{official}memory/dist/index.js",
            env=memory,
            turnwise={"template": str(data / "graph")},
        ),
        "everything": node(folder, f"{official}everything/dist/index.js", "stdio"),
        "thinking": node(folder, f"{official}sequential-thinking/dist/index.js"),
        "wiki": node(folder, "@bitbonsai/mcpvault/dist/server.js", str(data / "wiki")),
        "json": node(folder, "mcp-json/dist/index.js", cwd=str(data / "json")),
        "tasks": node(
            folder,
            "@kazuph/mcp-taskmanager/dist/index.js",
            env={"TASK_MANAGER_FILE_PATH": "${EPISODE_DIR}/tasks.json"},
        ),
        "clock": node(folder, "time-mcp/dist/index.js"),
        "database": python(
            folder, "mcp-server-sqlite", "mcp-server-sqlite", "--db-path", str(data / "shop" / "bookshop.db")
        ),
        "time": python(folder, "mcp-server-time", "mcp-server-time", "--local-timezone", "Europe/Berlin"),
        "git": python(folder, "mcp-server-git", "mcp-server-git", "--repository", str(data / "repository")),
        # The site is local, and the server refuses loopback addresses unless it is started with this option.
        "fetch": python(folder, "mcp-server-fetch", "mcp-server-fetch", "--allow-private-ips"),
        "calculator": python(folder, "mcp-server-calculator", "mcp-server-calculator"),
        "workbook": python(
            folder, "excel-mcp-server", "excel-mcp-server", "stdio", "--allow-dir", str(data / "workbooks")
        ),
        "word": python(folder, "office-word-mcp-server", "word_mcp_server", cwd=str(data / "reports")),
        "csv": python(folder, "csv-mcp-server", "csv-editor", cwd=str(data / "shop")),
        "warehouse": python(
            folder,
            "mcp-server-duckdb",
            "mcp-server-duckdb",
            "--db-path",
            str(data / "warehouse" / "bookshop.duckdb"),
        ),
        "ledger": python(
            folder,
            "beancount-mcp",
            "beancount-mcp",
            str(data / "shop" / "ledger.beancount"),
            "--transport",
            "stdio",
        ),
        "chess": python(folder, "chess-mcp-server", "chess-mcp-server"),
        "todo": python(folder, "mcp-todo", "mcp-todo", env={"HOME": "${EPISODE_DIR}"}),
        "algebra": python(folder, "mcp-sympy", "mcp-sympy"),
        "maths": python(folder, "mcp-server-math", "mcp-server-math"),
        "units": python(folder, "unit-converter-mcp", "unit-converter-mcp"),
    }


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    entries = blocks(folder)
    for name, entry in entries.items():
        write(folder / name / "mcp.json", {name: entry})
    write(folder / "together" / "mcp.json", {name: entries[name] for name in TOGETHER})
    pages = sorted((folder / "data" / "site").glob("*.html"))
    addresses = [f"http://127.0.0.1:{SITE_PORT}/{page.name}" for page in pages]
    (folder / "fetch" / "values.json").write_text(json.dumps({"url": addresses}, indent=2) + "\n")


def write(path: Path, servers: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}, indent=2) + "\n")


if __name__ == "__main__":
    main()
