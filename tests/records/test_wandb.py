"""W&B with the real library, offline: what its files hold of a run, and what they must never hold."""

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import descendants
from tests.records.sample_run import SECRET, begin, files_with, log_of, resumed, run_program, tracked
from tests.records.wandb_file import records
from turnwise.records.folder import RunFolder

pytestmark = pytest.mark.skipif(
    find_spec("wandb") is None, reason="needs wandb: pip install 'turnwise[wandb]'"
)
WANDB = {"kind": "wandb", "close_seconds": 90}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_TAGS", "a tag")


def runs_of(folder: RunFolder) -> list[Path]:
    return sorted((folder.path / "wandb").glob("offline-run-*/*.wandb"))


def history(file: Path) -> list[dict[str, Any]]:
    """The logged rows."""
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


def test_a_run_is_read_back_and_its_files_hold_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("WANDB_PROJECT", "ours")
    before = descendants()
    folder = tracked(tmp_path, WANDB, 0, 1, 2)
    assert "lost" not in log_of(folder)
    [file] = runs_of(folder)
    assert column(file, "reward/mean") == [(0, 0.5), (1, 1.5), (2, 2.5)]
    assert [str(value).lower() for _, value in column(file, "loss/policy")] == ["0.125", "nan", "0.125"]
    assert column(file, "alarm/truncation") == [(1, 1.0)]
    assert column(file, "evaluation/after/success") == [(3, 0.5)]
    _, ratio = column(file, "histogram/ratio")[0]
    assert (ratio["_type"], ratio["values"], len(ratio["bins"])) == ("histogram", [1, 5, 7, 2], 5)

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
    assert all(path.is_relative_to(folder.path) for path in kept.values()), "files wait in the run's folder"
    assert kept["metrics.jsonl"].read_bytes() == folder.metrics.read_bytes()
    assert descendants() <= before, "the service of wandb has ended"
    assert not files_with(folder, SECRET)


def test_a_resumed_run_keeps_its_id_and_may_repeat_a_step(tmp_path: Path) -> None:
    with begin(tmp_path, WANDB) as folder:
        folder.log(0, "update", {"a": 0.0})
        folder.log(1, "update", {"a": 1.0})
    resumed(folder, 1, 1)
    found = [record for file in runs_of(folder) for record in records(file)]
    ids = [record.run.run_id for record in found if record.HasField("run")]
    assert (len(ids), len(set(ids))) == (2, 1)
    last = max(runs_of(folder), key=lambda file: file.stat().st_mtime_ns)
    assert column(last, "a") == [(1, 11.0)]


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, to be without a network")
def test_offline_mode_needs_neither_a_network_nor_a_key(tmp_path: Path) -> None:
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow network namespaces")
    program = f"""
from pathlib import Path
from tests.records.sample_run import tracked
tracked(Path({str(tmp_path)!r}), {WANDB!r}, 0)
"""
    done = run_program(program, *alone)
    assert done.returncode == 0, done.stderr
    folder = RunFolder.read(tmp_path / "run")
    assert column(runs_of(folder)[0], "reward/mean") == [(0, 0.5)]
    assert "lost" not in log_of(folder)


def test_without_a_key_the_log_says_so_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # has no netrc
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_MODE", "online")
    log = log_of(tracked(tmp_path / "runs", WANDB, 0))
    for words in (
        "tracker wandb has ended; the run continues without it: ",
        "4 of 4 records lost",
        "API key",
    ):
        assert words in log
