"""A damaged or hostile run folder costs one line on the page; every other run is shown as before."""

import ctypes
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

from tests.dashboard.recorded import write_run
from turnwise.cli import app
from turnwise.dashboard.server import PATHS
from turnwise.tracking.ending import Ending, How, write_ending

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
    "evaluations",
    "trajectories",
    "tokens",
)
"""Every file and folder that the page reads."""

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _unreadable(path: Path) -> None:
    path.write_bytes(b"{}\n")
    path.chmod(0)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a list": lambda path: _write(path, b'[["a", "list"]]\n'),
    "a text": lambda path: _write(path, b'"a text"\n'),
    "wrong fields": lambda path: _write(path, _WRONG_FIELDS),
    "not JSON": lambda path: _write(path, b"{\n"),
    "empty": lambda path: _write(path, b""),
    "deep": lambda path: _write(path, b'{"step":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"),
    "nested": lambda path: _write(path, b'{"health":' + b"[" * 900 + b"]" * 900 + b"}\n"),
    "NaN": lambda path: _write(path, b"NaN\n"),
    "not UTF-8": lambda path: _write(path, b'{"step": "\xff\xfe"}\n'),
    "8 GB": _sparse,
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "loop": _loop,
    "unreadable": _unreadable,
    "folder": lambda path: path.mkdir(),
}

_WRONG_FIELDS = (
    json.dumps(
        {
            **{"model": [1], "run": 5, "algorithm": {"clip_low": "x"}, "health": {"a": [1]}},
            **{
                "heldout_success": [1],
                "how": ["finished"],
                "why": {},
                "time": "x",
                "report": {"episodes": 5},
            },
            **{"process": 10**30, "host": os.uname().nodename, "since": ""},
            **{"kind": "trajectory", "step": 10**30, "metrics": [1], "tools": {}, "trajectory": {"turns": 5}},
        }
    )
    + "\n"
).encode()

CASES = [
    (file, damage)
    for file in FILES
    for damage in DAMAGES
    if "." in file or file == "lock" or damage not in ("folder",)
]


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


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
        return {each["name"]: each for each in found}


def _drop_rights() -> None:
    """Root reads what its mode forbids; without these two capabilities it does not."""
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound run, and one damaged run for every case."""
    root = tmp_path_factory.mktemp("runs")
    sound = write_run(root, "sound", num_steps=2)
    write_ending(sound / "ended.json", Ending(How.FINISHED))
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
        command, stdout=subprocess.PIPE, env=environment, text=True, preexec_fn=_drop_rights
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


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_a_damaged_file_costs_one_line_and_no_other_run(viewed: Viewed, file: str, damage: str) -> None:
    name = _name(file, damage)
    standing = viewed.standings()[name]
    told = [standing["reason"], *standing["problems"]]
    status, evaluations = viewed.get("evaluations", name)
    assert status == 200
    told += [each["error"] for each in evaluations if "error" in each]
    if damage == "empty" and file.endswith(".jsonl"):
        assert standing["problems"] == []  # a run that has not written yet
    elif (file, damage) not in QUIET:
        assert any(file.partition("/")[2] in words or file in words for words in told if words), told
    assert str(viewed.port)  # the server is there
    for path in PATHS:
        status, answer = viewed.get(path, name, name="success/rate", before="before", after="after", id=1)
        assert status in (200, 404, 422, 400), (path, answer)


QUIET = {
    *(("lock", damage) for damage in DAMAGES if damage not in ("FIFO", "device", "link", "loop")),
    *(("tokenizer.json", damage) for damage in DAMAGES if damage not in ("FIFO", "device", "link", "loop")),
    ("lock", "unreadable"),
}
"""Content that only shows where it is used: a lock nobody holds, and tokens without their text."""


def test_a_sound_run_beside_them_is_whole(viewed: Viewed) -> None:
    standing = viewed.standings()["sound"]
    assert (standing["state"], standing["last_step"], standing["problems"]) == ("finished", 1, [])
    status, listed = viewed.get("trajectories", "sound")
    assert (status, listed["total"]) == (200, 4 + 6 + 12)
    for row in listed["rows"]:
        assert viewed.get("trajectory", "sound", id=row["id"])[0] == 200
        assert viewed.get("tokens", "sound", id=row["id"])[0] == 200
    status, change = viewed.get("comparison", "sound", before="before", after="after")
    assert (status, change["num_tasks"]) == (200, 6)


def test_a_recipe_that_cannot_be_read_makes_the_run_damaged(viewed: Viewed) -> None:
    standings = viewed.standings()
    for damage in DAMAGES:
        standing = standings[_name("recipe.json", damage)]
        assert standing["state"] == "damaged", damage
        assert standing["reason"].startswith("recipe.json ")
        assert standing["last_step"] == 1, "its figures are still shown"


def test_a_folder_that_may_not_be_looked_into_is_one_line(viewed: Viewed) -> None:
    standing = viewed.standings()["closed"]
    assert (standing["state"], standing["reason"]) == (
        "damaged",
        "recipe.json cannot be read: Permission denied",
    )
    assert "loop" not in viewed.standings()


def test_a_run_beside_whose_name_is_no_text_is_shown(viewed: Viewed) -> None:
    assert sum(name.startswith("odd") for name in viewed.standings()) == 1


def test_an_export_leaves_out_what_is_damaged(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    names = [_name(file, "FIFO") for file in FILES] + [_name("trajectories/step-000001.jsonl", "8 GB")]
    paths = [str(root / name) for name in ("sound", *names)]
    result = CliRunner().invoke(
        app, ["view", *paths, "--export", str(out)], env={"XDG_CACHE_HOME": str(tmp_path / "cache")}
    )
    assert result.exit_code == 0, result.output
    page = out.read_text()
    assert str(root) not in page
    assert "recipe.json is a FIFO, not a file" in page
