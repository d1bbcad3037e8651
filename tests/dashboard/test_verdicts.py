"""An episode's page and the list of episodes say why an episode failed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import HOSTILE, episode, good, new_run, play_step, result, task, turn
from tests.dashboard.serving import Serve, Served, look, texts
from turnwise.dashboard.command import open_runs, write_export
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
    page.goto("about:blank")  # or the episode before would be read
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


HEADS = {
    "task": ["b", "C", "sum", "z"],
    "question": ["b", "C", "sum", "z"],
    "answer": ["C", "z", "sum", "b"],
    "expected": ["b", "C", "z", "sum"],
    "failed": ["sum", "b", "C", "z"],
    "reward": ["C", "z", "b", "sum"],
    "calls": ["C", "sum", "z", "b"],
}
"""By column: the tasks in the order of the first click. Ties are in the order of the file."""


def sorted_run(root: Path) -> Path:
    with new_run(root) as folder:
        silent = StoredEpisode(episode(task("b"), [turn(0, "")], stop=Stop.MAX_TURNS), FAILED)
        play_step(folder, 0, [silent, good(task("C")), wrong(), good(task("z"))])
    return folder.path


def wait_for_order(page: Any, wanted: list[str]) -> None:
    for _ in range(100):
        if texts(page, "#list tbody a") == wanted:
            return
        page.wait_for_timeout(50)
    raise AssertionError((texts(page, "#list tbody a"), wanted))


@pytest.mark.parametrize("is_exported", [False, True])
def test_the_list_sorts_by_its_heads_with_mouse_and_keyboard(
    page: Any, serve: Serve, tmp_path: Path, is_exported: bool
) -> None:
    run = sorted_run(tmp_path)
    if is_exported:
        write_export(open_runs([run], tmp_path / "cache"), tmp_path / "report.html")
        page.goto(f"file://{tmp_path}/report.html#/trajectories")
        page.wait_for_selector("#list")
    else:
        look(page, serve(run), "trajectories")
    for head, wanted in HEADS.items():
        page.click(f"#sort-{head}")
        wait_for_order(page, wanted)
    page.focus("#sort-task")
    page.keyboard.press("Enter")
    wait_for_order(page, HEADS["task"])
    page.keyboard.press("Enter")
    wait_for_order(page, HEADS["task"][::-1])
    assert page.evaluate("document.activeElement.id") == "sort-task"
    assert texts(page, "th[aria-sort='descending']") == ["task ▼"]
    page.select_option("#filter-sort", "-expected")
    wait_for_order(page, ["sum", "b", "C", "z"])


BROKEN_WORDS = """() => [...document.querySelectorAll("#list .words")].flatMap((element) => {
  const [text] = element.childNodes, range = document.createRange();
  return [...text.data.matchAll(/\\S+/g)].filter((word) => {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length !== 1;
  }).map((word) => word[0]);
})"""
"""The words of questions and answers that are on more than one line."""


@pytest.mark.parametrize("width", [390, 1280])
def test_questions_break_between_words(page: Any, serve: Serve, tmp_path: Path, width: int) -> None:
    asked = task("long", prompt="Compare the consolidated quarterly revenue of both subsidiaries. " * 3)
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [good(asked)])
    page.set_viewport_size({"width": width, "height": 800})
    look(page, serve(folder.path), "trajectories")
    assert len(texts(page, "#list .words")) == 3
    assert page.evaluate(BROKEN_WORDS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
