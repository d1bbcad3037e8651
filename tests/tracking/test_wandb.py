"""W&B with the real library, offline: what its own files hold of a run, and what they must never hold."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import descendants
from tests.tracking.played import begin, play
from tests.tracking.wandb_file import records
from turnwise.tracking.folder import RunFolder

pytestmark = pytest.mark.skipif(
    find_spec("wandb") is None, reason="needs wandb: pip install 'turnwise[wandb]'"
)
WANDB = {"kind": "wandb", "close_seconds": 90}
SECRET = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_TAGS", "a tag")


def runs_of(folder: RunFolder) -> list[Path]:
    return sorted((folder.path / "wandb").glob("offline-run-*/*.wandb"))


def history(file: Path) -> list[dict[str, Any]]:
    """What was logged, row by row."""
    rows = []
    for record in records(file):
        row: dict[str, Any] = {}
        for item in record.history.item:
            *outer, last = item.nested_key or [item.key]
            place = row
            for key in outer:
                place = place.setdefault(key, {})
            place[last] = json.loads(item.value_json)
        rows.append(row)
    return rows


def column(file: Path, name: str) -> list[tuple[int, Any]]:
    return [(row["step"], row[name]) for row in history(file) if name in row]


def test_figures_histograms_episodes_recipe_and_files_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("WANDB_PROJECT", "ours")
    before = descendants()
    with begin(tmp_path, WANDB) as folder:
        play(folder, 0, 1, 2)
    assert "lost" not in (folder.path / "training.log").read_text()
    [file] = runs_of(folder)
    assert column(file, "reward/mean") == [(0, 0.5), (1, 1.5), (2, 2.5)]
    assert [str(value) for _, value in column(file, "loss/policy")] in (
        ["0.125", "nan", "0.125"],
        ["0.125", "NaN", "0.125"],
    )
    assert column(file, "alarm/truncation") == [(1, 1.0)]
    assert column(file, "evaluation/after/success") == [(3, 0.5)]
    _, ratio = column(file, "histogram/ratio")[0]
    assert ratio["_type"] == "histogram"
    assert ratio["values"] == [1, 5, 7, 2]
    assert len(ratio["bins"]) == 5

    _, shown = column(file, "episodes")[0]
    table = json.loads((file.parent / "files" / shown["path"]).read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["success"] for row in rows] == [True, False]
    assert (rows[0]["task"], rows[0]["reward"], rows[0]["answer"]) == ("t1", 1.05, "It is 12.")
    assert "→ get_quote" in rows[0]["transcript"]
    assert "characters left out" in rows[1]["question"]

    found = list(records(file))
    [run] = [record.run for record in found if record.HasField("run")]
    assert (run.project, run.display_name, list(run.tags)) == ("ours", "run", ["a tag"])
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["seed"] == 7
    assert config["rollout"]["group_size"] == 8
    [artifact] = [record.artifact for record in found if record.artifact.type == "run"]
    kept = {entry.path: Path(entry.local_path) for entry in artifact.manifest.contents}
    assert kept.keys() == {"recipe.json", "versions.json", "metrics.jsonl"}
    assert all(path.is_relative_to(folder.path) for path in kept.values()), "they wait where the run is"
    assert kept["metrics.jsonl"].read_bytes() == folder.metrics.read_bytes()
    assert descendants() <= before, "its service has ended too"

    written = [path for path in folder.path.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert not [path for path in written if SECRET.encode() in path.read_bytes()], "the key is nowhere"


def test_a_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    with begin(tmp_path, WANDB) as folder:
        folder.log(0, "update", {"a": 0.0})
        folder.log(1, "update", {"a": 1.0})
    with RunFolder.open(folder.path) as folder:
        folder.start_trackers()
        folder.cut(1)
        folder.log(1, "update", {"a": 11.0})
    ids = [
        record.run.run_id for file in runs_of(folder) for record in records(file) if record.HasField("run")
    ]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    last = max(runs_of(folder), key=lambda file: file.stat().st_mtime_ns)
    assert column(last, "a") == [(1, 11.0)], "a step that comes again is not refused"


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, to be without a network")
def test_offline_needs_no_network_and_no_key(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from tests.tracking.played import begin, play
with begin(Path({str(tmp_path)!r}), {WANDB!r}) as folder:
    play(folder, 0)
"""
    alone = ["unshare", "--map-root-user", "--net", sys.executable, "-c", program]
    if subprocess.run([*alone[:3], "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody be without a network")
    done = subprocess.run(alone, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    folder = RunFolder.read(tmp_path / "run")
    assert column(runs_of(folder)[0], "reward/mean") == [(0, 0.5)]
    assert "lost" not in (folder.path / "training.log").read_text()


def test_without_a_key_it_says_so_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # no netrc
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # nobody is there
    monkeypatch.setenv("WANDB_MODE", "online")
    with begin(tmp_path / "runs", WANDB) as folder:
        play(folder, 0)
    said = (folder.path / "training.log").read_text()
    assert "tracker wandb has ended, the run goes on without it: " in said
    assert "4 of 4 records lost" in said
    assert "API key" in said
