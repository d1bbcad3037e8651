"""The page of a run's tasks: search and filters, one task in full, the exploration's report, odd files."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import good, new_run, play_step, task, write_tasks
from tests.dashboard.serving import Serve, look, serving, texts
from tests.explore import explored
from turnwise.dashboard.views.task_files import MAX_TASK_FILE_BYTES
from turnwise.dashboard.views.task_list import MAX_CALLS
from turnwise.explore.html_report import html_report
from turnwise.explore.report_json import as_json
from turnwise.system.files.atomic_write import write_json
from turnwise.tasks.load import save
from turnwise.types import DemoTurn, Difficulty, ToolCall


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 120 training tasks, two of them played once, and six held-out ones."""
    named = [task(f"t{number}", "quotes" if number % 3 else "sums") for number in range(119)]
    named.append(task("odd one", "sums", Difficulty.HARD, prompt="How LARGE is the harbour?"))
    write_tasks(tmp_path, named)
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [good(named[0]), good(named[1])])
        play_step(folder, 1, [good(named[0])])
        return folder.path


def test_tasks_are_searched_filtered_and_paged(page: Any, serve: Serve, run: Path) -> None:
    look(page, serve(run), "tasks")
    assert texts(page, "#task-files li") == ["train: train.jsonl: 120 tasks", "test: test.jsonl: 6 tasks"]
    assert page.inner_text("#total") == "126"
    page.click("#next")
    page.wait_for_selector("#task-list a:text-is('t50')")
    page.fill("#filter-task", "large")
    page.press("#filter-task", "Enter")
    page.wait_for_selector("#total .number:text-is('1')")
    cells = page.inner_text("#task-list tbody tr").split("\t")
    assert cells == ["train", "odd one", "How LARGE is the harbour?", "sums", "hard", "quote", "0", ""]
    page.click("#clear")
    page.select_option("#filter-split", "test")
    page.wait_for_selector("#total .number:text-is('6')")
    page.select_option("#filter-family", "sums")
    page.wait_for_selector("#total .number:text-is('3')")
    page.select_option("#filter-difficulty", "hard")
    page.wait_for_selector("p#task-list:text-is('No task fits.')")


def test_a_task_shows_its_truth_its_demonstration_and_its_episodes(
    page: Any, serve: Serve, run: Path
) -> None:
    look(page, serve(run), "tasks", text="t0")
    assert page.inner_text("#task-list tbody tr >> nth=0").split("\t")[-2:] == ["2", "100.0%"]
    page.click("#task-list a:text-is('t0')")
    page.wait_for_selector("#played table")
    assert page.inner_text("h2") == "t0"
    assert page.inner_text(".turn.prompt pre") == "What does t0 cost?"
    assert '"51.9"' in page.inner_text("aside pre")
    assert page.inner_text("pre.arguments") == '{"symbol": "ACE"}'
    assert page.inner_text("pre.result") == "the price is 51.9"
    assert texts(page, "#played tbody tr") == ["step 0\t1\t100.0%\t1", "step 1\t1\t100.0%\t1"]
    page.keyboard.press("Escape")
    page.wait_for_selector("#task-list")
    assert "text=t0" in page.url, "the list is filtered as before"
    page.click("#task-list a:text-is('t0')")
    page.click("#played a >> nth=0")
    page.wait_for_selector(".conversation #turn-1")


def test_an_exploration_is_summed_up_and_its_report_opens_without_scripts(
    page: Any, serve: Serve, run: Path
) -> None:
    write_json(run.parent / "report.json", as_json(explored.shop()))
    script = b"<script>window.opener && (window.opener.broken = 1); document.title = 'ran'</script>"
    (run.parent / "report.html").write_bytes(
        html_report(explored.shop()).replace(b"<main>", b"<main>" + script)
    )
    served = serve(run)
    look(page, served, "tasks")
    words = "10 of 14 tools reached, 120 tasks accepted, 100 drafts rejected"
    assert words in page.inner_text("#task-files li >> nth=0")
    assert page.inner_text("#task-files li >> nth=1") == "test: test.jsonl: 6 tasks"
    response, body = served.get("/report?run=run&split=train")
    assert response.status == 200
    assert response.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert body == (run.parent / "report.html").read_bytes()
    with page.context.expect_page() as opening:
        page.click("#task-files a >> nth=0")
    report = opening.value
    report.wait_for_selector("#summary")
    assert report.title() == "turnwise: exploration"
    back = report.locator(".card").evaluate("(card) => getComputedStyle(card).borderRadius")
    assert back != "0px", "its style sheet is applied"
    report.close()


