"""From view to view by clicks: every filter, every link, and what is behind it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.dashboard.recorded import Row, evaluate, good, new_run, played, task
from tests.dashboard.serving import Serve, Served, look, texts


def calls(row: Row) -> list[str]:
    return [call["name"] for turn in row["trajectory"]["turns"] for call in turn["parsed"]["calls"]]


def has_cause(row: Row, cause: str) -> bool:
    turns = row["trajectory"]["turns"]
    return any(result["cause"] == cause for turn in turns for result in turn["results"])


def words(row: Row) -> list[str]:
    return [turn["parsed"]["text"] for turn in row["trajectory"]["turns"]]


def steps_done(row: Row) -> int:
    return (
        int(row["step"])
        if row["source"] == "train"
        else {"before": 0, "step-000002": 2, "after": 4}[row["source"]]
    )


FILTERS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "source": ("step-000002", lambda row: row["source"] == "step-000002"),
    "first": ("2", lambda row: steps_done(row) >= 2),
    "last": ("1", lambda row: steps_done(row) <= 1),
    "task": ("AC", lambda row: "ac" in row["trajectory"]["task"]["id"]),
    "family": ("sums", lambda row: row["trajectory"]["task"]["family"] == "sums"),
    "difficulty": ("hard", lambda row: row["trajectory"]["task"]["difficulty"] == "hard"),
    "low": ("0.25", lambda row: row["reward"]["total"] >= 0.25),
    "high": ("0.5", lambda row: row["reward"]["total"] <= 0.5),
    "success": ("0", lambda row: row["reward"]["parts"]["outcome"] < 1),
    "stop": ("max_turns", lambda row: row["trajectory"]["stop"] == "max_turns"),
    "fault": ("model", lambda row: has_cause(row, "tool_error")),
    "tool": ("send", lambda row: "send" in calls(row)),
    "error": ("timeout", lambda row: has_cause(row, "timeout")),
    "check": ("ending", lambda row: row["trajectory"]["stop"] == "max_turns"),
    "search": ("I do_not know", lambda row: "I do not know" in words(row)),
}
"""By the name of the field: a value, and whether an episode of the files passes the filter."""


def test_every_filter_leaves_the_episodes_that_fit(page: Any, served: Served) -> None:
    rows = played(served.run)
    look(page, served, "trajectories")
    for name, (value, fits) in FILTERS.items():
        wanted = sorted(row["trajectory"]["task"]["id"] for row in rows if fits(row))
        assert 0 < len(wanted) < len(rows)
        field = page.locator(f"#filter-{name}")
        if field.evaluate("(field) => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
            field.press("Enter")
        page.wait_for_selector(f"#total .number:text-is('{len(wanted)}')")
        assert sorted(texts(page, "#list tbody td:nth-child(2)")) == wanted, name
        page.click("#clear")
        page.wait_for_selector(f"#total .number:text-is('{len(rows)}')")


def test_an_evaluation_has_the_same_name_everywhere(page: Any, served: Served) -> None:
    name = "validation, after 2 steps"
    look(page, served, "trajectories", source="step-000002")
    assert page.inner_text("#list tbody td >> nth=0") == name
    assert page.inner_text("#filter-source option:checked") == f"{name} (4)"
    look(page, served, "tools", source="step-000002")
    assert page.inner_text("#source option:checked") == f"{name} (4)"
    look(page, served, "evaluations")
    names = [row.partition("\t")[0] for row in texts(page, "#evaluations tbody tr")]
    assert names == ["held-out, before training", name, "held-out, after training"]
    assert page.inner_text("#change h3").endswith("held-out, before training → held-out, after training")
    for view in ("trajectories", "tools", "evaluations"):
        look(page, served, view)
        assert "step-0" not in page.inner_text("main"), "a file name"


FAILURES = {
    "#evaluations [data-name='step-000002'] a": ["ace", "bee", "bee"],
    "#change tr[data-label='sums'] a.earlier": ["held0", "held2", "held4"],
    "#by-difficulty tr[data-label='easy'] a.failing": ["held0"],
}
"""By link in the evaluations: the tasks of the episodes that it leads to."""


def test_links_lead_from_failures_alarms_and_tools_to_their_episodes(page: Any, served: Served) -> None:
    for link, tasks in FAILURES.items():
        look(page, served, "evaluations")
        page.click(link)
        page.wait_for_selector("main[data-view='trajectories'] #list a")
        assert sorted(texts(page, "#list a")) == tasks
    page.click("#list a >> nth=0")
    page.wait_for_selector("#turn-2")
    assert "no success" in page.inner_text(".conversation")
    page.click("#back")
    page.wait_for_selector("#list a")
    assert texts(page, "#list a") == ["held0"], "filtered as before"
    look(page, served, "health")
    page.click("#alarms [data-alarm='truncation'] a.first")
    page.wait_for_selector("main[data-view='trajectories'] #list")
    assert {row.partition("\t")[0] for row in texts(page, "#list tbody tr")} == {"step 1"}
    look(page, served, "tools")
    page.click("#tools [data-tool='send'] td:nth-child(3) a")
    page.wait_for_selector("main[data-view='trajectories'] #list")
    assert set(texts(page, "#list a")) == {"evil<b>", "long"}


def test_an_episode_shows_its_calls_its_group_and_the_same_task_at_other_steps(
    page: Any, served: Served
) -> None:
    look(page, served, "trajectories", task="ace", source="train", first=1, last=1)
    page.click("#list tbody a >> nth=1")
    page.wait_for_selector("#turn-2")
    assert page.inner_text("#reward") == "0"
    assert page.inner_text("#parts tbody") == "outcome\t0\nformat\t0.5"
    for words in ("quote", "tool_error", "1.50 s", "2 retries", '{"symbol": "?"}'):
        assert words in page.inner_text("#turn-1")
    assert texts(page, "#group .chip") == ["1", "0"]
    places = ["step 0", "step 1", "validation, after 2 steps", "step 2", "step 3"]
    assert texts(page, "#elsewhere tbody a") == places
    for number, place in enumerate(places):
        page.click(f"#elsewhere tbody a >> nth={number}")
        page.wait_for_selector(f".conversation p:has-text('{place}')")
        assert page.inner_text("h2") == "ace"
    page.click("#side")
    page.wait_for_selector(".side >> nth=1")
    assert "What does ace cost?" in page.inner_text("main")
    assert texts(page, ".side > h3 a") == ["ace/0.0", "ace/0.1"]
    right, wrong = texts(page, ".side")
    for words in ("reward 1", "outcome 1, format 1", "51.9"):
        assert words in right
    for words in ("reward 0", "tool_error", "I do not know"):
        assert words in wrong
    page.click(".side > h3 a >> nth=0")
    page.wait_for_selector("#turn-2")
    assert page.inner_text("#reward") == "1"


def test_a_row_is_a_link_and_long_lists_have_pages(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        evaluate(folder, "step-000001", [good(task(f"t{number:03d}")) for number in range(120)])
    look(page, serve(folder.path), "trajectories", source="step-000001")
    seen = []
    for number in range(3):
        page.wait_for_selector(f".pages:has-text('{50 * number + 1}–')")
        seen += texts(page, "#list a")
        if number < 2:
            page.click("#next")
    assert seen == [f"t{number:03d}" for number in range(120)]
    assert page.is_disabled("#next")
    page.click("#previous")
    page.wait_for_selector(".pages:has-text('51–100')")
    page.click("#list tbody tr >> nth=3 >> td >> nth=4")
    page.wait_for_selector("#turn-1")
    assert page.inner_text("h2") == "t053"
