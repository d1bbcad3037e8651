"""Several runs in one chart: over steps, hours and tokens, each seed or their mean, zoomed and smoothed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import log_step, new_run
from tests.dashboard.test_runs import change_recipe
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
