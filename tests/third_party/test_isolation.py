"""Concurrent episodes on stateful third-party servers: none sees another, and the next starts afresh."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.mcp.leases import ask, leased, spec_of
from tests.third_party.installed import block
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Cause


@dataclass(frozen=True, slots=True)
class Stateful:
    """A server that keeps words: how to fill its template, how to write a word, how to read all words."""

    server: str
    template: str
    fill: Callable[[Path], None]
    write: Callable[[str], tuple[str, dict[str, Any]]]
    read: tuple[str, dict[str, Any]]


def fill_directory(path: Path) -> None:
    (path / "notes").mkdir(parents=True)
    (path / "notes" / "template-word.txt").write_text("in the template")


def fill_memory(path: Path) -> None:
    path.write_text('{"type":"entity","name":"template-word","entityType":"word","observations":[]}\n')


def fill_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE words (word TEXT)")
        database.execute("INSERT INTO words VALUES ('template-word')")


def entity(word: str) -> dict[str, Any]:
    return {"entities": [{"name": word, "entityType": "word", "observations": []}]}


CASES = [
    Stateful(
        "filesystem",
        "files",
        fill_directory,
        lambda word: ("write_file", {"path": f"notes/{word}.txt", "content": word}),
        ("list_directory", {"path": "notes"}),
    ),
    Stateful(
        "memory",
        "memory.jsonl",
        fill_memory,
        lambda word: ("create_entities", entity(word)),
        ("read_graph", {}),
    ),
    Stateful(
        "sqlite",
        "shop.db",
        fill_database,
        lambda word: ("write_query", {"query": f"INSERT INTO words VALUES ('{word}')"}),
        ("read_query", {"query": "SELECT word FROM words"}),
    ),
]
WORDS = {"template-word", "left-word", "right-word"}


def filled(case: Stateful, directory: Path, **options: Any) -> ServerSpec:
    """The server with a template whose path is relative to `mcp.json`."""
    case.fill(directory / case.template)
    options = {"isolation": "process", "template": case.template, **options}
    return spec_of(case.server, block(case.server, **options), directory)


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return {str(file): file.read_bytes() for file in files if file.is_file()}


async def words_in(toolbox: Any, case: Stateful) -> set[str]:
    tool, arguments = case.read
    result = await ask(toolbox, tool, **arguments)
    assert result.cause is Cause.OK, result.content
    return {word for word in WORDS if word in result.content}


async def write(toolbox: Any, case: Stateful, word: str) -> None:
    tool, arguments = case.write(word)
    result = await ask(toolbox, tool, **arguments)
    assert result.cause is Cause.OK, result.content


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
async def test_concurrent_episodes_never_see_the_writes_of_each_other(case: Stateful, tmp_path: Path) -> None:
    server = filled(case, tmp_path, num_warm=1, max_processes=2)
    before = contents(tmp_path / case.template)
    have_written = asyncio.Barrier(2)

    async def episode(pool: Pool, name: str) -> None:
        async with pool.lease([case.server], name) as toolbox:
            assert await words_in(toolbox, case) == {"template-word"}
            await write(toolbox, case, f"{name}-word")
            await have_written.wait()
            assert await words_in(toolbox, case) == {"template-word", f"{name}-word"}
            await have_written.wait()  # neither ends its lease before both have read

    async with nothing_leaks(), Pool([server]) as pool:
        async with asyncio.TaskGroup() as episodes:
            episodes.create_task(episode(pool, "left"))
            episodes.create_task(episode(pool, "right"))
        async with pool.lease([case.server], "next") as toolbox:
            assert await words_in(toolbox, case) == {"template-word"}
    assert contents(tmp_path / case.template) == before


async def test_one_episode_may_use_three_servers_at_once(tmp_path: Path) -> None:
    async with nothing_leaks(), leased(*(filled(case, tmp_path) for case in CASES)) as toolbox:
        for case in CASES:
            await write(toolbox, case, "left-word")
        for case in CASES:
            assert await words_in(toolbox, case) == {"template-word", "left-word"}
