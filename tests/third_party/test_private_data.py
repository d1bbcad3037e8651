"""Servers that name the user's real files: every episode has a private copy at the same path."""

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.mcp.leases import ask, spec_of
from tests.third_party.installed import block, spec
from turnwise.cli.tools import call_tool
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Cause


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the user: a database and a note."""
    folder = tmp_path / "user's data, 2024"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "plan.txt").write_text("as it was")
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE words (word TEXT)")
        database.execute("INSERT INTO words VALUES ('real')")
    return folder


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def files_of(folder: Path) -> ServerSpec:
    return spec_of("files", block("filesystem", str(folder)), folder)


def ordinary(folder: Path) -> tuple[ServerSpec, ServerSpec]:
    """The servers of an ordinary mcp.json, which knows nothing of episodes."""
    shop = block("sqlite", "--db-path", str(folder / "shop.db"))
    return files_of(folder), spec_of("shop", shop, folder)


async def call(toolbox: Any, name: str, **arguments: Any) -> str:
    result = await ask(toolbox, name, **arguments)
    assert result.cause is Cause.OK, result.content
    return str(result.content)


async def test_episodes_that_write_leave_the_files_of_the_user_unchanged(folder: Path) -> None:
    before, plan = digest(folder), str(folder / "notes" / "plan.txt")

    async def episode(pool: Pool, number: int) -> None:
        async with pool.lease(["files", "shop"], f"episode-{number}") as toolbox:
            word = f"word-{number}"
            await call(toolbox, "write_query", query=f"INSERT INTO words VALUES ('{word}')")
            await call(toolbox, "write_file", path=plan, content=word)
            rows = await call(toolbox, "read_query", query="SELECT word FROM words")
            seen = [known in rows for known in ("real", "word-0", "word-1", "word-2")]
            assert seen == [True, *(other == number for other in range(3))]
            assert await call(toolbox, "read_text_file", path=plan) == word
            places = {"source": str(folder / "shop.db"), "destination": str(folder / "old.db")}
            await call(toolbox, "move_file", **places)
            # both servers share the copy of the episode
            assert "words" not in (await ask(toolbox, "list_tables")).content

    async with nothing_leaks(), Pool(ordinary(folder)) as pool:
        await asyncio.gather(*(episode(pool, number) for number in range(3)))
        for server in ("files", "shop"):
            exposed = pool.exposure(server)
            assert not exposed.is_refused
            assert str(exposed).startswith("episodes change private copies of")
            assert str(folder) in str(exposed)
    assert digest(folder) == before


async def test_the_directory_of_the_episode_is_empty_and_has_the_same_path_in_every_episode() -> None:
    seen = set()
    for episodes in (("a", "b"), ("c",)):
        async with Pool([spec("filesystem")]) as pool:
            for name in episodes:
                async with pool.lease(["filesystem"], name) as toolbox:
                    place = (await call(toolbox, "list_allowed_directories")).splitlines()[-1]
                    await call(toolbox, "write_file", path=f"{place}/{name}.txt", content="x")
                    listed = await call(toolbox, "list_directory", path=place)
                    assert listed == f"[FILE] {name}.txt"
                    seen.add(place)
    assert len(seen) == 1


async def test_the_call_command_warns_that_a_change_is_not_kept(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = folder / "notes" / "plan.txt"
    await call_tool([files_of(folder)], "read_text_file", {"path": str(plan)})
    assert not caplog.records
    await call_tool([files_of(folder)], "write_file", {"path": str(plan), "content": "gone"})
    assert "its changes are not kept" in caplog.text
    assert plan.read_text() == "as it was"
