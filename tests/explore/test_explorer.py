"""Explorations of a small server: what is found, proven and written."""

import asyncio
from pathlib import Path

import pytest

from tests.explore.exploring import explored, specs_of
from turnwise.explore.exploration import Exploration
from turnwise.explore.verdicts import episode_of
from turnwise.mcp.pool import Pool
from turnwise.rewards.outcome import is_success
from turnwise.tasks.rows import row_of
from turnwise.types import DemoTurn, Matcher, ToolCall


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    return asyncio.run(explored(tmp_path_factory.mktemp("library"), "library"))


def test_every_tool_of_the_library_is_in_a_task(library: Exploration) -> None:
    [server] = library.servers
    in_tasks = {finding.tool.name: finding.num_tasks for finding in server.tools}
    assert all(in_tasks[name] for name in ("list_books", "get_author", "add_note")), in_tasks


def test_a_chain_follows_the_authors_id_from_the_list_of_books(library: Exploration) -> None:
    links = {(link.source_tool, link.field, link.target_tool, link.parameter) for link in library.links}
    assert ("list_books", "author_id", "get_author", "author_id") in links
    chains = [task for task in library.tasks if task.family == "chain"]
    assert chains
    for task in chains:
        author = task.demonstration[1].calls[0].arguments["author_id"]
        assert author not in task.prompt[0].content, "the question gives the first call's answer away"


def test_a_change_is_asked_for_and_shown_by_a_probe(library: Exploration) -> None:
    changes = [task for task in library.tasks if task.family == "change"]
    assert changes
    for task in changes:
        assert task.truth.answer is None
        [probe] = task.truth.probes
        assert probe.tool == "list_notes"
        assert probe.contains in task.prompt[0].content


def test_test_tasks_share_no_entity_with_training(library: Exploration) -> None:
    def authors(split: str) -> set[str]:
        return {
            call.arguments["author_id"]
            for task in library.tasks
            if task.split == split and task.family == "look_up"
            for turn in task.demonstration
            for call in turn.calls
            if call.name == "get_author"
        }

    assert authors("train")
    assert not authors("train") & authors("test")


def test_no_question_contains_its_answer(library: Exploration) -> None:
    for task in library.tasks:
        if task.truth.answer is not None and task.truth.answer.matcher is not Matcher.NUMERIC:
            assert str(task.truth.answer.value) not in task.prompt[0].content


async def test_reference_plans_earn_their_reward_in_fresh_sessions_and_shortcuts_do_not(
    library: Exploration, tmp_path: Path
) -> None:
    """An audit by other means than the exploration's: the calls are made anew, from the tasks alone."""
    async with Pool(specs_of(tmp_path, "library")) as pool:
        for task in library.tasks:
            async with pool.lease(task.servers, task.id) as toolbox:
                turns: list[DemoTurn] = []
                for shown in task.demonstration:
                    calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in shown.calls)
                    results = tuple(await toolbox.call(calls)) if calls else ()
                    turns.append(DemoTurn(shown.text, calls, results))
                is_done = True
                for probe in task.truth.probes:
                    [result] = await toolbox.call([ToolCall("probe", probe.tool, probe.arguments)])
                    is_done = is_done and probe.contains in result.content
                tools = tuple(toolbox.tools)
            assert is_success(episode_of(task, turns, tools, is_done=is_done)), task.prompt[0].content
            assert not is_success(episode_of(task, turns[-1:], tools, is_done=False))
            assert not is_success(episode_of(task, [DemoTurn("")], tools, is_done=False))
            wrong = [*turns[:-1], DemoTurn("a wrong answer")]
            assert not is_success(episode_of(task, wrong, tools, is_done=False))


def test_the_same_seed_gives_the_same_tasks(library: Exploration, tmp_path: Path) -> None:
    again = asyncio.run(explored(tmp_path, "library"))
    assert [row_of(task) for task in again.tasks] == [row_of(task) for task in library.tasks]


def test_rejections_are_counted_by_reason_with_an_example(library: Exploration) -> None:
    assert set(library.rejections) == set(library.rejected_examples)
