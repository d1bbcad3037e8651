"""From the Tools view to the calls behind its numbers, in a real browser."""

from pathlib import Path
from typing import Any

from tests.dashboard.recorded import bad, episode, good, hostile, new_run, play_step, result, task, turn
from tests.dashboard.serving import Serve, Served, look, texts
from turnwise.dashboard.command import open_runs, write_export
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Cause, Reward


def test_every_count_of_a_tool_leads_to_its_episodes(page: Any, served: Served) -> None:
    look(page, served, "tools")
    links = {
        "td:nth-child(3) a": "tool=quote",  # calls
        "td:nth-child(4) a": "tool=quote&error=tool_error",
    }
    for link, wanted in links.items():
        address = page.get_attribute(f"#tools [data-tool='quote'] {link}", "href")
        assert address.startswith("#/trajectories?")
        assert wanted in address
        assert "source=train" in address
    page.click("#tools [data-tool='quote'] td:nth-child(8) a")  # retries
    page.wait_for_selector("#calls-total:text-is('4')")
    assert all("2 retries" in row for row in texts(page, "#call-list tbody tr"))


def test_failed_calls_are_listed_newest_first_and_lead_to_their_turn(page: Any, served: Served) -> None:
    look(page, served, "tools")
    assert page.inner_text("#calls-total") == "6", "any tool"
    page.click("#tools [data-tool='quote'] a.of-tool")
    page.wait_for_selector("#calls-total:text-is('4')")
    rows = [row.split("\t") for row in texts(page, "#call-list tbody tr")]
    assert [row[0].split("\n")[0] for row in rows] == [f"step {step}, turn 1" for step in (3, 2, 1, 0)]
    for words in ("quote", "tool_error", "1.50 s", '{"symbol": "?"}', "no such symbol"):
        assert words in "\t".join(rows[0])
    page.select_option("#calls-tool", "send")
    page.wait_for_selector("#call-list [data-cause='timeout']")
    assert "<script>" in page.inner_text("#call-list"), "as text"
    page.select_option("#calls-error", "tool_error")
    page.wait_for_selector("p#call-list")
    page.click("#servers [data-server='slack'] td:nth-child(10) a")  # lost to infrastructure
    page.wait_for_selector("#calls-total:text-is('2')")
    assert set(texts(page, "#call-list .badge")) == {"timeout"}


def test_a_call_opens_its_episode_at_its_turn(page: Any, serve: Serve, tmp_path: Path) -> None:
    turns = [turn(number, "thinking " * 300, [("quote", {"n": number}, result())]) for number in range(6)]
    failed = turn(6, "", [("quote", {}, result()), ("send", {"to": "me"}, result("late", Cause.TIMEOUT))])
    played = StoredEpisode(episode(task("long"), [*turns, failed]), Reward(0.0, {"outcome": 0.0}))
    with new_run(tmp_path) as folder:
        for step in range(25):
            play_step(folder, step, [good(task("ace")), bad(task("bee")), hostile(task("evil")), played])
    look(page, serve(folder.path), "tools", tool="send")
    assert page.inner_text("#calls-total") == "50"
    page.click("#older")
    page.wait_for_selector(".pages:has-text('21–40')")
    page.click("#call-list a:has-text('step 14, turn 7')")
    page.wait_for_selector("#turn-7:has-text('late')")
    assert (
        page.locator("#turn-1").bounding_box()["y"] < 0 <= page.locator("#turn-7").bounding_box()["y"] < 800
    )


def test_an_exported_file_lists_the_calls_of_its_episodes(page: Any, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    write_export(open_runs([run], tmp_path / "cache"), out)
    page.goto(f"{out.as_uri()}#/tools?tool=quote")
    page.wait_for_selector("#calls:has-text('Only calls of the episodes in this file')")
    assert page.inner_text("#calls-total") == "4"
    page.click("#call-list a >> nth=0")
    page.wait_for_selector("#turn-1:has-text('no such symbol')")
