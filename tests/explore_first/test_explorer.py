"""An exploration of good and misbehaving servers together: what is found and proven, and what is left out."""

import asyncio
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import turnwise as tw
from tests.explore_first.exploring import GOOD, explored, specs_of
from turnwise.explore.exploration import Exploration, ToolFinding
from turnwise.explore.first.command import ExploreCommand
from turnwise.explore.first.explorer import Explorer
from turnwise.explore.first.options import ExploreOptions
from turnwise.mcp.pool import Pool
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.verdict import episode_of
from turnwise.types import DemoTurn, Matcher, Task, ToolCall

BAD = ("no_tools", "dies", "lying", "hostile", "megabytes", "clock", "plain_errors")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    return asyncio.run(explored(tmp_path_factory.mktemp("explored"), *GOOD, *BAD, num_tasks=48))


def tools_of(found: Exploration, server: str) -> dict[str, ToolFinding]:
    [finding] = [finding for finding in found.servers if finding.server == server]
    return {tool.tool.server_tool: tool for tool in finding.tools}


def tasks_of(found: Exploration, server: str) -> list[Task]:
    return [task for task in found.tasks if server in task.servers]


def question(task: Task) -> str:
    return task.prompt[0].content


def test_every_tool_of_the_shop_is_in_a_task(found: Exploration) -> None:
    unused = [name for name, tool in tools_of(found, "shop").items() if not tool.num_tasks]
    assert unused == []


def test_a_chain_follows_an_id_that_its_question_does_not_name(found: Exploration) -> None:
    links = {(link.field, link.target_tool, link.parameter) for link in found.links}
    assert ("customer_id", "get_customer", "customer_id") in links
    chains = [task for task in found.tasks if task.family == "chain"]
    assert chains
    for task in chains:
        for turn in task.demonstration[1:-1]:
            for call in turn.calls:
                named = [value for value in call.arguments.values() if f"“{value}”" in question(task)]
                assert len(named) < len(call.arguments), question(task)


def test_a_change_is_asked_for_and_shown_by_a_probe(found: Exploration) -> None:
    changes = [task for task in tasks_of(found, "notes") if task.family == "change"]
    assert changes
    for task in changes:
        assert task.truth.answer is None
        shown = [probe.lacks or probe.contains for probe in task.truth.probes]
        assert any(shown)
        assert all(text in question(task) for text in shown)


def test_a_removal_is_shown_by_what_is_gone_from_a_list_that_still_has_the_rest(found: Exploration) -> None:
    removals = [task for task in found.tasks if task.truth.required_tools == ("delete_note",)]
    assert removals
    for task in removals:
        [probe] = [probe for probe in task.truth.probes if probe.lacks]
        assert probe.lacks in question(task)
        assert probe.contains


def test_a_value_of_one_server_is_written_with_another(found: Exploration) -> None:
    transfers = [task for task in found.tasks if task.family == "transfer" and len(task.servers) == 2]
    assert transfers
    for task in transfers:
        assert all(
            probe.contains not in question(task)
            for probe in task.truth.probes
            if probe.contains and probe.tool == "read_note"
        )


def test_no_question_contains_its_answer(found: Exploration) -> None:
    for task in found.tasks:
        if task.truth.answer is not None and task.truth.answer.matcher is not Matcher.NUMERIC:
            assert str(task.truth.answer.value) not in question(task)


def test_the_entities_of_look_ups_in_training_and_test_differ(found: Exploration) -> None:
    def customers(split: str) -> set[str]:
        return {
            str(call.arguments["customer_id"])
            for task in found.tasks
            if task.split == split and task.family == "look_up"
            for turn in task.demonstration
            for call in turn.calls
            if call.name == "get_customer"
        }

    assert customers("train")
    assert not customers("train") & customers("test")


async def test_plans_earn_their_reward_in_a_fresh_session_and_shortcuts_do_not(
    found: Exploration, tmp_path: Path
) -> None:
    async with Pool(specs_of(tmp_path, *GOOD)) as pool:
        tasks = [task for task in found.tasks if set(task.servers) <= set(GOOD)]
        for task in tasks[::6]:
            async with pool.lease(GOOD, task.id) as toolbox:
                turns: list[DemoTurn] = []
                for shown in task.demonstration:
                    calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in shown.calls)
                    results = tuple(await toolbox.call(calls)) if calls else ()
                    turns.append(DemoTurn(shown.text, calls, results))
                is_done = True
                for probe in task.truth.probes:
                    [result] = await toolbox.call([ToolCall("probe", probe.tool, probe.arguments)])
                    is_done = is_done and probe.accepts(result.content, is_error=result.is_error)
                tools = tuple(toolbox.tools)
                assert is_success(episode_of(task, turns, tools, is_done=is_done)), question(task)
                for cheat in (turns[-1:], [DemoTurn("")], [*turns[1:-1], turns[-1]], [DemoTurn("a guess")]):
                    assert not is_success(episode_of(task, cheat, tools, is_done=False)), question(task)


