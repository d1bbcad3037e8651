"""An exploration of two small servers, whose data the tests know."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from turnwise.explore.command import ExploreCommand
from turnwise.explore.exploration import Exploration
from turnwise.explore.options import ExploreOptions
from turnwise.mcp.spec import load
from turnwise.rewards.outcome import is_success
from turnwise.tasks.load import load as load_tasks
from turnwise.tasks.proof.verdict import episode_of
from turnwise.types import Task

SERVERS = Path(__file__).parent / "servers"
NUM_OPEN, NUM_ORDERS = 6, 18


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("explored")
    light = Path(__file__).with_name("light_sdk.py")  # starts without the imports of the SDK
    entries = {
        name: {"command": sys.executable, "args": ["-I", str(light), str(SERVERS / f"{name}.py")]}
        for name in ("shop", "books")
    }
    (place / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    return place


@pytest.fixture(scope="module")
def found(place: Path) -> Exploration:
    options = ExploreOptions(num_tasks=110, minutes=6, pause_seconds=0)
    specs = load(place / "mcp.json")
    return asyncio.run(ExploreCommand(specs, place / "tasks", options, Console(quiet=True)).run())


def said(task: Task) -> str:
    return task.demonstration[-1].text


def test_every_tool_is_in_a_task(found: Exploration) -> None:
    reasons = {
        tool.tool.name: tool.why_not
        for server in found.servers
        for tool in server.tools
        if not tool.num_tasks
    }
    assert not reasons


def test_the_written_files_have_the_tasks(place: Path, found: Exploration) -> None:
    written = [
        task
        for split in ("train", "validation", "test")
        for task in load_tasks(place / "tasks" / f"{split}.jsonl")
    ]
    assert {task.id for task in written} == {task.id for task in found.tasks}
    report = json.loads((place / "tasks" / "report.json").read_text())
    assert report["figures"]["num_tasks"] == len(found.tasks) >= 60


def test_truths_are_those_of_the_data(found: Exploration) -> None:
    """Every answer about one thing stands in a row with what the question names."""
    from tests.explore.servers import books, shop

    names = {row["customer_id"]: row["name"] for row in shop.customers()}
    products = {row["product_id"]: row["name"] for row in shop.products()}
    rows = [*shop.customers(), *shop.products()]
    rows += [
        {**row, "customer": names[row["customer_id"]], "product": products[row["product_id"]]}
        for row in shop.orders()
    ]
    authors = {key: (name, country) for key, name, country in books.AUTHORS}
    rows += [{"name": name, "country": country} for name, country in authors.values()]
    rows += [
        {"title": title, "price": price, "pages": pages, "author": authors[by][0], "country": authors[by][1]}
        for _, title, by, price, pages in books.BOOKS
    ]
    checked = 0
    for task in found.tasks:
        quoted = task.prompt[0].content.split("“")[1:]
        values = [part.partition("”")[0] for part in quoted]
        is_plain = task.family in ("look_up", "query", "join") and "number of" not in task.prompt[0].content
        words = (
            "total",
            "average",
            "highest",
            "lowest",
            "latest",
            "earliest",
            "most",
            "How many",
            "different",
        )
        if not is_plain or len(values) != 1 or any(word in task.prompt[0].content for word in words):
            continue
        cells = [{str(cell) for cell in row.values()} for row in rows]
        assert any({values[0], said(task)} <= row for row in cells), task.prompt[0].content
        checked += 1
    assert checked >= 15


def test_splits_share_no_entity(found: Exploration) -> None:
    by_split = {
        split: {
            part.partition("”")[0]
            for task in found.tasks_of(split)
            if task.truth.answer is not None
            for part in task.prompt[0].content.split("“")[1:]
        }
        for split in ("train", "test")
    }
    shared = by_split["train"] & by_split["test"]
    assert by_split["test"]
    assert all(sum(value in task.prompt[0].content for task in found.tasks) > 8 for value in shared)


def test_a_changed_row_is_told_from_every_other(found: Exploration) -> None:
    changes = [task for task in found.tasks if task.family == "change"]
    assert len(changes) >= 3
    for task in changes:
        assert all(probe.equals or probe.contains or probe.lacks for probe in task.truth.probes)
        tools = [tool.tool for server in found.servers for tool in server.tools]
        assert not is_success(episode_of(task, task.demonstration, tools, is_done=False))
