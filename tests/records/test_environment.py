"""Which variables a tracker's process gets, and what a log line may contain."""

from pathlib import Path

import pytest

from turnwise.records.trackers.environment import for_tracker, variables, without_keys


def test_trackers_read_dotenv_here_and_in_the_parent_below_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (tmp_path / ".env").write_text("WANDB_PROJECT=above\nWEAVE_PROJECT=above\nOPENAI_API_KEY=other\n")
    (here / ".env").write_text("WANDB_PROJECT=here\nWANDB_ENTITY=here\n")
    for name in ("WANDB_PROJECT", "WEAVE_PROJECT", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_ENTITY", "environment")
    given = variables()
    assert (given["WANDB_PROJECT"], given["WEAVE_PROJECT"]) == ("here", "above")
    assert given["WANDB_ENTITY"] == "environment"
    assert "OPENAI_API_KEY" not in given


def test_only_the_keys_of_trackers_are_passed_on() -> None:
    allowed = {"WANDB_API_KEY": "a", "HF_TOKEN": "b", "LANG": "e"}
    passed = for_tracker(allowed | {"OPENAI_API_KEY": "c", "SLACK_BOT_TOKEN": "d"})
    assert passed.keys() - {"PYTHONPATH", "WANDB_ERROR_REPORTING"} == allowed.keys()
    assert passed["WANDB_ERROR_REPORTING"] == "false"
    assert for_tracker({"WANDB_ERROR_REPORTING": "true"})["WANDB_ERROR_REPORTING"] == "true"


def test_a_log_line_is_short_printable_and_without_keys() -> None:
    keys = {"WANDB_API_KEY": "abcdefgh1234", "WEAVE_TOKEN": "abcdefgh", "X_KEY": "no"}
    text = "no\n\x1b[2J abcdefgh1234 abcdefgh /home/someone " + "x" * 10_000
    line = without_keys(text, keys | {"HOME": "/home/someone"})
    assert line.startswith("no [2J [redacted] [redacted] /home/someone x")
    assert len(line) < 600