def test_a_server_without_tools_is_a_line_in_the_report(found: Exploration) -> None:
    [server] = [server for server in found.servers if server.server == "no_tools"]
    assert server.why_not == "it has no tools"


def test_a_tool_that_lies_about_reading_is_found_out(found: Exploration) -> None:
    tools = tools_of(found, "lying")
    assert not tools["peek"].is_reader
    assert tools["get_stock"].is_reader


def test_hostile_descriptions_do_not_reach_a_question(found: Exploration) -> None:
    for task in tasks_of(found, "hostile"):
        asked = question(task)
        assert asked.isprintable() or "\n" in asked
        for forbidden in ("\x1b", "<|", "ignore", "IGNORE", "system prompt"):
            assert forbidden not in asked


def test_answers_of_megabytes_are_in_no_task(found: Exploration) -> None:
    tools = tools_of(found, "megabytes")
    assert tools["get_stock"].num_tasks
    assert not tools["list_rows"].num_tasks
    assert not tools["read_log"].num_tasks


def test_nothing_is_asked_about_a_clock(found: Exploration) -> None:
    tasks = tasks_of(found, "clock")
    assert tasks, "the fields that stand still can be asked about"
    for task in tasks:
        assert "time" not in question(task).lower().replace("timezone", "")


def test_an_error_in_plain_text_is_no_answer(found: Exploration) -> None:
    for task in tasks_of(found, "plain_errors"):
        for turn in task.demonstration:
            assert not any(result.content.startswith("Error") for result in turn.results)


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, "notes")
    first, second = (tmp_path / name for name in ("first", "second"))
    command = ExploreCommand(
        specs, first, ExploreOptions(num_tasks=8, minutes=20, pause_seconds=0), Console(quiet=True)
    )
    asyncio.run(command.run())
    found = tw.explore(tmp_path / "mcp.json", out=second, num_tasks=8, minutes=20, pause=0, quiet=True)
    assert found.tasks_of("train")
    assert json.loads((first / "report.json").read_text())["tasks"]
    assert (first / "report.html").stat().st_size
    for split in ("train", "validation", "test"):
        assert (first / f"{split}.jsonl").read_bytes() == (second / f"{split}.jsonl").read_bytes()
    assert {path.stat().st_mode & 0o077 for path in (first, *first.iterdir())} == {0}
    (first / "exploration.json").unlink()
    with pytest.raises(ValueError, match="is there already"):
        asyncio.run(command.run())


async def test_tools_that_could_change_real_data_are_not_called(tmp_path: Path) -> None:
    """A server with a key of the user's and a network may change what the key gives access to."""
    [spec] = specs_of(tmp_path, "notes")
    options = spec.options.model_copy(update={"network": True})
    spec = spec.model_copy(update={"env": {"NOTES_API_KEY": "of-the-user"}, "options": options})
    async with Pool([spec]) as pool:
        explorer = Explorer(
            pool, [spec], ExploreOptions(num_tasks=4, minutes=20, pause_seconds=0), lambda _: None
        )
        await explorer.run()
        tools = tools_of(explorer.result(), "notes")
    assert tools["read_note"].num_answers
    for name in ("create_note", "delete_note"):
        assert tools[name].num_calls == 0
        assert tools[name].why_not.startswith("not called: episodes could change what NOTES_API_KEY")


async def test_an_interrupted_exploration_writes_what_it_found(tmp_path: Path) -> None:
    class Interrupting(io.StringIO):
        def write(self, text: str) -> int:
            if "survey:" in text:
                running.cancel()
            return len(text)

    specs = specs_of(tmp_path, "notes")
    console = Console(file=Interrupting())
    command = ExploreCommand(
        specs, tmp_path / "tasks", ExploreOptions(num_tasks=4, minutes=20, pause_seconds=0), console
    )
    running = asyncio.create_task(command.run())
    found = await running
    assert found.was_interrupted
    assert (tmp_path / "tasks" / "report.html").exists()


def test_every_reason_to_reject_has_an_example(found: Exploration) -> None:
    assert found.rejections
    assert set(found.rejections) == set(found.rejected_examples)
