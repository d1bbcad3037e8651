"""`turnwise view` as a user starts it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnwise.cli import app
from turnwise.dashboard.command import open_runs, serve


def test_it_serves_until_it_is_interrupted(run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnwise", "view", str(run), "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with contextlib.ExitStack() as ending:
        process = ending.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        )
        ending.callback(process.kill)  # else a failing assertion would wait for the page's end
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}api/runs", timeout=60) as answer:
            assert [run["name"] for run in json.load(answer)["runs"]] == ["run"]
        with urllib.request.urlopen(f"{address}api/standing?run=run", timeout=60) as answer:
            assert json.load(answer)["last_step"] == 3
        stream = urllib.request.urlopen(f"{address}api/events", timeout=60)
        assert stream.readline().startswith(b"data: ")
        process.send_signal(signal.SIGINT)  # an open page does not keep it alive
        assert process.wait(timeout=60) == 0
        stream.close()
    assert list((tmp_path / "turnwise" / "view").glob("*.sqlite"))
    assert not list(run.rglob("*.sqlite"))


def test_on_all_interfaces_a_token_is_made(run: Path, tmp_path: Path) -> None:
    said: list[str] = []

    def say(words: str) -> None:
        said.append(words)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serve(open_runs([run], tmp_path), host="0.0.0.0", port=0, token="", say=say)
    address, _, token = said[0].split()[0].partition("?token=")
    assert address.startswith("http://")
    assert len(token) >= 32


def test_a_folder_without_runs_is_an_error_of_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["view", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr == f"turnwise: no run in {tmp_path}: none has a recipe.json\n"


def test_an_export_is_one_file_without_paths_of_this_machine(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    command = ["view", str(run), "--export", str(out)]
    result = CliRunner().invoke(app, command, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert result.exit_code == 0, result.output
    assert out.stat().st_mode & 0o777 == 0o600, "it holds episodes"
    page = out.read_text()
    assert "<script>window.broken" not in page
    assert page.count("<script") == 2
    assert str(run.parent) not in page