def test_what_an_exploration_reached_and_rejected_is_shown_with_reasons(
    page: Any, serve: Serve, run: Path
) -> None:
    write_json(run.parent / "report.json", as_json(explored.shop()))
    look(page, serve(run), "tasks")
    page.click("#exploration summary")
    words = page.inner_text("#exploration")
    assert "10 of 14 tools answered, 9 are in tasks; 120 of 220 drafts became tasks (54.5%)" in words
    assert "mail was not explored to the end: did not start: command not found" in words
    rows = [row.split("\t") for row in texts(page, "#tools-found tbody tr")]
    assert rows[0][:3] == ["shop", "shop_pay", "not reached"]
    assert rows[0][-1] == "needs a key"
    assert [row[2] for row in rows][-1] == "in tasks"
    example = "How many orders are open? 3 was the most common answer."
    assert texts(page, "#rejected tbody tr")[0].split("\t") == ["guessable", "60", "60.0%", example]


def test_a_hostile_exploration_stays_text_and_is_bounded(page: Any, serve: Serve, run: Path) -> None:
    write_json(run.parent / "report.json", as_json(explored.hostile()))
    served = serve(run)
    assert len(json.dumps(served.ask("exploration", split="train"))) < 2_000_000
    look(page, served, "tasks")
    page.click("#exploration summary")
    assert "<script>" in page.inner_text("#exploration")
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto("about:blank")
    (run.parent / "report.json").write_text('{"figures": {}}')
    look(page, served, "tasks")
    assert page.query_selector("#exploration") is None


def ask(run: Path) -> Any:
    with serving(run) as served:
        return served.ask("tasks")


def test_odd_task_files_are_explained(run: Path) -> None:
    train = run.parent / "train.jsonl"
    rows = train.read_text().splitlines()
    train.write_text("\n".join([rows[0], "not JSON", '{"id": 1}', "[" * 100_000, rows[1]]))
    [file, _] = ask(run)["files"]
    assert (file["num_tasks"], file["num_bad"], file["problem"]) == (2, 3, "")
    train.unlink()
    assert ask(run)["files"][0]["problem"] == "the file is not there"
    os.mkfifo(train)
    assert ask(run)["files"][0]["problem"] == "is a FIFO, not a file"
    train.unlink()
    with train.open("wb") as sparse:
        sparse.truncate(MAX_TASK_FILE_BYTES + 1)
    assert "has more than" in ask(run)["files"][0]["problem"]


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "a\0.json", "/dev/zero", "x" * 5_000 + ".json", "t.parquet"]
)
def test_a_recipe_may_name_any_file(run: Path, path: str) -> None:
    recipe = json.loads((run / "recipe.json").read_text())
    recipe["tasks"] = {"train": path, "validation": "", "test": None}
    (run / "recipe.json").write_text(json.dumps(recipe))
    found = ask(run)
    [file] = found["files"]
    assert file["problem"]
    assert (found["total"], file["has_report"]) == (0, False)


def test_a_task_of_any_size_has_an_answer_of_bounded_size(run: Path) -> None:
    calls = tuple(ToolCall(str(number), "quote", {"text": "x" * 1_000}) for number in range(2_000))
    large = replace(
        task("large", prompt="y" * 2_000_000), demonstration=(DemoTurn("", calls), DemoTurn("done"))
    )
    save([large], run.parent / "train.jsonl")
    with serving(run) as served:
        found = served.ask("task", split="train", place=0)
        assert len(json.dumps(served.ask("tasks"))) < 10_000
    assert len(json.dumps(found)) < 1_000_000
    assert (found["num_calls"], len(found["demonstration"][0]["calls"])) == (2_000, MAX_CALLS)
    assert found["demonstration"][1]["text"] == "done"


def test_a_run_without_task_files_says_so(page: Any, serve: Serve, run: Path) -> None:
    recipe = json.loads((run / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps({**recipe, "tasks": {}}))
    page.goto(f"{serve(run).url}#/tasks")
    page.wait_for_selector('#tasks p:text-is("The run\'s recipe names no task file.")')
