"""Stored trajectories are read back completely, also after a kill."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dashboard.recorded import TOOLS, episode, result, task, turn
from turnwise.rewards.exchanges import exchanges_of
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter, read_episodes
from turnwise.types import (
    Answer,
    Cause,
    DemoTurn,
    FollowUp,
    ModelUser,
    ProbeResult,
    Reward,
    ScriptedUser,
    StateProbe,
    Stop,
    Truth,
    UserRule,
)


def played(number: int) -> StoredEpisode:
    repaired = replace(result("4\u2028\udcff", Cause.OK, 0.125), repairs=("ticker->symbol",))
    called = turn(0, calls=[("quote", {"symbol": "A", "nested": {"x": [1, None, 2.5]}}, repaired)])
    shown = replace(task(f"t{number}"), demonstration=(DemoTurn("4"),))
    return StoredEpisode(episode(shown, [called, turn(1, "4")]), Reward(1.0, {"outcome": 1.0}), step=number)


def write(path: Path, *numbers: int) -> None:
    with TrajectoryWriter(path) as writer:
        for number in numbers:
            writer.write(played(number))


def test_a_trajectory_is_read_back_without_its_demonstration(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "trajectories.jsonl"
    write(path, 0, 1, 2)
    read = list(read_episodes(path))
    assert [one.step for one in read] == [0, 1, 2]
    for number, one in enumerate(read):
        written = played(number)
        plain = replace(written.trajectory, task=replace(written.trajectory.task, demonstration=()))
        assert one == replace(written, trajectory=plain)
    assert path.read_text().count(TOOLS[0].description) == 1, "the tools are written once"


@pytest.mark.parametrize(
    "user", [ScriptedUser((UserRule("which", "A", 2),), max_replies=3), ModelUser("Anna", "Buy.", 2)]
)
def test_a_conversation_is_read_back_with_what_the_user_said(
    tmp_path: Path, user: ScriptedUser | ModelUser
) -> None:
    truth = Truth(answer=Answer("5"), ends_with="quote")
    asked = replace(
        task("talk"),
        conversation=(FollowUp("And now? \u2028", truth, ("q*",)),),
        user=user,
    )
    turns = (turn(0, "4"), replace(turn(1, "5"), user="And now?", message=1))
    probes = (ProbeResult(StateProbe("quote", {}, "x"), "x", is_error=False, message=1),)
    ended = {"endings": (Stop.ANSWERED,), "stop": Stop.ENDED_BY_USER}
    spoken = replace(episode(asked, turns), **ended, probes=probes)
    with TrajectoryWriter(tmp_path / "step.jsonl") as writer:
        writer.write(StoredEpisode(spoken, Reward(0.0, {})))
    [read] = read_episodes(tmp_path / "step.jsonl")
    assert read.trajectory == spoken
    assert exchanges_of(read.trajectory)[1].task.truth == truth


def test_an_incomplete_last_line_is_skipped_and_logged_and_does_not_spoil_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trajectories.jsonl"
    write(path, 0, 1)
    path.write_bytes(path.read_bytes()[:-40])
    write(path, 2)
    with caplog.at_level(logging.WARNING):
        assert [one.step for one in read_episodes(path)] == [0, 2]
    assert "skipped an incomplete line" in caplog.text


LINES = ["5", "[]", '{"kind": "tools"}', '{"kind": "trajectory"}', '{"kind": "metrics"}', "[" * 5_000]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_another_kind_is_an_error_that_names_file_and_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "step.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"step\.jsonl:1: .*line of a trajectory file"):
        list(read_episodes(path))
