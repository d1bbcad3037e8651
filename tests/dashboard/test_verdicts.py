"""An episode's page and the list of episodes say why an episode failed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.dashboard.recorded import HOSTILE, episode, new_run, play_step, result, task, turn
from tests.dashboard.serving import Serve, Served, look, texts
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Answer, FollowUp, Matcher, Reward, Stop, Truth

FAILED = Reward(0.0, {"outcome": 0.0})
ASKED = replace(
    task("sum"),
    truth=Truth(answer=Answer(185.48, Matcher.NUMERIC, 0.001), writes=(), required_tools=("quote",)),
)


def wrong(words: str = "It is 187.48.") -> StoredEpisode:
    turns = [turn(0, calls=[("quote", {}, result())]), turn(1, words)]
    return StoredEpisode(episode(ASKED, turns), FAILED)


def opened(page: Any, served: Served, name: str) -> list[str]:
    """Open the only episode of a task; return the lines of its head."""
    [row] = served.ask("trajectories", task=name)["rows"]
    look(page, served, "trajectory", id=row["id"], run="run")
    return texts(page, "#verdicts li")


def test_an_episode_says_what_was_expected_said_and_which_check_failed(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    follow_up = FollowUp("And yesterday?", Truth(answer=Answer("50.1")))
    asked = replace(task("talk"), conversation=(follow_up, FollowUp("Thanks.", follow_up.truth)))
    turns = [turn(0, "51.9"), replace(turn(1, HOSTILE), user=follow_up.message, message=1)]
    talk = replace(episode(asked, turns), endings=(Stop.ANSWERED,))
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [wrong(), StoredEpisode(talk, FAILED)])
    served = serve(folder.path)
    page.set_viewport_size({"width": 390, "height": 800})
    assert opened(page, served, "sum") == ["expected 185.48, said 187.48: answer ✗, tools ✓, writes ✓"]
    assert texts(page, "#verdicts .poor") == ["answer ✗"]
    first, second, third = opened(page, served, "talk")
    assert first == "message 1: expected 51.9, said 51.9: answer ✓"
    assert second.startswith("message 2: expected 50.1, said <script>")
    assert second.endswith("answer ✗")
    assert third == "message 3: expected 50.1, no answer: sent ✗"
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_episode_whose_truth_is_malformed_is_shown_without_verdict(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    asked = replace(task("odd"), truth=Truth(answer=Answer("not a number", Matcher.NUMERIC)))
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [StoredEpisode(episode(asked, [turn(0, "5")]), FAILED)])
    assert opened(page, serve(folder.path), "odd") == []
    assert page.inner_text(".conversation .badge >> nth=0") == "no success"
