"""A damaged file in a run folder becomes one line on the page; all other runs are shown as before."""

import contextlib
import ctypes
import functools
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

from tests.dashboard.recorded import (
    bad,
    evaluate,
    good,
    log_step,
    new_run,
    play_step,
    summary,
    task,
    trace_step,
)
from turnwise.cli import app
from turnwise.dashboard.server import PATHS
from turnwise.records.ending import Ending, How
from turnwise.system.files.atomic_write import write_json

OBJECTS = ("recipe.json", "summary.json", "ended.json", "lock", "tokenizer.json", "evaluations/before.json")
LINES = (
    "metrics.jsonl",
    "evaluations/before.trajectories.jsonl",
    "trajectories/step-000001.jsonl",
    "tokens/step-000001.jsonl",
)
FOLDERS = ("evaluations", "trajectories", "tokens")

WRONG_FIELDS = {
    "model": [1],
    "run": 5,
    "algorithm": {"clip_low": "x"},
    "health": {"ignore": 1},
    "heldout_success": [1],
    "how": ["finished"],
    "report": {"episodes": 5},
    "process": 10**30,
    "host": os.uname().nodename,
    "since": "",
    "kind": "trajectory",
    "step": 10**30,
    "metrics": [1],
    "trajectory": {"turns": 5},
}
"""Keys of every file, with values of a wrong type."""

CONTENTS: dict[str, bytes] = {
    "wrong fields": json.dumps(WRONG_FIELDS).encode() + b"\n",
    "not JSON": b"{\n",
    "empty": b"",
    "deep": b'{"step":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "nested": b'{"health":' + b"[" * 900 + b"]" * 900 + b"}\n",
    "a list": b'[["a", "list"]]\n',
    "a text": b'"a text"\n',
    "NaN": b"NaN\n",
    "not UTF-8": b'{"step": "\xff\xfe"}\n',
}
KINDS: dict[str, Callable[[Path], object]] = {
    "8 GB": lambda path: (path.touch(), os.truncate(path, 8 << 30)),
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "loop": lambda path: path.symlink_to(path.name),
    "unreadable": lambda path: path.touch(mode=0),
    "folder": lambda path: path.mkdir(exist_ok=True),
}
DAMAGES = {name: functools.partial(Path.write_bytes, data=data) for name, data in CONTENTS.items()} | KINDS

COMMON = ("wrong fields", "deep", "FIFO")
CASES = [
    *((file, damage) for file in (*OBJECTS, *LINES) for damage in COMMON),
    *((file, damage) for file in ("recipe.json", *LINES[:2]) for damage in DAMAGES if damage not in COMMON),
    *((folder, kind) for folder, kind in zip(FOLDERS * 2, KINDS, strict=False)),
]
"""Every file with the common damages, and examples of every kind of file and folder with all damages."""

QUIET = {
    *((file, damage) for file in ("lock", "tokenizer.json") for damage in CONTENTS),
    *((file, "empty") for file in LINES),
}
"""Not reported: the content of a lock that nobody holds or of an unused tokenizer, files without lines."""


def _name(file: str, damage: str) -> str:
    return f"{file}-{damage}".replace("/", "-").replace(" ", "_")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound run and a damaged copy of it for every case."""
    root = tmp_path_factory.mktemp("runs")
    with new_run(root, "sound", num_steps=2, model="nothing") as folder:
        for step in range(2):
            log_step(folder, step)
            play_step(folder, step, [good(task("ace")), bad(task("ace"), 1)])
            trace_step(folder, step, ["ace/0.0", "ace/0.1"])
        evaluate(folder, "before", [bad(task("ace"))])
        evaluate(folder, "after", [good(task("ace"))])
        write_json(folder.summary, summary(2))
        folder.end(Ending(How.FINISHED))
    (folder.path / "tokenizer.json").write_text("{}")
    for file, damage in CASES:
        path = shutil.copytree(folder.path, root / _name(file, damage)) / file
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        DAMAGES[damage](path)
    shutil.copytree(folder.path, root / "closed").chmod(0)
    (root / "loop").symlink_to("loop")
    shutil.copytree(os.fsencode(folder.path), os.fsencode(root) + b"/odd\xff")
    return root


def _drop_rights() -> None:
    """Drop the two capabilities by which root reads files that their mode forbids."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.fixture(scope="module")
def viewed(root: Path) -> Iterator[http.client.HTTPConnection]:
    """A connection to `turnwise view` in its own process."""
    command = [sys.executable, "-m", "turnwise", "view", str(root), "--port", "0"]
    options: Any = {
        "preexec_fn": _drop_rights,
        "env": {**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache")},
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[0].rstrip("/").rpartition(":")[2])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
            connection.request("GET", "/api/events")
            stream = connection.getresponse()
            while b'"is_whole": true' not in stream.readline():
                pass
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            yield connection
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_damage_is_reported_and_every_request_is_answered(viewed: http.client.HTTPConnection) -> None:
    def get(path: str, run: str = "", **parameters: Any) -> tuple[int, Any]:
        viewed.request("GET", f"/api/{path}?{urlencode({'run': run, **parameters})}")
        response = viewed.getresponse()
        return response.status, json.loads(response.read())

    status, found = get("runs")
    assert status == 200, found
    listed = [run["name"] for run in found["runs"]]
    standings = {name: get("standing", name)[1] for name in listed if name.isascii()}
    for file, damage in CASES:
        name = _name(file, damage)
        status, evaluations = get("evaluations", name)
        assert status == 200, name
        errors = [evaluation["error"] for evaluation in evaluations if "error" in evaluation]
        reported = [standings[name]["reason"], *standings[name]["problems"], *errors]
        is_reported = any(Path(file).name in words for words in reported)
        assert is_reported == ((file, damage) not in QUIET), (name, reported)
        for path in sorted(set(PATHS) - {"runs"}):
            status, answer = get(path, name, name="ratio", before="before", after="after", id=1)
            assert status in (200, 400, 404, 422), (name, path, answer)
    for damage in DAMAGES:
        standing = standings[_name("recipe.json", damage)]
        assert standing["state"] == "damaged", damage
        assert standing["reason"].startswith("recipe.json ")
        assert standing["last_step"] == 1, "its figures are still shown"
    closed = (standings["closed"]["state"], standings["closed"]["reason"])
    assert closed == ("damaged", "recipe.json cannot be read: Permission denied")
    assert "loop" not in listed
    assert sum(name.startswith("odd") for name in listed) == 1, "its name is not UTF-8"
    _, sound = get("standing", "sound")  # after all those requests
    assert (sound["state"], sound["last_step"], sound["problems"]) == ("finished", 1, [])
    status, found = get("trajectories", "sound")
    assert (status, found["total"]) == (200, 6)
    for row in found["rows"]:
        assert get("trajectory", "sound", id=row["id"])[0] == get("tokens", "sound", id=row["id"])[0] == 200
    status, change = get("comparison", "sound", before="before", after="after")
    assert (status, change["num_tasks"]) == (200, 1)


def test_an_export_leaves_out_what_is_damaged(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    cases = [
        *((file, "FIFO") for file in (*OBJECTS, *LINES)),
        ("evaluations/before.trajectories.jsonl", "8 GB"),
    ]
    paths = [str(root / "sound"), *(str(root / _name(*case)) for case in cases)]
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = CliRunner().invoke(app, ["view", *paths, "--export", str(out)], env=cache)
    assert result.exit_code == 0, result.output
    page = out.read_text()
    assert str(root) not in page
    assert "recipe.json is a FIFO, not a file" in page
