"""Two episodes at once on stateful third-party servers: neither sees the other, the next starts afresh."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.third_party.installed import block
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.mcp.toolbox import LeasedToolbox
from turnwise.types import Cause, ToolCall


@dataclass(frozen=True, slots=True)
class Stateful:
    """A server that keeps things: how to fill its template, how to put a word there, how to see all words."""

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
WORDS = ("template-word", "left-word", "right-word")
by_server = pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)


def filled(case: Stateful, directory: Path, **options: Any) -> ServerSpec:
    """The case's spec with a template at hand, named as a user would: relative to `mcp.json`."""
    case.fill(directory / case.template)
    described = block(case.server, isolation="process", template=case.template, **options)
    [server] = parse({case.server: described}, {}, directory=directory)
    return server


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return {str(file): file.read_bytes() for file in files if file.is_file()}


async def seen(toolbox: LeasedToolbox, case: Stateful) -> set[str]:
    [result] = await toolbox.call([ToolCall("read", *case.read)])
    assert result.cause is Cause.OK, result.content
    return {word for word in WORDS if word in result.content}


async def put(toolbox: LeasedToolbox, case: Stateful, word: str) -> None:
    [result] = await toolbox.call([ToolCall("write", *case.write(word))])
    assert result.cause is Cause.OK, result.content


@by_server
async def test_two_episodes_at_once_never_see_each_others_writes(case: Stateful, tmp_path: Path) -> None:
    server = filled(case, tmp_path)
    before = contents(tmp_path / case.template)

    async def both() -> dict[str, set[str]]:
        have_written = asyncio.Barrier(2)
        views: dict[str, set[str]] = {}
        async with Pool([server]) as pool:

            async def episode(name: str) -> None:
                async with pool.lease([case.server], name) as toolbox:
                    assert await seen(toolbox, case) == {"template-word"}
                    await put(toolbox, case, f"{name}-word")
                    await have_written.wait()
                    views[name] = await seen(toolbox, case)
                    await have_written.wait()  # neither ends its lease before both have looked

            async with asyncio.TaskGroup() as episodes:
                episodes.create_task(episode("left"))
                episodes.create_task(episode("right"))
            async with pool.lease([case.server], "next") as toolbox:
                views["next"] = await seen(toolbox, case)
        return views

    assert (await both()) == {
        "left": {"template-word", "left-word"},
        "right": {"template-word", "right-word"},
        "next": {"template-word"},
    }
    assert contents(tmp_path / case.template) == before


@by_server
async def test_a_lease_starts_from_the_template_even_when_processes_are_kept_to_one(
    case: Stateful, tmp_path: Path
) -> None:
    server = filled(case, tmp_path, max_processes=1)

    async def in_turn() -> list[set[str]]:
        views = []
        async with Pool([server]) as pool:
            for name in ("left", "right"):
                async with pool.lease([case.server], name) as toolbox:
                    views.append(await seen(toolbox, case))
                    await put(toolbox, case, f"{name}-word")
                    views.append(await seen(toolbox, case))
        return views

    fresh = {"template-word"}
    assert (await in_turn()) == [fresh, fresh | {"left-word"}, fresh, fresh | {"right-word"}]


async def test_nothing_is_left_of_six_episodes_on_three_servers(tmp_path: Path) -> None:
    """Pre-spawned processes, processes in use, their directories: all gone once the pool has closed."""
    servers = [filled(case, tmp_path, num_warm=1) for case in CASES]

    async with nothing_leaks():
        async with Pool(servers) as pool:

            async def episode(number: int) -> None:
                case = CASES[number % 3]
                async with pool.lease([case.server], f"episode-{number}") as toolbox:
                    await put(toolbox, case, "left-word")
                    assert await seen(toolbox, case) == {"template-word", "left-word"}

            async with asyncio.TaskGroup() as episodes:
                for number in range(6):
                    episodes.create_task(episode(number))


async def test_one_episode_may_use_all_three_at_once(tmp_path: Path) -> None:
    servers = [filled(case, tmp_path) for case in CASES]

    async def episode() -> list[Cause]:
        async with (
            Pool(servers) as pool,
            pool.lease([server.name for server in servers], "episode") as toolbox,
        ):
            writes = [ToolCall(case.server, *case.write("left-word")) for case in CASES]
            reads = [ToolCall(case.server, *case.read) for case in CASES]
            results = await toolbox.call([*writes, *reads])
            assert all("left-word" in result.content for result in results[3:])
            return [result.cause for result in results]

    assert (await episode()) == [Cause.OK] * 6
