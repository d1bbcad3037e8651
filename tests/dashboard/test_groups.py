"""A group member by member: what came out, where its members part, and the links to their episodes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import HOSTILE, episode, new_run, play_step, result, task, trace_step, turn
from tests.dashboard.serving import Serve, Served, look, texts
from turnwise.dashboard.command import open_runs, write_export
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Answer, FollowUp, Matcher, Reward, Stop, Truth

ASKED = replace(
    task("sum"),
    truth=Truth(answer=Answer(185.48, Matcher.NUMERIC, 0.001), writes=(), required_tools=("quote",)),
)
ANSWERS = (
    "It is 9.",
    "It is 185.48.",
    "The total: 9.0",
    "It is 185.48.",
    "9",
    HOSTILE,
    "It is 185.48.",
    "It is 9.",
)


def member(number: int) -> StoredEpisode:
    """All members look up ACE; those with an odd number then BEE."""
    turns = [turn(0, "I look.", [("quote", {"symbol": "ACE"}, result())])]
    if number % 2:
        turns.append(turn(1, calls=[("quote", {"symbol": "BEE"}, result("7"))]))
    turns.append(turn(2, ANSWERS[number]))
    is_right = "185.48" in ANSWERS[number]
    reward = Reward(float(is_right), {"outcome": float(is_right)})
    return StoredEpisode(episode(ASKED, turns, member=number), reward)


@pytest.fixture(params=["live", "exported"])
def root(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> str:
    """The address of a page with one group of eight."""
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [member(number) for number in range(8)])
        trace_step(folder, 0, ["sum/0.0"])
    if request.param == "live":
        return serve(folder.path).url
    write_export(open_runs([folder.path], tmp_path / "cache"), tmp_path / "report.html")
    return f"file://{tmp_path}/report.html"


def row_of(page: Any, member: int) -> list[str]:
    return texts(page, f"#matrix [data-member='{member}'] td")


def test_a_group_is_a_table_and_its_transcripts_from_where_they_part(page: Any, root: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{root}#/trajectory?id=1&group=1")
    page.wait_for_selector("#matrix")
    heads = ["member", "answer", "check: answer", "check: tools", "check: writes", "reward", "advantage"]
    assert texts(page, "#matrix th") == [*heads, "turns", "tokens", "stop"]
    assert row_of(page, 2) == ["sum/0.1", "185.48", "✓", "✓", "✓", "1", "0.625", "3", "12", "answered"]
    assert row_of(page, 1)[1:7] == ["9", "✗", "✓", "✓", "0", "0.5"], "the advantage that the update used"
    assert texts(page, "#matrix td:nth-child(2)")[:4] == ["9", "9", "9", "9"], "the same answers together"
    assert [words.rpartition(": ")[2] for words in texts(page, ".alike > h3")] == [
        "4 of 8",
        "3 of 8",
        "1 of 8",
    ]
    assert page.evaluate(
        "[...document.querySelectorAll('.wide')].every((e) => e.scrollWidth <= e.clientWidth)"
    )
    assert page.inner_text("#common-turns summary") == "The first turn is the same in all 8"
    assert "I look." not in page.inner_text(".sides >> nth=0")
    assert texts(page, ".turn.parting h3 a") == ["turn 2"] * 8
    page.click("#common-turns summary")
    assert "I look." in page.inner_text("#common-turns")
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_every_cell_and_turn_of_a_group_leads_to_the_members_episode(page: Any, root: str) -> None:
    links = {
        "#matrix [data-member='2'] td:nth-child(3) a": "#turn-3.at",
        "#matrix [data-member='2'] td:nth-child(8) a": "#turn-2.at",
        "#matrix [data-member='2'] td:nth-child(7) a": "#turn-1 .token",
        ".side:has-text('sum/0.1') .turn >> nth=1 >> h3 a": "#turn-3.at",
    }
    for link, target in links.items():
        page.goto(f"{root}#/trajectory?id=1&group=1")
        page.click(link)
        page.wait_for_selector(target)
        assert "It is 185.48." in page.inner_text("#turn-3"), link


def test_members_that_do_the_same_have_all_turns_in_common(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        same = [
            replace(member(0), trajectory=replace(member(0).trajectory, episode_id=str(n))) for n in range(18)
        ]
        play_step(folder, 0, same)
    look(page, serve(folder.path), "trajectory", id=1, group=1)
    assert (
        page.inner_text("#common-turns summary") == "The first 2 turns are the same in all 16 that are shown"
    )
    assert "16 of its 18 members are shown." in page.inner_text(".conversation")
    assert "It ends with the turns that all have in common." in page.inner_text(".side >> nth=1")


def talk(served: Served, page: Any, **settings: object) -> None:
    [row] = served.ask("trajectories", task="talk")["rows"]
    look(page, served, "trajectory", id=row["id"], run="run", **settings)


def test_each_message_of_a_conversation_has_its_verdict_everywhere(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    follow_up = FollowUp("And yesterday?", Truth(answer=Answer("50.1")))
    asked = replace(task("talk"), conversation=(follow_up, FollowUp("Thanks.", follow_up.truth)))
    turns = [turn(0, "51.9"), replace(turn(1, "I do not know"), user=follow_up.message, message=1)]
    played = replace(episode(asked, turns, stop=Stop.MAX_TURNS), endings=(Stop.ANSWERED,))
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [StoredEpisode(played, Reward(0.0, {"outcome": 0.0}))])
    served = serve(folder.path)
    look(page, served, "trajectories")
    assert page.inner_text("#list .messages").split() == ["1✓", "2✗", "3✗"]
    talk(served, page)
    assert texts(page, ".prompt h3") == [
        "user, message 1 of 3: answer ✓",
        "user, message 2 of 3: ending ✗, answer ✗",
    ]
    talk(served, page, group=1)
    page.wait_for_selector("#matrix")
    assert texts(page, "#matrix th")[2:5] == ["message 1", "message 2", "message 3"]
    assert texts(page, "#matrix td")[2:5] == ["answer ✓", "ending ✗, answer ✗", "sent ✗"]
    page.click("#matrix td:nth-child(3) a")
    page.wait_for_selector("#turn-1.at")
