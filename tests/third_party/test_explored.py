"""A short exploration of two servers: tasks of both that an independent audit finds sound."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from tests.third_party.installed import block
from tests.third_party.test_private_data import digest
from turnwise.explore.command import ExploreCommand
from turnwise.explore.exploration import Exploration
from turnwise.explore.options import ExploreOptions
from turnwise.mcp.spec import load

ROOT = Path(__file__).parents[2]
NOTES = {
    "harbour.md": "# Harbour\n\nkeeper: Ilse Brandt\nberths: 42\n",
    "mill.md": "# Mill\n\nkeeper: Otto Winge\nwheels: 3\n",
    "tower.md": "# Tower\n\nkeeper: Runa Falk\nsteps: 217\n",
}
BOATS = [
    (number, f"{name} {kind}", kind, 4 + number * 7 % 9, 1950 + number * 11 % 60)
    for number, (name, kind) in enumerate(
        (name, kind) for name in ("Grey", "Swift", "Old", "Brave") for kind in ("ketch", "cutter", "sloop")
    )
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files, a database and the mcp.json of both."""
    place = tmp_path_factory.mktemp("explored")
    (place / "notes").mkdir()
    for name, text in NOTES.items():
        (place / "notes" / name).write_text(text)
    with closing(sqlite3.connect(place / "boats.db")) as database, database:
        database.execute(
            "CREATE TABLE boats (id INTEGER PRIMARY KEY, name TEXT, rig TEXT, metres INT, built INT)"
        )
        database.executemany("INSERT INTO boats VALUES (?, ?, ?, ?, ?)", BOATS)
    servers = {
        "files": block("filesystem", str(place / "notes")),
        "boats": block("sqlite", "--db-path", str(place / "boats.db")),
    }
    (place / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return place


@pytest.fixture(scope="module")
def found(place: Path) -> Exploration:
    options = ExploreOptions(num_tasks=10, minutes=10, pause_seconds=0)
    specs = load(place / "mcp.json")
    before = digest(place)
    found = asyncio.run(ExploreCommand(specs, place / "tasks", options, Console(quiet=True)).run())
    after = digest(place)
    assert {path: after[path] for path in before} == before, "an exploration changed the user's files"
    return found


def test_both_servers_have_tasks_that_read_and_tasks_that_change_something(found: Exploration) -> None:
    assert {server for task in found.tasks for server in task.servers} == {"files", "boats"}
    assert {bool(task.truth.probes) for task in found.tasks} == {True, False}


def test_an_independent_audit_finds_the_tasks_sound(found: Exploration, place: Path) -> None:
    arguments = [str(place / "tasks"), "--mcp", str(place / "mcp.json"), "--num-tasks", "4"]
    command = [sys.executable, "-m", "benchmarks.explore_audit", *arguments]
    audit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert audit.returncode == 0, audit.stdout
