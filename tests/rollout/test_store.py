"""Stored trajectories are read back completely, also after a kill, and displayed as plain text."""

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from turnwise.rollout.display import print_episode
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter, read_episodes
from turnwise.types import (
    Answer,
    Cause,
    Completion,
    DemoTurn,
    Finish,
    Matcher,
    Message,
    Parsed,
    Reward,
    Stop,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    Trajectory,
    Truth,
    Turn,
)

TOOL = Tool("quote", "Price", {"type": "object", "properties": {"symbol": {}}}, "fmp", "quote", True)


def played(number: int = 0, text: str = "The price is 4.") -> StoredEpisode:
    call = ToolCall("0.0", "quote", {"symbol": "A", "nested": {"x": [1, None, 2.5]}})
    turns = (
        Turn(
            (1, 2, 3),
            Completion((4, 5), (-0.25, -1.5), Finish.STOP, 7),
            Parsed(calls=(call,)),
            (ToolResult("0.0", "4\u2028\udcff", Cause.OK, 0.125, repairs=("ticker->symbol",)),),
        ),
        Turn((6,), Completion((8,), (-0.5,), Finish.LENGTH, 7), Parsed(text=text)),
    )
    truth = Truth(answer=Answer(4.0, Matcher.NUMERIC), writes=())
    demonstration = (DemoTurn("4"),)
    task = Task(f"t{number}", (Message("user", "price?"),), ("fmp",), truth, demonstration=demonstration)
    trajectory = Trajectory(task, f"e{number}", 3, turns, Stop.ANSWERED, (TOOL,), seconds=1.5)
    return StoredEpisode(trajectory, Reward(1.0, {"outcome": 1.0}), step=number)


def test_a_trajectory_is_read_back_without_its_demonstration(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "trajectories.jsonl"
    stored = [played(number) for number in range(3)]
    with TrajectoryWriter(path) as writer:
        for item in stored:
            writer.write(item)
    back = list(read_episodes(path))
    assert [item.step for item in back] == [0, 1, 2]
    for before, after in zip(stored, back, strict=True):
        assert after.reward == before.reward
        assert after.trajectory.turns == before.trajectory.turns
        assert after.trajectory.tools == before.trajectory.tools
        assert after.trajectory.task.truth == before.trajectory.task.truth
        assert after.trajectory.task.demonstration == ()
        assert after.trajectory.loss_mask == (0, 0, 0, 1, 1, 0, 1)
        assert after.trajectory.logprobs == (0.0, 0.0, 0.0, -0.25, -1.5, 0.0, -0.5)


def test_tools_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "trajectories.jsonl"
    with TrajectoryWriter(path) as writer:
        for number in range(5):
            writer.write(played(number))
    assert path.read_text().count('"Price"') == 1


def test_an_incomplete_last_line_is_skipped_logged_and_kept_apart_from_new_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trajectories.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.write(played(0))
        writer.write(played(1))
    path.write_bytes(path.read_bytes()[:-40])
    with TrajectoryWriter(path) as writer:
        writer.write(played(2))
    with caplog.at_level(logging.WARNING):
        assert [item.step for item in read_episodes(path)] == [0, 2]
    assert "skipped an incomplete line" in caplog.text


def test_a_file_of_another_kind_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"kind": "metrics"}\n')
    with pytest.raises(ValueError, match="not a line of a trajectory file"):
        list(read_episodes(path))


@pytest.mark.parametrize("line", ["5", "[]", '{"kind": "tools"}', '{"kind": "trajectory"}', "[" * 5_000])
def test_a_line_of_another_shape_is_a_value_error_that_names_file_and_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "step.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"step\.jsonl:1: .*line of a trajectory file"):
        list(read_episodes(path))


def test_model_output_is_displayed_as_plain_text() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, color_system=None)
    print_episode(played(text="\x1b[2J[red]not markup[/red]\x07 \u202e"), console)
    shown = out.getvalue()
    assert "[red]not markup[/red]" in shown
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
