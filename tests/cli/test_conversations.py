"""The conversations of the guide: checked, filled in with real results and played, by the commands."""

import json
import re
from pathlib import Path

import pytest

from tests import warm
from tests.test_cli import turnwise
from turnwise.rewards import is_success
from turnwise.rollout.store import read_episodes
from turnwise.tasks.load import load
from turnwise.types import Stop

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "conversations.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    warm.share_world(tmp_path)
    examples = re.findall(r"```json\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    for name, example in zip(("talk", "spoken"), examples, strict=True):
        (tmp_path / f"{name}.jsonl").write_text(f"{json.dumps(json.loads(example))}\n")
    return tmp_path


def test_the_example_is_sound_and_gets_its_results_from_the_servers(folder: Path) -> None:
    ran = turnwise("tasks", "check", "talk.jsonl", "--fill", "filled.jsonl", cwd=folder)
    assert ran.code == 0, ran
    [task] = load(folder / "filled.jsonl")
    assert [turn.user for turn in task.demonstration] == [
        "",
        "",
        "And its market cap?",
        "Post it to Slack as `KALDJ: N`.",
        "engineering, please.",
    ]
    assert '"marketCap":1831290100' in task.demonstration[0].results[0].content
    assert turnwise("tasks", "check", "filled.jsonl", cwd=folder).code == 0


def test_the_example_is_played_and_shown_message_by_message(folder: Path) -> None:
    options = ("--script", "--groups", "1", "--set", "rollout.group_size=1")
    ran = turnwise("rollout", "--tasks", "talk.jsonl", *options, "--out", "out.jsonl", cwd=folder)
    assert ran.code == 0, ran
    assert "ended_by_call · 3 of 3 messages" in ran.out
    assert ran.out.index("user: And its market cap?") < ran.out.index("user: engineering, please.")
    [played] = read_episodes(folder / "out.jsonl")
    assert played.trajectory.endings == (Stop.ANSWERED, Stop.ANSWERED)
    assert is_success(played.trajectory)


def test_a_demonstration_that_fails_a_message_is_not_filled_in(folder: Path) -> None:
    row = json.loads((folder / "talk.jsonl").read_text())
    row["truth"]["answer"]["value"] = 22.1
    (folder / "talk.jsonl").write_text(f"{json.dumps(row)}\n")
    ran = turnwise("tasks", "check", "talk.jsonl", "--fill", "filled.jsonl", cwd=folder)
    assert ran.code != 0
    assert "message 1 is not answered as asked" in ran.out + ran.err


def test_a_demonstration_with_a_user_that_a_model_plays_is_played_with_its_words(folder: Path) -> None:
    ran = turnwise("tasks", "check", "spoken.jsonl", "--fill", "filled.jsonl", cwd=folder)
    assert ran.code == 0, ran
    [task] = load(folder / "filled.jsonl")
    assert [turn.user for turn in task.demonstration] == ["", "KALDJ", ""]
    options = ("--groups", "1", "--set", "rollout.group_size=1", "--out", "out.jsonl")
    ran = turnwise("rollout", "--tasks", "filled.jsonl", "--script", *options, cwd=folder)
    assert ran.code == 0, ran
    [played] = read_episodes(folder / "out.jsonl")
    assert played.trajectory.stop is Stop.ENDED_BY_USER
    assert is_success(played.trajectory)
    ran = turnwise("rollout", "--tasks", "filled.jsonl", *options, cwd=folder)
    assert ran.code != 0
    assert "user.kind is 'model', and the recipe does not set user.model" in ran.err
