"""From every view to every other by clicks: each filter, each link, and what stands at its end."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.looking import look, readout
from tests.dashboard.recorded import bad, episode, evaluate, good, lines, task, write_run
from tests.dashboard.test_server import Served, serving
from turnwise.rollout.store import StoredEpisode
from turnwise.tracking.folder import RunFolder
from turnwise.types import Difficulty, Reward

Row = dict[str, Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A run with a validation after its second step, of tasks that training plays too."""
    run = write_run(tmp_path_factory.mktemp("runs"))
    with RunFolder.open(run) as folder:
        bee = task("bee", "sums", Difficulty.HARD)
        evaluate(folder, "step-000002", [good(task("ace")), bad(task("ace"), 1), bad(bee), bad(bee, 1)])
    yield from serving(run)


def played(run: Path) -> list[Row]:
    """Every episode as its file has it, and the file."""
    files = [*run.glob("trajectories/*.jsonl"), *run.glob("evaluations/*.trajectories.jsonl")]
    rows = [(file, line) for file in files for line in lines(file) if line["kind"] == "trajectory"]
    return [{**line, "file": file.name.partition(".")[0], "folder": file.parent.name} for file, line in rows]


def calls(row: Row) -> list[str]:
    return [call["name"] for turn in row["trajectory"]["turns"] for call in turn["parsed"]["calls"]]


def steps_done(row: Row) -> int:
    if row["folder"] == "trajectories":
        return int(row["step"])
    return {"before": 0, "step-000002": 2, "after": 4}[row["file"]]


FILTERS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "source": ("step-000002", lambda row: row["file"] == "step-000002" and row["folder"] == "evaluations"),
    "first": ("2", lambda row: steps_done(row) >= 2),
    "last": ("1", lambda row: steps_done(row) <= 1),
    "task": ("AC", lambda row: "ac" in row["trajectory"]["task"]["id"]),
    "family": ("sums", lambda row: row["trajectory"]["task"]["family"] == "sums"),
    "difficulty": ("hard", lambda row: row["trajectory"]["task"]["difficulty"] == "hard"),
    "low": ("0.25", lambda row: row["reward"]["total"] >= 0.25),
    "high": ("0.5", lambda row: row["reward"]["total"] <= 0.5),
    "success": ("0", lambda row: row["reward"]["parts"]["outcome"] < 1),
    "stop": ("max_turns", lambda row: row["trajectory"]["stop"] == "max_turns"),
    "fault": (
        "model",
        lambda row: any(
            result["cause"] == "tool_error"
            for turn in row["trajectory"]["turns"]
            for result in turn["results"]
        ),
    ),
    "tool": ("send", lambda row: "send" in calls(row)),
}


@pytest.mark.parametrize("name", FILTERS)
def test_each_filter_leaves_what_the_files_say_fits(page: Any, served: Served, name: str) -> None:
    value, fits = FILTERS[name]
    rows = played(served.run)
    wanted = sorted(row["trajectory"]["task"]["id"] for row in rows if fits(row))
    assert 0 < len(wanted) < len(rows)
    look(page, served, "trajectories")
    field = page.locator(f"#filter-{name}")
    if field.evaluate("(each) => each.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)
        field.press("Enter")
    page.wait_for_selector(f"#total .number:text-is('{len(wanted)}')")
    assert sorted(link.inner_text() for link in page.query_selector_all("#list tbody a")) == wanted
    page.click("#clear")
    page.wait_for_selector(f"#total .number:text-is('{len(rows)}')")


def test_an_evaluation_is_called_by_what_it_is_wherever_it_stands(page: Any, served: Served) -> None:
    name = "validation, after 2 steps"
    look(page, served, "trajectories", source="step-000002")
    assert page.inner_text("#list tbody td >> nth=0") == name
    assert page.inner_text("#filter-source option:checked") == f"{name} (4)"
    page.click("#list tbody a >> nth=0")
    page.wait_for_selector("#turn-1")
    assert name in page.inner_text(".conversation")
    places = [link.inner_text() for link in page.query_selector_all("#elsewhere tbody a")]
    assert places == ["step 0", "step 1", name, "step 2", "step 3"], "in the order they were played"
    look(page, served, "tools", source="step-000002")
    assert page.inner_text("#source option:checked") == f"{name} (4)"
    look(page, served, "evaluations")
    names = [row.inner_text().split("\t")[0] for row in page.query_selector_all("#evaluations tbody tr")]
    assert names == ["held-out, before training", name, "held-out, after training"]
    assert page.inner_text("#change h3").endswith("held-out, before training → held-out, after training")
    for view in ("trajectories", "tools", "evaluations"):
        look(page, served, view)
        assert "step-0" not in page.inner_text("main"), "no file's name stands for it"


def test_held_out_and_validation_rewards_are_drawn_beside_training(page: Any, served: Served) -> None:
    look(page, served, "overview")
    found = readout(page, "reward")
    wanted = FILTERS["source"][1]
    rewards = [row["reward"]["total"] for row in played(served.run) if wanted(row)]
    assert float(found["validation/reward"]) == pytest.approx(sum(rewards) / 4)
    assert float(found["heldout/reward"]) == pytest.approx(5 / 6)
    page.focus("#chart-reward")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    assert float(readout(page, "reward")["heldout/reward"]) == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("link", "tasks"),
    [
        ("#evaluations [data-name='step-000002'] a", ["ace", "bee", "bee"]),
        (".chart [data-label='sums'] td:nth-child(2) a", ["held2", "held4"]),
        (".chart [data-label='quotes'] td:nth-child(2) a", ["held3", "held5"]),
        (".chart [data-label='easy'] td:nth-child(3) a", ["held0"]),
    ],
)
def test_failures_of_an_evaluation_are_clicked_through_to_their_episodes(
    page: Any, served: Served, link: str, tasks: list[str]
) -> None:
    look(page, served, "evaluations")
    page.click(link)
    page.wait_for_selector("main[data-view='trajectories'] #list a")
    assert sorted(link.inner_text() for link in page.query_selector_all("#list a")) == tasks
    page.click("#list a >> nth=0")
    page.wait_for_selector("#turn-2")
    assert "no success" in page.inner_text(".conversation")
    assert page.inner_text("h2") in tasks
    page.click("#back")
    page.wait_for_selector("#list a")
    assert sorted(link.inner_text() for link in page.query_selector_all("#list a")) == tasks


