"""Several runs in one chart: over steps, hours and tokens, each seed or their mean, zoomed and smoothed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import figures, learned, log_step, new_run
from tests.dashboard.serving import Serve, Served, look, readout, texts
from tests.dashboard.test_runs import change_recipe
from turnwise.dashboard.command import open_runs, write_export
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.series import places, series, span

TOKENS = [321.5 * (2 + step) for step in range(4)]
"""Tokens a second times seconds, of every step."""


def write_timed(root: Path, name: str, num_steps: int, hours: float, seed: int, **more: Any) -> Path:
    """A run whose steps take `hours`, the first as long as it says; its success grows with the seed."""
    with new_run(root, name, num_steps=9) as folder:
        for step in range(num_steps):
            log_step(folder, step)
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["time"] = 1e9 + 3600 * hours * (line["step"] + 1)
        metrics = line["metrics"]
        if "success/rate" in metrics:
            metrics["success/rate"] += 0.1 * seed
        for name_ in ("time/rollout_seconds", "time/update_seconds"):
            if name_ in metrics and line["step"] == 0:
                metrics[name_] = 1800 * hours
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder.path / "metrics.jsonl").write_text(text)
    change_recipe(folder.path, {"seed": seed, "run": {"name": name}, **more})
    return folder.path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds, of which the last is shorter and slower, and a run with another learning rate."""
    root = tmp_path_factory.mktemp("runs")
    write_timed(root, "one", 4, 0.5, 1)
    write_timed(root, "two", 4, 0.5, 2)
    write_timed(root, "three", 3, 1.0, 3)
    write_timed(root, "other", 4, 0.5, 1, optimizer={"learning_rate": 1e-4})
    return root


def test_places_are_hours_since_the_start_and_tokens_so_far(run: Path, root: Path, tmp_path: Path) -> None:
    index = Index(root / "one", tmp_path)
    index.refresh()
    assert list(places(index, "time").values()) == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert span(index, "time", 0.9, 1.6) == (1, 2)
    assert span(index, "time", 5.0, None) == (1, 0)
    index = Index(run, tmp_path)
    index.refresh()
    assert list(places(index, "tokens").values()) == pytest.approx([sum(TOKENS[: n + 1]) for n in range(4)])
    line = series(index, ["heldout/success"], axis="tokens")["heldout/success"]
    assert line["xs"] == pytest.approx([0, sum(TOKENS)]), "nothing was sampled before training"


def drawn(page: Any, chart: str) -> list[float]:
    found: list[float] = page.evaluate(f"document.getElementById('chart-{chart}').plot.data[0]")
    return found


def wait_for_places(page: Any, chart: str, wanted: list[float]) -> None:
    for _ in range(100):
        if page.query_selector(f"#chart-{chart} canvas") and drawn(page, chart) == pytest.approx(wanted):
            return
        page.wait_for_timeout(100)
    raise AssertionError(drawn(page, chart))


def open_runs_over(page: Any, served: Served, runs: str, **settings: object) -> None:
    page.goto("about:blank")
    look(page, served, "overview", runs=runs, **settings)
    page.wait_for_selector("main:not([data-drawn='1']) #chart-entropy canvas")


def test_the_axis_is_chosen_once_and_hover_zoom_and_alarms_follow_it(
    page: Any, serve: Serve, root: Path
) -> None:
    served = serve(*(root / name for name in ("one", "other")))
    open_runs_over(page, served, "one,other")
    page.select_option("#axis", "time")
    page.wait_for_selector("#from")
    page.wait_for_selector("#chart-entropy canvas")
    assert drawn(page, "entropy") == pytest.approx([0.5, 1, 1.5, 2])
    assert page.inner_text("#chart-entropy .step") == "2 hours"
    page.hover("#chart-reward .u-over", position={"x": 4, "y": 60})
    assert page.inner_text("#chart-entropy .step") == "0.5 hours", "all charts show the hovered hour"
    box = page.query_selector("#chart-success .u-over").bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 60, steps=3)
    page.mouse.up()
    wait_for_places(page, "entropy", [1, 1.5])
    ends = [float(page.input_value(field)) for field in ("#from", "#to")]
    assert ends == pytest.approx([0.8, 1.7], abs=0.05)
    page.click("#view-health")
    page.wait_for_selector("main[data-view='health'] #chart-cut canvas")
    assert drawn(page, "cut") == pytest.approx([1, 1.5])
    page.focus("#chart-cut")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#chart-cut .step") == "1 hours, an alarm fired"
    page.dblclick("#chart-cut .u-over")
    wait_for_places(page, "cut", [0.5, 1, 1.5, 2])
    page.select_option("#axis", "tokens")
    page.wait_for_selector("#chart-cut .step:has-text('tokens')")


