"""trackio with the real library, on this machine: its own store returns what was written."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.records.sample_run import log_of, resumed, run_program, tracked

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


def read() -> dict[str, Any]:
    """Read the store in a separate process: the library chooses its folder when it is imported."""
    done = run_program(READ)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def column(rows: list[dict[str, Any]], name: str) -> list[tuple[int, Any]]:
    return [(row["step"], row[name]) for row in rows if name in row]


def test_a_run_is_read_back_under_one_name_also_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "store"))
    folder = tracked(tmp_path, TRACKIO, 0, 1, 2)
    resumed(folder, 3, 3)
    assert "lost" not in log_of(folder)
    found = read()
    assert list(found["runs"]) == ["run"]
    rows = found["runs"]["run"]
    assert column(rows, "reward/mean") == [(0, 0.5), (1, 1.5), (2, 2.5)]
    assert column(rows, "alarm/truncation") == [(1, 1.0)]
    assert column(rows, "evaluation/after/success") == [(3, 0.5)]
    assert column(rows, "a") == [(3, 13.0)]
    _, ratio = column(rows, "histogram/ratio")[0]
    assert (ratio["values"], len(ratio["bins"])) == ([1, 5, 7, 2], 5)
    assert found["configs"]["run"]["seed"] == 7
    for part in ("get_quote", "12 dollars", "It is 12.", "characters left out"):
        assert part in json.dumps(found["traces"])
