"""Is it better? Families sorted by their change, small ones marked, and the way to their episodes."""

from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import bad, evaluate, good, new_run, task
from tests.dashboard.serving import Serve, look, texts
from turnwise.types import Task

SIZES = {"better": 12, "worse": 12, "small": 3}
"""The number of held-out tasks by family."""


def held(family: str) -> list[Task]:
    return [task(f"{family}-{number:02d}", family) for number in range(SIZES[family])]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Of `better` 6, then 12 succeed; of `worse` 12, then 3; of `small` 1, then 2."""
    counts = {
        "before": {"better": 6, "worse": 12, "small": 1},
        "after": {"better": 12, "worse": 3, "small": 2},
    }
    with new_run(tmp_path) as folder:
        for name, num_right in counts.items():
            played = [
                good(each) if number < num_right[family] else bad(each)
                for family in SIZES
                for number, each in enumerate(held(family))
            ]
            evaluate(folder, name, played)
        return folder.path


def test_the_family_that_got_worse_is_at_the_top(page: Any, serve: Serve, run: Path) -> None:
    served = serve(run)
    look(page, served, "evaluations")
    assert "Success is lower, but it may be chance: -7.4%" in page.inner_text("#answer")
    assert "Worse: worse (n = 12)." in page.inner_text("#answer")
    rows = {row.split("\t")[0]: row.split("\t") for row in texts(page, "#change tbody tr")}
    assert list(rows) == ["all", "worse", "small", "better"]
    assert (rows["worse"][1], rows["worse"][4]) == ("12", "-75.0%")
    assert rows["worse"][2].startswith("100.0%")
    assert rows["worse"][3].startswith("25.0% [")
    assert rows["small"][1] == "3 (few)"
    assert [dots.get_attribute("data-label") for dots in page.query_selector_all("#intervals-family g")] == [
        "worse",
        "small",
        "better",
    ]
    shown = page.eval_on_selector_all("#intervals-family g", "(all) => all.map((one) => one.textContent)")
    assert "n = 3" in shown[1]
    grey = page.eval_on_selector("#intervals-family g.few circle.c2", "(dot) => getComputedStyle(dot).fill")
    blue = page.eval_on_selector("#intervals-family g circle.c2", "(dot) => getComputedStyle(dot).fill")
    assert grey != blue
    assert "Grey: fewer than 10 tasks" in page.inner_text("#change")
    assert page.query_selector("#change canvas") is None, "two evaluations are no curve"


def test_a_family_leads_to_its_failures_and_to_the_same_tasks_before(
    page: Any, serve: Serve, run: Path
) -> None:
    served = serve(run)
    look(page, served, "evaluations")
    page.click("#change tr[data-label='worse'] a.failing")
    page.wait_for_selector("#total .number:text-is('9')")
    assert set(texts(page, "#list tbody td:first-child")) == {"held-out, after training"}
    look(page, served, "evaluations")
    page.click("#change tr[data-label='worse'] a.earlier")
    page.wait_for_selector("#total .number:text-is('12')")
    assert set(texts(page, "#list tbody td:first-child")) == {"held-out, before training"}
    look(page, served, "evaluations")
    page.click("#intervals-family g[data-label='small'] circle >> nth=0")
    page.wait_for_selector("#total .number:text-is('1')")
    look(page, served, "evaluations")
    assert len(texts(page, "#worse tbody tr")) == 9
    assert texts(page, "#worse tbody tr")[0].split("\t")[:4] == ["worse-03", "worse", "100.0%", "0.0%"]
    page.click("#worse tr[data-task='worse-03'] a >> nth=0")
    page.wait_for_selector("#list a:text-is('worse-03')")


def test_one_evaluation_alone_is_shown_without_a_change(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        evaluate(folder, "before", [good(task("a", "one")), bad(task("b", "two"))])
    look(page, serve(folder.path), "evaluations")
    assert [row.split("\t")[0] for row in texts(page, "#change tbody tr")] == ["all", "two", "one"]
    assert "after − before" not in page.inner_text("#change")
