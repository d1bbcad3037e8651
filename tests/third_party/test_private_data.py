"""Servers that name the user's real files: every episode has a private copy at the same path."""

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.third_party.installed import NODE_MODULES, TOOLS, node, require
from turnwise.commands.tools import call_tool
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.types import Cause, ToolCall, ToolResult

WRITE = "INSERT INTO words VALUES ('{}')"


def home(folder: Path) -> Path:
    """A user's folder: a database and a note."""
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "plan.txt").write_text("as it was")
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE words (word TEXT)")
        database.execute("INSERT INTO words VALUES ('real')")
    return folder


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def ordinary(folder: Path, **options: Any) -> tuple[ServerSpec, ...]:
    """An mcp.json as everybody has one: nothing in it knows of episodes."""
    sqlite = require(TOOLS / "sqlite" / "bin" / "mcp-server-sqlite")
    files = require(NODE_MODULES / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js")
    blocks = {
        "files": {"command": node(), "args": [files, str(folder)]},
        "shop": {"command": sqlite, "args": ["--db-path", str(folder / "shop.db")]},
    }
    for block in blocks.values():
        block["turnwise"] = {"num_warm": 0, **options}
    return parse(blocks, {}, directory=folder)


async def call(toolbox: Any, name: str, **arguments: Any) -> ToolResult:
    [result] = await toolbox.call([ToolCall("1", name, arguments)])
    assert result.cause is Cause.OK, result.content
    return result


async def test_episodes_that_write_leave_the_users_files_as_they_were(tmp_path: Path) -> None:
    folder = home(tmp_path / "user's data, 2024")
    before = digest(folder)

    async def episode(pool: Pool, number: int) -> tuple[str, str]:
        async with pool.lease(["files", "shop"], f"episode-{number}") as toolbox:
            word = f"word-{number}"
            await call(toolbox, "write_query", query=WRITE.format(word))
            await call(toolbox, "write_file", path=str(folder / "notes" / "plan.txt"), content=word)
            rows = await call(toolbox, "read_query", query="SELECT word FROM words")
            note = await call(toolbox, "read_text_file", path=str(folder / "notes" / "plan.txt"))
            return rows.content, note.content

    async def main() -> list[tuple[str, str]]:
        async with nothing_leaks(), Pool(ordinary(folder)) as pool:
            return list(await asyncio.gather(*(episode(pool, number) for number in range(4))))

    for number, (rows, note) in enumerate(await main()):
        assert "real" in rows
        assert [f"word-{other}" in rows for other in range(4)] == [other == number for other in range(4)]
        assert note == f"word-{number}"
    assert digest(folder) == before


async def test_servers_of_one_episode_share_its_copy(tmp_path: Path) -> None:
    folder = home(tmp_path / "data")

    async def main() -> str:
        async with Pool(ordinary(folder)) as pool, pool.lease(["files", "shop"], "episode") as toolbox:
            places = {"source": str(folder / "shop.db"), "destination": str(folder / "old.db")}
            await call(toolbox, "move_file", **places)
            [result] = await toolbox.call([ToolCall("1", "list_tables", {})])
            return result.content

    assert "words" not in (await main())  # the database server finds its file gone
    assert (folder / "shop.db").exists()


async def test_a_folder_whose_data_is_real_is_changed(tmp_path: Path) -> None:
    folder = home(tmp_path / "data")

    async with Pool(ordinary(folder, data="real")) as pool, pool.lease(["files"], "episode") as toolbox:
        await call(toolbox, "write_file", path=str(folder / "notes" / "plan.txt"), content="changed")
    assert (folder / "notes" / "plan.txt").read_text() == "changed"


async def test_what_an_episode_could_change_is_said_of_every_server(tmp_path: Path) -> None:
    folder = home(tmp_path / "data")
    specs = [*ordinary(folder), *parse({"api": {"url": "http://127.0.0.1:9/mcp"}}, {}, directory=tmp_path)]

    async def main() -> list[Any]:
        async with Pool(specs) as pool:
            await pool.connect(["files", "shop"])
            return [pool.exposure("files"), pool.exposure("shop")]

    for exposed in await main():
        assert not exposed.is_refused
        assert str(exposed).startswith("episodes change private copies of")
        assert str(folder) in str(exposed)


async def test_the_episodes_own_directory_has_the_same_path_in_every_episode(tmp_path: Path) -> None:
    files = require(NODE_MODULES / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js")
    block = {"command": node(), "args": [files, "${EPISODE_DIR}"], "turnwise": {"num_warm": 0}}

    async def main() -> list[str]:
        seen = []
        for _ in range(2):
            async with Pool(parse({"files": block}, {}, directory=tmp_path)) as pool:
                for name in ("a", "b"):
                    async with pool.lease(["files"], name) as toolbox:
                        allowed = (await call(toolbox, "list_allowed_directories")).content
                        place = allowed.splitlines()[-1]
                        await call(toolbox, "write_file", path=f"{place}/x.txt", content="x")
                        seen.append(f"{place} {(await call(toolbox, 'list_directory', path=place)).content}")
        return seen

    assert len(set(await main())) == 1


async def test_a_persons_call_that_writes_says_that_its_change_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = home(tmp_path / "data")
    place = str(folder / "notes" / "plan.txt")
    await call_tool(ordinary(folder), "read_text_file", {"path": place})
    assert not caplog.records
    await call_tool(ordinary(folder), "write_file", {"path": place, "content": "gone"})
    assert "its changes are not kept" in caplog.text
    assert Path(place).read_text() == "as it was"
