"""Tasks that change something: writing more than the value, or changing something else, earns nothing."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.explore_audit import Trial, calls_only, play
from tests.explore_first.exploring import explored, specs_of
from turnwise.explore.first.change_cheats import UNASKED_CHANGE
from turnwise.mcp.pool import Pool
from turnwise.rewards.outcome import is_success
from turnwise.types import DemoTurn, Task, ToolCall

Script = tuple[DemoTurn, ...]


@dataclass(frozen=True, slots=True)
class Diary:
    """The tasks of one exploration that change something, and how episodes of them end."""

    changes: Sequence[Task]
    earned: Mapping[str, Sequence[str]]
    """By the name of a script: the tasks that it earns."""

    @property
    def transfers(self) -> list[Task]:
        return [task for task in self.changes if task.family == "transfer"]


def honest(task: Task) -> Script:
    """The plan, after reading something that it does not need."""
    return (DemoTurn("", (ToolCall("", "list_notes", {}),)), *calls_only(task.demonstration))


def whole_result(task: Task) -> Script:
    [read] = task.demonstration[0].results
    [call] = task.demonstration[1].calls
    is_value = read.content == call.arguments["text"]  # the text of a note
    return _writing_instead(task, f"text: {read.content}" if is_value else read.content)


def around_the_value(task: Task) -> Script:
    [call] = task.demonstration[1].calls
    return _writing_instead(task, f"The answer is {call.arguments['text']}, I think.")


def overwritten(task: Task) -> Script:
    return (_writing("garden", "nothing"), *calls_only(task.demonstration))


def added(task: Task) -> Script:
    return (_writing("unasked", "nothing"), *calls_only(task.demonstration))


def _writing(title: str, text: str) -> DemoTurn:
    return DemoTurn("", (ToolCall("", "write_note", {"title": title, "text": text}),))


def _writing_instead(task: Task, text: str) -> Script:
    reading, writing, *rest = calls_only(task.demonstration)
    [call] = writing.calls
    return (reading, _writing(call.arguments["title"], text), *rest)


SCRIPTS: Sequence[tuple[Callable[[Task], Script], str]] = (
    (honest, "every"),
    (overwritten, "every"),
    (added, "every"),
    (whole_result, "transfer"),
    (around_the_value, "transfer"),
)


@pytest.fixture(scope="module", params=["diary", "bare_diary"])
def diary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Diary:
    """The same server with the hint of what only reads, and without any."""
    return asyncio.run(_played(tmp_path_factory.mktemp("diary"), request.param))


async def _played(folder: Path, name: str) -> Diary:
    found = await explored(folder, name, num_tasks=12)
    changes = [task for task in found.tasks if task.truth.probes]
    earned: dict[str, list[str]] = {script.__name__: [] for script, _ in SCRIPTS}
    async with Pool(specs_of(folder, name)) as pool:
        for script, family in SCRIPTS:
            tasks = [task for task in changes if family in ("every", task.family)]
            trials = [Trial(task, script.__name__, script(task), True) for task in tasks]
            episodes = [play(trial, pool, f"{trial.kind}/{trial.task.id}") for trial in trials]
            played = await asyncio.gather(*episodes)
            earned[script.__name__] = [episode.task.id for episode in played if is_success(episode)]
    return Diary(changes, earned)


def test_an_honest_solution_earns_every_task_that_changes_something(diary: Diary) -> None:
    assert diary.transfers
    assert len(diary.changes) > len(diary.transfers)
    assert diary.earned["honest"] == [task.id for task in diary.changes]


def test_writing_more_than_the_value_earns_no_transfer(diary: Diary) -> None:
    assert diary.earned["whole_result"] == []
    assert diary.earned["around_the_value"] == []


def test_changing_something_else_as_well_earns_no_task(diary: Diary) -> None:
    assert diary.earned["overwritten"] == []
    assert diary.earned["added"] == []


async def test_changes_that_no_witness_would_notice_are_no_tasks(tmp_path: Path) -> None:
    found = await explored(tmp_path, "bare_long_diary", num_tasks=12)
    assert [task for task in found.tasks if task.truth.probes] == []
    assert found.rejections[UNASKED_CHANGE]


async def test_a_secret_beside_a_change_is_no_witness(tmp_path: Path) -> None:
    found = await explored(tmp_path, "secret_diary", num_tasks=8)
    changes = [task for task in found.tasks if task.truth.probes]
    assert any(probe.equals for task in changes for probe in task.truth.probes)
    assert not [task for task in changes if "tr0ub4dor-1" in str(task.truth)]
