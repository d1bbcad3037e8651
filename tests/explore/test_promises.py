"""What an exploration promises whatever the servers are like: misbehaving, private, interrupted."""

import asyncio
import json
import time
from pathlib import Path

import pytest

import turnwise as tw
from tests.explore.exploring import SERVERS, entry_of, explored, specs_of
from tests.explore.servers.vault import CITIES, KEYS, PASSWORDS
from turnwise.explore.exploration import Exploration, ToolFinding
from turnwise.explore.report.report_json import as_json
from turnwise.explore.verdicts.refusal import MOVED
from turnwise.mcp.spec import load
from turnwise.tasks.rows import row_of
from turnwise.types import Task

BAD = ("no_tools", "dies", "lying", "hostile", "megabytes", "clock", "plain_errors", "limited", "vault")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    specs = specs_of(tmp_path_factory.mktemp("explored"), *BAD, "counters")
    return asyncio.run(explored(specs, num_tasks=80))


def tools_of(found: Exploration, server: str) -> dict[str, ToolFinding]:
    [finding] = [finding for finding in found.servers if finding.server == server]
    return {tool.tool.server_tool: tool for tool in finding.tools}


def tasks_of(found: Exploration, server: str) -> list[Task]:
    return [task for task in found.tasks if server in task.servers]


def question(task: Task) -> str:
    return task.prompt[0].content


def test_a_server_without_tools_is_a_line_in_the_report(found: Exploration) -> None:
    [server] = [server for server in found.servers if server.server == "no_tools"]
    assert server.why_not == "it has no tools"


def test_a_server_that_dies_now_and_then_is_explored_or_explained(found: Exploration) -> None:
    tools = tools_of(found, "dies")
    assert all(tool.num_tasks or tool.why_not for tool in tools.values())
    assert any(tool.num_answers for tool in tools.values())


def test_a_server_that_goes_on_asking_for_fewer_calls_is_left_alone(found: Exploration) -> None:
    [server] = [server for server in found.servers if server.server == "limited"]
    assert server.why_not.startswith("it limits the rate of calls")
    assert not tasks_of(found, "limited")


def test_a_tool_that_lies_about_reading_is_found_out(found: Exploration) -> None:
    tools = tools_of(found, "lying")
    assert not tools["peek"].is_reader
    assert tools["get_stock"].is_reader


def test_hostile_descriptions_do_not_reach_a_question(found: Exploration) -> None:
    assert tasks_of(found, "hostile")
    for task in tasks_of(found, "hostile"):
        asked = question(task)
        assert asked.isprintable()
        for forbidden in ("\x1b", "<|", "ignore", "IGNORE", "system prompt"):
            assert forbidden not in asked


def test_answers_of_megabytes_are_in_no_task(found: Exploration) -> None:
    tools = tools_of(found, "megabytes")
    assert tools["get_stock"].num_tasks
    assert not tools["list_rows"].num_tasks
    assert not tools["read_log"].num_tasks


def test_nothing_is_asked_about_what_moves_by_itself(found: Exploration) -> None:
    for server, word in (("clock", "time"), ("counters", "view")):
        asked = [question(task) for task in tasks_of(found, server)]
        assert asked, "the fields that stand still can be asked about"
        assert not [text for text in asked if word in text]


def test_an_error_in_plain_text_is_no_answer(found: Exploration) -> None:
    for task in tasks_of(found, "plain_errors"):
        for turn in task.demonstration:
            assert not any(result.content.startswith("Error") for result in turn.results)


def test_no_secret_that_a_tool_shows_gets_into_a_task_or_the_report(found: Exploration) -> None:
    for written in (*(row_of(task) for task in found.tasks), as_json(found)):
        text = json.dumps(written)
        assert not [secret for secret in (*KEYS, *PASSWORDS) if secret in text], text[:2_000]
    tasks = tasks_of(found, "vault")
    assert {str(task.truth.answer.value) for task in tasks if task.truth.answer is not None} & set(CITIES)
    results = [result for task in tasks for turn in task.demonstration for result in turn.results]
    assert any("[redacted]" in result.content for result in results)


def test_every_reason_to_reject_has_an_example(found: Exploration) -> None:
    assert found.rejections
    assert set(found.rejections) == set(found.rejected_examples)


def test_a_tool_is_reached_with_what_only_a_resource_says(tmp_path: Path) -> None:
    found = asyncio.run(explored(specs_of(tmp_path, "library"), num_tasks=4))
    [tool] = found.servers[0].tools
    assert tool.num_tasks


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, "notes")
    first, second = (tmp_path / name for name in ("first", "second"))
    asyncio.run(explored(specs, first, num_tasks=8))
    found = tw.explore(tmp_path / "mcp.json", out=second, num_tasks=8, minutes=20, pause=0, quiet=True)
    assert found.tasks_of("train")
    assert json.loads((first / "report.json").read_text())["tasks"]
    for split in ("train", "validation", "test"):
        assert (first / f"{split}.jsonl").read_bytes() == (second / f"{split}.jsonl").read_bytes()
    assert {path.stat().st_mode & 0o077 for path in (first, *first.iterdir())} == {0}
    (first / "exploration.json").unlink()
    with pytest.raises(ValueError, match="is there already"):
        asyncio.run(explored(specs, first, num_tasks=8))


def test_tools_that_could_change_real_data_are_not_called(tmp_path: Path) -> None:
    """A server with a key of the user's and a network may change what the key gives access to."""
    [spec] = specs_of(tmp_path, "notes")
    options = spec.options.model_copy(update={"network": True})
    spec = spec.model_copy(update={"env": {"NOTES_API_KEY": "of-the-user"}, "options": options})
    tools = tools_of(asyncio.run(explored([spec], num_tasks=4)), "notes")
    assert tools["read_note"].num_answers
    for name in ("create_note", "delete_note"):
        assert tools[name].num_calls == 0
        assert tools[name].why_not.startswith("not called: episodes could change what NOTES_API_KEY")


async def test_an_interrupted_exploration_writes_what_it_found(tmp_path: Path) -> None:
    def interrupt(words: str) -> None:
        if "tools read" in words:
            running.cancel()

    out = tmp_path / "tasks"
    running = asyncio.create_task(explored(specs_of(tmp_path, "notes"), out, num_tasks=4, hear=interrupt))
    found = await running
    assert found.was_interrupted
    assert json.loads((out / "report.json").read_text())["figures"]["was_interrupted"]


async def test_tasks_whose_answers_move_before_the_end_are_withdrawn(tmp_path: Path) -> None:
    started, never = tmp_path / "started", 1e9
    started.write_text(str(time.time()))
    entry = {**entry_of(SERVERS / "misbehaving.py", "prices", started, never), "turnwise": {"num_warm": 0}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"prices": entry}}))

    def move_when_verified(words: str) -> None:
        if words.startswith("verified:"):
            started.write_text(str(time.time() - 3 * never))

    found = await explored(load(tmp_path / "mcp.json"), num_tasks=12, hear=move_when_verified)
    assert found.rejections[MOVED]
    assert found.tasks
    assert 118.25 not in [task.truth.answer.value for task in found.tasks if task.truth.answer is not None]


async def test_of_ten_thousand_tools_the_first_thousand_are_explored(tmp_path: Path) -> None:
    found = await explored(specs_of(tmp_path, "ten_thousand"), num_tasks=4, minutes=0.1)
    [server] = found.servers
    assert len(server.tools) == 1_000
    assert all(tool.num_tasks or tool.why_not for tool in server.tools)