def test_the_same_task_is_followed_from_step_to_step(page: Any, served: Served) -> None:
    look(page, served, "trajectories", task="ace", source="train")
    page.click("#list tbody a >> nth=0")
    for number, where in enumerate(("step 0", "step 1", "validation, after 2 steps", "step 2", "step 3")):
        page.wait_for_selector("#elsewhere tbody a")
        page.click(f"#elsewhere tbody a >> nth={number}")
        page.wait_for_selector(f".conversation p:has-text('{where}')")
        assert page.inner_text("h2") == "ace"


def test_a_group_stands_side_by_side_under_its_task(page: Any, served: Served) -> None:
    look(page, served, "trajectories", task="ace", source="train", first=1, last=1)
    page.click("#list tbody a >> nth=1")
    page.wait_for_selector("#side")
    page.click("#side")
    page.wait_for_selector(".side >> nth=1")
    assert "What does ace cost?" in page.inner_text("main")
    heads = [link.inner_text() for link in page.query_selector_all(".side h3 a")]
    assert heads == ["ace/0.0", "ace/0.1"]
    sides = [side.inner_text() for side in page.query_selector_all(".side")]
    assert "reward 1" in sides[0]
    assert "outcome 1, format 1" in sides[0]
    assert "reward 0" in sides[1]
    assert "tool_error" in sides[1]
    page.click(".side h3 a >> nth=0")
    page.wait_for_selector("#turn-2")
    assert page.inner_text("#reward") == "1"


def test_an_alarm_and_a_tool_lead_to_their_episodes(page: Any, served: Served) -> None:
    look(page, served, "health")
    page.click("#alarms tr[data-step='1'] a")
    page.wait_for_selector("main[data-view='trajectories'] #list")
    assert {row.inner_text().split("\t")[0] for row in page.query_selector_all("#list tbody tr")} == {
        "step 1"
    }
    look(page, served, "tools")
    page.click("#tools [data-tool='send'] a")
    page.wait_for_selector("main[data-view='trajectories'] #list")
    assert {link.inner_text() for link in page.query_selector_all("#list a")} == {"evil<b>", "long"}


def test_a_row_is_opened_wherever_it_is_clicked_and_pages_are_turned(page: Any, tmp_path: Path) -> None:
    with RunFolder.open(write_run(tmp_path, num_steps=1)) as folder:
        many = [replace(good(task(f"t{number:03d}")).trajectory) for number in range(120)]
        evaluate(folder, "step-000001", [StoredEpisode(link, Reward(1.0, {"outcome": 1.0})) for link in many])
    for served in serving(folder.path):
        look(page, served, "trajectories", source="step-000001")
        seen = []
        for number in range(3):
            page.wait_for_selector(f".pages:has-text('{50 * number + 1}–')")
            seen += [link.inner_text() for link in page.query_selector_all("#list a")]
            if number < 2:
                page.click("#next")
        assert seen == [f"t{number:03d}" for number in range(120)]
        assert page.is_disabled("#next")
        page.click("#previous")
        page.wait_for_selector(".pages:has-text('51–100')")
        page.click("#list tbody tr >> nth=3 >> td >> nth=4")
        page.wait_for_selector("#turn-1")
        assert page.inner_text("h2") == "t053"
        page.goto("about:blank")


def test_an_episode_without_turns_is_shown(page: Any, tmp_path: Path) -> None:
    with RunFolder.open(write_run(tmp_path, num_steps=1)) as folder:
        evaluate(
            folder, "step-000001", [StoredEpisode(episode(task("none"), []), Reward(0.0, {"outcome": 0.0}))]
        )
    for served in serving(folder.path):
        look(page, served, "trajectories", task="none")
        page.click("#list a")
        page.wait_for_selector(".conversation h2:has-text('none')")
        assert "0 turns" in page.inner_text(".conversation")
        page.goto("about:blank")
