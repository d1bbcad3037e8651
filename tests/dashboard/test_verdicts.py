"""An episode's page and the list of episodes say why an episode failed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.dashboard.recorded import HOSTILE, episode, good, new_run, play_step, result, task, turn
from tests.dashboard.serving import Serve, Served
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


def row_of(served: Served, name: str) -> dict[str, Any]:
    [row] = served.ask("trajectories", task=name)["rows"]
    return {key: row[key] for key in ("question", "answer", "expected", "failed_check")}


def test_a_row_has_the_question_both_answers_and_the_first_failed_check(serve: Serve, tmp_path: Path) -> None:
    follow_up = FollowUp(f"And\nyesterday? {HOSTILE}".replace("\ud800", ""), Truth(answer=Answer("50.1")))
    asked = replace(task("talk"), conversation=(follow_up,))
    turns = [turn(0, "51.9"), replace(turn(1, "x\ud800" * 500), user=follow_up.message, message=1)]
    talk = replace(episode(asked, turns), endings=(Stop.ANSWERED,))
    odd = replace(task("odd"), truth=Truth(answer=Answer("not a number", Matcher.NUMERIC)))
    with new_run(tmp_path) as folder:
        played = [good(task("ace")), wrong(), StoredEpisode(talk, FAILED)]
        play_step(folder, 0, [*played, StoredEpisode(episode(odd, [turn(0, "5")]), FAILED)])
    served = serve(folder.path)
    keys = ("question", "answer", "expected", "failed_check")
    assert tuple(row_of(served, "ace")[key] for key in keys) == ("What does ace cost?", "51.9", "51.9", "")
    assert tuple(row_of(served, "sum")[key] for key in keys[1:]) == ("187.48", "185.48", "answer")
    found = row_of(served, "talk")
    assert found["question"].startswith("And yesterday? <script>")
    assert found["answer"] == "x?" * 59 + "x…"
    assert (found["expected"], found["failed_check"]) == ("50.1", "answer")
    assert tuple(row_of(served, "odd")[key] for key in keys) == ("What does odd cost?", "", "", "")
