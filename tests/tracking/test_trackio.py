"""trackio with the real library, on this machine: what its own store gives back, also of a resumed run."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.tracking.played import begin, play
from turnwise.tracking.folder import RunFolder

pytestmark = pytest.mark.skipif(
    find_spec("trackio") is None, reason="needs trackio: pip install 'turnwise[trackio]'"
)
TRACKIO = {"kind": "trackio", "project": "ours", "close_seconds": 90}
READ = """
import json
from trackio.sqlite_storage import SQLiteStorage
runs = {run: SQLiteStorage.get_logs("ours", run) for run in SQLiteStorage.get_runs("ours")}
configs = {run: SQLiteStorage.get_run_config("ours", run) for run in runs}
traces = {run: SQLiteStorage.get_traces("ours", run) for run in runs}
print(json.dumps({"runs": runs, "configs": configs, "traces": traces}, default=str))
"""


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "store"))


def read() -> dict[str, Any]:
    """By the library itself, in a process of its own: where its store is, it settles when it is imported."""
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def column(rows: list[dict[str, Any]], name: str) -> list[tuple[int, Any]]:
    return [(row["step"], row[name]) for row in rows if name in row]


def test_figures_histograms_episodes_and_recipe_are_read_back(tmp_path: Path) -> None:
    with begin(tmp_path, TRACKIO) as folder:
        play(folder, 0, 1, 2)
    assert "lost" not in (folder.path / "training.log").read_text()
    found = read()
    rows = found["runs"]["run"]
    assert column(rows, "reward/mean") == [(0, 0.5), (1, 1.5), (2, 2.5)]
    assert column(rows, "alarm/truncation") == [(1, 1.0)]
    assert column(rows, "evaluation/after/success") == [(3, 0.5)]
    _, ratio = column(rows, "histogram/ratio")[0]
    assert ratio["values"] == [1, 5, 7, 2]
    assert len(ratio["bins"]) == 5
    assert found["configs"]["run"]["seed"] == 7


def test_episodes_are_traces_with_their_calls(tmp_path: Path) -> None:
    with begin(tmp_path, TRACKIO) as folder:
        play(folder, 0)
    told = json.dumps(read())
    for part in ("get_quote", "12 dollars", "It is 12.", "characters left out"):
        assert part in told


def test_a_resumed_run_goes_on_under_its_name(tmp_path: Path) -> None:
    with begin(tmp_path, TRACKIO) as folder:
        folder.log(0, "update", {"a": 0.0})
    with RunFolder.open(folder.path) as folder:
        folder.start_trackers()
        folder.cut(1)
        folder.log(1, "update", {"a": 1.0})
    found = read()["runs"]
    assert list(found) == ["run"]
    assert column(found["run"], "a") == [(0, 0.0), (1, 1.0)]
