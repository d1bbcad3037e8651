"""`turnwise view` as a user starts it."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from typer.testing import CliRunner

from tests.dashboard.recorded import write_run
from turnwise.cli import app


def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    run = write_run(tmp_path, num_steps=2)
    command = [sys.executable, "-m", "turnwise", "view", str(run), "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}api/runs", timeout=60) as answer:
            assert [run["name"] for run in json.load(answer)] == ["run"]
        stream = urllib.request.urlopen(f"{address}api/events", timeout=60)
        assert stream.readline().startswith(b"data: ")
        process.send_signal(signal.SIGINT)  # a page that is still open does not hold it up
        assert process.wait(timeout=60) == 0
        stream.close()
    assert list((tmp_path / "cache" / "turnwise" / "view").glob("*.sqlite"))
    assert not list(run.rglob("*.sqlite"))


def test_elsewhere_a_token_is_made_up(tmp_path: Path) -> None:
    run = write_run(tmp_path, num_steps=1)
    command = [sys.executable, "-m", "turnwise", "view", str(run), "--port", "0", "--host", "0.0.0.0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        address, _, token = process.stdout.readline().split()[0].partition("?token=")
        process.terminate()
    assert address.startswith("http://")
    assert len(token) >= 32


def test_a_folder_without_runs_is_said_so_in_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["view", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr == f"turnwise: no run in {tmp_path}: none has a recipe.json\n"


def test_an_export_is_one_file(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs", num_steps=2)
    out = tmp_path / "report.html"
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = CliRunner().invoke(app, ["view", str(run), "--export", str(out)], env=environment)
    assert result.exit_code == 0, result.output
    page = out.read_text()
    assert "<script>window.broken" not in page
    assert page.count("<script") == 2
    assert str(tmp_path) not in page  # where it was made is nobody's business