def test_seeds_are_drawn_as_their_mean_with_a_band_unless_each_is_asked_for(
    page: Any, serve: Serve, root: Path
) -> None:
    served = serve(*(root / name for name in ("one", "two", "three", "other")))
    open_runs_over(page, served, "one,two,three")
    means = "mean of 3 seeds success/rate"
    assert float(readout(page, "success")[means]) == pytest.approx(figures(3)["success/rate"] + 0.15)
    assert "(2 of 3 runs)" in page.inner_text("#chart-success .readout")
    page.focus("#chart-success")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert float(readout(page, "success")[means]) == pytest.approx(figures(2)["success/rate"] + 0.2)
    columns = page.evaluate("document.getElementById('chart-success').plot.data.map((each) => each[2])")
    assert columns[1:3] == pytest.approx([figures(2)["success/rate"] + 0.3, figures(2)["success/rate"] + 0.1])
    page.select_option("#seeds", "each")
    page.wait_for_selector("#chart-success [data-label='three success/rate']")
    assert set(readout(page, "success")) == {f"{name} success/rate" for name in ("one", "two", "three")}
    open_runs_over(page, served, "one,two,three,other")
    labels = {"mean of 3 seeds, optimizer.learning_rate = 2e-05: success/rate", "other success/rate"}
    assert set(readout(page, "success")) == labels
    open_runs_over(page, served, "one,other")
    assert page.query_selector("#seeds") is None, "they differ by more than the seed"


def test_smoothing_log_scale_zoom_and_hidden_lines_hold_for_several_runs_together(
    page: Any, serve: Serve, root: Path
) -> None:
    served = serve(*(root / name for name in ("one", "two", "other")))
    settings = {"smooth": 0.5, "log": 1, "axis": "time", "from": 0.9, "to": 2, "seeds": "each"}
    open_runs_over(page, served, "one,two,other", **settings)
    assert drawn(page, "entropy") == pytest.approx([1, 1.5, 2])
    assert page.evaluate("document.getElementById('chart-entropy').plot.scales.y.distr") == 3
    entropies = [learned(step)["entropy/mean"] for step in (1, 2, 3)]
    mean = (entropies[0] / 4 + entropies[1] / 2 + entropies[2]) / 1.75
    numbers = page.query_selector_all("#chart-entropy [data-label='two entropy/mean'] .number")
    assert [float(each.get_attribute("title")) for each in numbers] == pytest.approx([entropies[2], mean])
    page.click("#chart-entropy [data-label='two entropy/mean'] button")
    page.keyboard.press("2")
    page.wait_for_selector("main[data-view='health'] canvas")
    page.keyboard.press("1")
    page.wait_for_selector("#chart-entropy [data-label='two entropy/mean'] [aria-pressed='false']")
    assert drawn(page, "entropy") == pytest.approx([1, 1.5, 2]), "the range is kept"
    page.click("#chart-entropy [aria-pressed='false']")


def test_an_exported_file_has_the_axes_and_the_mean_of_seeds(page: Any, root: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(root, tmp_path / "runs"))
    file, _ = write_export(
        open_runs([copied / "one", copied / "two"], tmp_path / "cache"), tmp_path / "a.html"
    )
    page.goto(f"{file.as_uri()}#/overview?runs=one,two&axis=time&from=0.9")
    page.wait_for_selector("#chart-success canvas")
    assert drawn(page, "success") == pytest.approx([1, 1.5, 2])
    assert list(readout(page, "success")) == ["mean of 2 seeds success/rate"]
    page.goto(f"{file.as_uri()}#/runs?runs=one,two")
    page.wait_for_selector("#run-table tbody tr")
    assert "Starts that failed are not part of this file." in page.inner_text("main")
    assert texts(page, "#run-table tbody a") == ["one", "two"]
