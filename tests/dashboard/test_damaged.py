"""A damaged or hostile run folder costs one line on the page; every other run is shown as before."""

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
from dataclasses import dataclass
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
    play_step,
    summary,
    task,
    trace_step,
)
from turnwise.cli import app
from turnwise.config import Recipe
from turnwise.dashboard.server import PATHS
from turnwise.runtime.atomic_write import write_json
from turnwise.tracking.ending import Ending, How
from turnwise.tracking.folder import RunFolder

FILES = (
    "recipe.json",
    "summary.json",
    "ended.json",
    "lock",
    "tokenizer.json",
    "metrics.jsonl",
    "evaluations/before.json",
    "evaluations/before.trajectories.jsonl",
    "trajectories/step-000001.jsonl",
    "tokens/step-000001.jsonl",
)
FOLDERS = ("evaluations", "trajectories", "tokens")
"""With the files, all that the page reads."""

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2

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
"""For every file some keys that it has, with values of another kind."""


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


def _unreadable(path: Path) -> None:
    path.touch()
    path.chmod(0)


CONTENTS: dict[str, bytes] = {
    "a list": b'[["a", "list"]]\n',
    "a text": b'"a text"\n',
    "wrong fields": json.dumps(WRONG_FIELDS).encode() + b"\n",
    "not JSON": b"{\n",
    "empty": b"",
    "deep": b'{"step":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "nested": b'{"health":' + b"[" * 900 + b"]" * 900 + b"}\n",
    "NaN": b"NaN\n",
    "not UTF-8": b'{"step": "\xff\xfe"}\n',
}
KINDS: dict[str, Callable[[Path], object]] = {
    "8 GB": _sparse,
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "loop": lambda path: path.symlink_to(path.name),
    "unreadable": _unreadable,
    "folder": lambda path: path.mkdir(),
}
DAMAGES = {
    name: functools.partial(Path.write_bytes, data=content) for name, content in CONTENTS.items()
} | KINDS

CASES = [
    *((file, damage) for file in FILES for damage in DAMAGES),
    *((folder, kind) for folder in FOLDERS for kind in KINDS if kind != "folder"),
]

QUIET = {
    *((file, damage) for file in ("lock", "tokenizer.json") for damage in (*CONTENTS, "8 GB")),
    *((file, "empty") for file in FILES if file.endswith(".jsonl")),
    ("summary.json", "nested"),
}
"""Not named on the page: the content of a lock that nobody holds and of an unused tokenizer, a file without a
line, and a field that the page does not know."""


def _name(file: str, damage: str) -> str:
    return f"{file}-{damage}".replace("/", "-").replace(" ", "_")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Viewed:
    """`turnwise view`, in a process of its own."""

    port: int

    def get(self, path: str, run: str, **parameters: Any) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", f"/api/{path}?{urlencode({'run': run, **parameters})}")
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def standings(self) -> dict[str, dict[str, Any]]:
        status, found = self.get("runs", "")
        assert status == 200
        return {run["name"]: run for run in found}


def _drop_rights() -> None:
    """Root reads what its mode forbids; without these two capabilities it does not."""
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _sound_run(root: Path) -> Path:
    recipe = Recipe.model_validate({"run": {"num_steps": 2}, "model": {"path": "nothing"}})
    with RunFolder.create(root, "sound", recipe, is_dated=False) as folder:
        ace = task("ace")
        for step in range(2):
            log_step(folder, step)
            play_step(folder, step, [good(ace), bad(ace, 1)])
            trace_step(folder, step, ["ace/0.0", "ace/0.1"])
        evaluate(folder, "before", [bad(ace)])
        evaluate(folder, "after", [good(ace)])
        write_json(folder.summary, summary(2))
        folder.end(Ending(How.FINISHED))
        return folder.path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound run, and one damaged run for every case."""
    root = tmp_path_factory.mktemp("runs")
    sound = _sound_run(root)
    (sound / "tokenizer.json").write_text("{}")
    for file, damage in CASES:
        run = root / _name(file, damage)
        shutil.copytree(sound, run)
        _remove(run / file)
        DAMAGES[damage](run / file)
    closed = root / "closed"
    shutil.copytree(sound, closed)
    closed.chmod(0)
    (root / "loop").symlink_to("loop")
    odd = os.fsencode(root) + b"/odd\xff"
    shutil.copytree(os.fsencode(sound), odd)
    return root


@pytest.fixture(scope="module")
def viewed(root: Path) -> Iterator[Viewed]:
    command = [sys.executable, "-m", "turnwise", "view", str(root), "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache")}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        preexec_fn=_drop_rights,  # noqa: PLW1509 (it takes no lock)
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        port = int(address.rstrip("/").rpartition(":")[2])
        try:
            yield _read_whole(Viewed(port))
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0


def _read_whole(viewed: Viewed) -> Viewed:
    """Once the server says that it has read every run as far as it can."""
    connection = http.client.HTTPConnection("127.0.0.1", viewed.port, timeout=120)
    connection.request("GET", "/api/events")
    stream = connection.getresponse()
    while line := stream.readline():
        if line.startswith(b"data: ") and json.loads(line[6:])["is_whole"]:
            break
    connection.close()
    return viewed


@pytest.fixture(scope="module")
def standings(viewed: Viewed) -> dict[str, dict[str, Any]]:
    return viewed.standings()


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_what_is_damaged_is_named_and_every_request_is_answered(
    viewed: Viewed, standings: dict[str, dict[str, Any]], file: str, damage: str
) -> None:
    name = _name(file, damage)
    told = [standings[name]["reason"], *standings[name]["problems"]]
    status, evaluations = viewed.get("evaluations", name)
    assert status == 200
    told += [evaluation["error"] for evaluation in evaluations if "error" in evaluation]
    is_told = any(file.rpartition("/")[2] in words for words in told)
    assert is_told == ((file, damage) not in QUIET), told
    for path in sorted(set(PATHS) - {"runs"}):
        status, answer = viewed.get(path, name, name="ratio", before="before", after="after", id=1)
        assert status in (200, 400, 404, 422), (path, answer)


def test_a_sound_run_among_them_is_whole(viewed: Viewed) -> None:
    standing = viewed.standings()["sound"]  # asked again, after all those requests
    assert (standing["state"], standing["last_step"], standing["problems"]) == ("finished", 1, [])
    status, listed = viewed.get("trajectories", "sound")
    assert (status, listed["total"]) == (200, 6)
    for row in listed["rows"]:
        assert viewed.get("trajectory", "sound", id=row["id"])[0] == 200
        assert viewed.get("tokens", "sound", id=row["id"])[0] == 200
    status, change = viewed.get("comparison", "sound", before="before", after="after")
    assert (status, change["num_tasks"]) == (200, 1)


def test_a_recipe_that_cannot_be_read_makes_the_run_damaged(standings: dict[str, dict[str, Any]]) -> None:
    for damage in DAMAGES:
        standing = standings[_name("recipe.json", damage)]
        assert standing["state"] == "damaged", damage
        assert standing["reason"].startswith("recipe.json ")
        assert standing["last_step"] == 1, "its figures are still shown"


def test_a_folder_that_may_not_be_looked_into_is_one_line(standings: dict[str, dict[str, Any]]) -> None:
    reason = "recipe.json cannot be read: Permission denied"
    assert (standings["closed"]["state"], standings["closed"]["reason"]) == ("damaged", reason)
    assert "loop" not in standings


def test_a_run_whose_name_is_not_text_is_shown(standings: dict[str, dict[str, Any]]) -> None:
    assert sum(name.startswith("odd") for name in standings) == 1


def test_an_export_leaves_out_what_is_damaged(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    cases = [*((file, "FIFO") for file in FILES), ("trajectories/step-000001.jsonl", "8 GB")]
    paths = [str(root / "sound"), *(str(root / _name(*case)) for case in cases)]
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = CliRunner().invoke(app, ["view", *paths, "--export", str(out)], env=cache)
    assert result.exit_code == 0, result.output
    page = out.read_text()
    assert str(root) not in page
    assert "recipe.json is a FIFO, not a file" in page
