"""The arithmetic of the race on hand-made rows, and the tool delay that is the same for all sides."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import parse
from turnwise.types import ToolCall

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def write_side(
    out: Path, side: str, seconds: dict[int, float], successes: tuple[float, ...] = (0.0, 0.5)
) -> None:
    """Seconds of a step by latency; the first success is a warm step's."""

    def step(success: float, latency: int) -> dict[str, Any]:
        parts = {"cpu_seconds": 1.0, "generation": 0.5, "tools": 0.25, "update": seconds[latency] - 0.75}
        played = {"num_episodes": 64, "success": success, "calls": 1.0, "tokens": 20.0}
        return {"latency": latency, "seconds": seconds[latency], **parts, **played}

    first, *rest = successes
    counted = [step(success, latency) for success in rest for latency in seconds]
    row = {"side": side, "load": 0.0, "warm": [step(first, min(seconds))], "steps": counted}
    row |= {"peak_mib": 1000.0, "held_out": 0.875}
    (out / f"{side}.json").write_text(json.dumps(row))


def race(out: Path, *options: str) -> str:
    command = [sys.executable, str(BENCHMARKS / "versus_trl.py"), "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def cells(text: str, side: str) -> dict[str, str]:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    [row] = [row for row in rows if row[1] == side]
    return dict(zip(rows[0], row, strict=True))


def test_every_latency_has_its_own_goal_against_the_best_of_trl(tmp_path: Path) -> None:
    for side, seconds in (("turnwise", 2.0), ("trl-generate", 40.0), ("trl-continuous", 9.0)):
        write_side(tmp_path, side, {0: seconds if side != "trl-generate" else 12.0, 500: seconds})
    text = race(tmp_path)
    assert "goal at 0 ms: >= 5x TRL's best (trl-continuous): 4.5x NOT MET" in text
    assert "goal at 500 ms: >= 15x TRL's best (trl-continuous): 4.5x NOT MET" in text
    text = race(tmp_path, "--sides", "turnwise,trl-generate")
    assert "goal at 500 ms: >= 15x TRL's best (trl-generate): 20.0x met" in text


def test_the_time_to_a_target_counts_warm_steps_and_needs_three_in_a_row(tmp_path: Path) -> None:
    write_side(tmp_path, "turnwise", {0: 2.0}, (0.0, 0.9, 0.8, 0.9, 0.9, 1.0))
    write_side(tmp_path, "trl-generate", {0: 9.0}, (0.0, 0.9, 0.0, 0.9, 0.0, 0.9))
    text = race(tmp_path, "--latencies", "0", "--sides", "turnwise,trl-generate", "--target", "0.86")
    assert cells(text, "turnwise")["s to 0.86"] == "8"
    assert cells(text, "turnwise")["episodes/s"] == "32.00"
    assert cells(text, "trl-generate")["turnwise is"] == "4.5×"
    assert cells(text, "trl-generate")["s to 0.86"] == "never"
    assert cells(text, "turnwise")["held out"] == "0.875"


def test_rows_of_different_options_are_never_in_one_table(tmp_path: Path) -> None:
    write_side(tmp_path, "turnwise", {0: 2.0})
    asked = ("--latencies", "0", "--sides", "turnwise")
    race(tmp_path, *asked)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        race(tmp_path, *asked, "--steps", "9")
    assert "rows of other options" in refused.value.stderr


async def test_delayed_results_wait_concurrently_and_are_unchanged(tmp_path: Path) -> None:
    delay = tmp_path / "delay"
    delay.write_text("600")
    server = [sys.executable, str(BENCHMARKS / "servers" / "sleeper.py")]
    arguments = [str(BENCHMARKS / "servers" / "delayed.py"), str(delay), *server]
    specs = parse({"sleeper": {"command": sys.executable, "args": arguments}}, {}, directory=Path.cwd())

    async with nothing_leaks(), Pool(specs) as pool:
        assert not await pool.connect()
        async with pool.lease(["sleeper"], "one") as toolbox:
            calls = [ToolCall(str(number), "echo", {"text": f"text {number}"}) for number in range(8)]
            started = time.perf_counter()
            results = await toolbox.call(calls)
            seconds = time.perf_counter() - started
        assert [result.content for result in results] == [f"text {number}" for number in range(8)]
        assert all(result.seconds >= 0.6 for result in results)
        assert seconds < 8 * 0.6
