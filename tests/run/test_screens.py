"""The output of a run: a panel on a real terminal, lines elsewhere, JSON objects for programs."""

import json
import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.dashboard.recorded import HOSTILE
from tests.run.stage import recipe, write_recipe
from turnwise.rollout.collection_counts import Progress
from turnwise.run.health.health import Alarm, AlarmLevel
from turnwise.run.screen.panel import Panel, sparkline
from turnwise.run.screen.screen import Json, Quiet, Screen, step_line
from turnwise.system.terminal import duration

ROOT = Path(__file__).parents[2]
WARNING = Alarm("truncation", AlarmLevel.WARNING, 0.4, 0.3, "episodes are cut off. Try: more tokens")
HALT = Alarm("alignment", AlarmLevel.HALT, 0.5, 0.99, "not the sampled tokens. Try: look")


def drawn(panel: Panel) -> str:
    console = Console(width=110, file=StringIO())
    console.print(panel.frame())
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def new_panel(folder: Path) -> Panel:
    return Panel(Console(file=StringIO(), width=110), recipe(folder, run={"num_steps": 4}).run)


def test_the_panel_shows_progress_success_and_health(tmp_path: Path) -> None:
    panel = new_panel(tmp_path)
    assert "step 0/4" in drawn(panel)
    with panel.showing():
        for step, success in enumerate((0.0, 0.5, 1.0)):
            figures = {"success/rate": success, "reward/mean": success - 1, "tools/calls": 2.0}
            figures |= {"tools/error_rate": 0.25, "tools/seconds": 0.012, "time/rollout_seconds": 3.0}
            panel.learned(step, figures, [WARNING] if step == 2 else [], "")
    text = drawn(panel)
    assert "step 3/4" in text
    assert "▁▅█ 1.000" in text, "success is drawn on its whole scale"
    assert "2.0 calls an episode, 25% failed, 12 ms each" in text
    assert "warning: truncation 0.4 (limit 0.3)" in text
    assert "3.0 s played" in text
    assert "left" in text


def test_health_is_green_amber_or_red(tmp_path: Path) -> None:
    panel = new_panel(tmp_path)
    for alarms, style in (([], "green"), ([WARNING], "yellow"), ([WARNING, HALT], "red")):
        panel.learned(0, {}, alarms, "")
        assert panel._health().style == style


async def test_a_collection_is_still_shown_after_a_measurement_within_it(tmp_path: Path) -> None:
    panel = new_panel(tmp_path)

    ahead, measured = Progress(num_finished=3), Progress(num_finished=1)
    with panel.showing():
        async with panel.playing(ahead, 64):
            async with panel.playing(measured, 8):
                both = drawn(panel)
                assert "3 of 64" in both
                assert "1 of 8" in both
            ahead.num_finished = 40
            assert "40 of 64" in drawn(panel)
            assert "of 8" not in drawn(panel)
        assert "playing" not in drawn(panel)


async def test_the_time_left_is_estimated_from_steps_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = new_panel(tmp_path)
    now = 0.0
    monkeypatch.setattr("turnwise.run.screen.panel.time.monotonic", lambda: now)

    with panel.showing():
        now = 1000.0  # loading, and the measurement before the first step
        for step in range(2):
            async with panel.playing(Progress(), 64):
                pass
            now += 10
            panel.learned(step, {}, [], "")
    assert "20 s left" in drawn(panel)


def test_a_resumed_run_begins_at_its_last_step(tmp_path: Path) -> None:
    panel = new_panel(tmp_path)
    panel.resumed(3)
    assert "step 3/4" in drawn(panel)
    assert isinstance(panel.console.file, StringIO)
    assert "resumed after step 3" in panel.console.file.getvalue()


@pytest.mark.parametrize("kind", [Panel, Screen, Quiet])
def test_hostile_text_cannot_control_a_terminal(tmp_path: Path, kind: type[Screen]) -> None:
    console = Console(file=StringIO(), width=110, force_terminal=True, color_system="standard")
    screen = kind(console, recipe(tmp_path, run={"num_steps": 4}).run)
    alarm = Alarm(HOSTILE, AlarmLevel.HALT, 0.5, 0.99, HOSTILE)
    with screen.showing():
        screen.learned(0, {"success/rate": 0.5}, [alarm], HOSTILE)
        screen.say(HOSTILE)
    assert isinstance(console.file, StringIO)
    moves = r"\x1b\[[0-9;?]*[a-zA-Z]"  # colours and the panel's own way up and down
    text = re.sub(moves, "", console.file.getvalue()).replace("\r", "")
    assert text.count("<script>window.broken") >= 2
    assert not [char for char in text if char != "\n" and not char.isprintable()]


def test_durations_are_short_and_a_flat_line_is_in_the_middle() -> None:
    assert [duration(seconds) for seconds in (20, 100, 3660)] == ["20 s", "2 min", "1 h 1 min"]
    assert sparkline([2.0, 2.0]) == "▅▅"


def test_a_terminal_gets_the_panel_and_then_the_summary(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, run={"num_steps": 2})
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "turnwise", "train", str(path)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(command, cwd=ROOT, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        seen = b""
        while True:
            try:
                seen += os.read(master, 65536)
            except OSError:  # its end is closed
                break
    os.close(master)
    text = seen.decode()
    assert process.returncode == 0, text
    assert "step 1/2" in text
    assert "playing" in text
    assert "episodes" in text
    assert any(words in text for words in ("It learned", "beyond chance", "It got worse"))
    assert "step    1/2" not in text, "no lines in addition to the panel"


def test_a_metric_that_is_not_a_number_is_still_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Json(Console(), recipe(tmp_path).run).learned(0, {"value/explained_variance": float("nan")}, [], "")
    [line] = capsys.readouterr().out.splitlines()
    assert "NaN" not in line
    assert json.loads(line)["figures"] == {"value/explained_variance": None}


def test_a_steps_line_names_both_kls_and_the_epoch_where_there_are_any() -> None:
    alone = step_line(0, 4, {"kl/sampler": 1e-4})
    assert "kl/sampler 1.0e-04" in alone
    assert "kl/reference" not in alone
    assert "epoch" not in alone
    both = step_line(0, 4, {"kl/sampler": 1e-4, "kl/reference": 2e-3, "run/epoch": 2.0}, 3)
    assert "kl/sampler 1.0e-04  kl/reference 2.0e-03" in both
    assert "epoch 2/3" in both
