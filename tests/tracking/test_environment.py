"""What a tracker's process may know, and what a log may say."""

from pathlib import Path

import pytest

from turnwise.tracking.environment import for_tracker, variables, without_keys


def test_dotenv_here_and_above_speaks_to_trackers_and_the_environment_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (tmp_path / ".env").write_text(
        "WANDB_PROJECT=above\nWEAVE_PROJECT=above\nOPENAI_API_KEY=none-of-theirs\n"
    )
    (here / ".env").write_text("WANDB_PROJECT=here\nWANDB_ENTITY=here\n")
    for name in ("WANDB_PROJECT", "WEAVE_PROJECT", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_ENTITY", "environment")
    given = variables()
    assert (given["WANDB_PROJECT"], given["WEAVE_PROJECT"]) == ("here", "above")
    assert given["WANDB_ENTITY"] == "environment"
    assert "OPENAI_API_KEY" not in given


def test_only_the_keys_of_trackers_are_passed_on() -> None:
    given = {
        "WANDB_API_KEY": "a",
        "HF_TOKEN": "b",
        "OPENAI_API_KEY": "c",
        "SLACK_BOT_TOKEN": "d",
        "LANG": "e",
    }
    passed = for_tracker(given)
    assert passed.keys() - {"PYTHONPATH", "WANDB_ERROR_REPORTING"} == {"WANDB_API_KEY", "HF_TOKEN", "LANG"}
    assert passed["WANDB_ERROR_REPORTING"] == "false"
    assert for_tracker({"WANDB_ERROR_REPORTING": "true"})["WANDB_ERROR_REPORTING"] == "true"


def test_a_line_for_the_log_is_short_printable_and_without_keys() -> None:
    given = {
        "WANDB_API_KEY": "abcdefgh1234",
        "WEAVE_TOKEN": "abcdefgh",
        "HOME": "/home/someone",
        "X_KEY": "no",
    }
    said = without_keys("no\n\x1b[2J abcdefgh1234 abcdefgh /home/someone " + "x" * 10_000, given)
    assert said.startswith("no [2J [removed] [removed] /home/someone x")
    assert len(said) < 600
