"""A real training run, viewed while it goes on: the page follows it and shows the numbers of its files."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import lines, played
from tests.dashboard.serving import Serve, readout, serving
from tests.run.stage import write_recipe

ROOT = Path(__file__).parents[2]


def logged(run: Path, name: str) -> dict[int, float]:
    """The figure's values in metrics.jsonl, by step."""
    rows = lines(run / "metrics.jsonl")
    return {row["step"]: row["metrics"][name] for row in rows if name in row["metrics"]}


@pytest.mark.slow
def test_a_real_training_run_is_followed_to_its_end(page: Any, serve: Serve, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 2}, evaluation={"num_samples": 2, "every": 1})
    command = [sys.executable, "-m", "turnwise", "train", str(recipe), "--quiet"]
    run = tmp_path / "runs" / "run"
    page.set_default_timeout(180_000)  # a training run on a busy machine
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not ((run / "metrics.jsonl").exists() and logged(run, "reward/mean")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)  # or it might end before the page is open
        last = max(logged(run, "reward/mean"))
        page.goto(serve(run).url)
        page.wait_for_selector("#runs .chip:has-text('running')")
        page.wait_for_selector(f"#chart-success .readout .step:has-text('step {last}')")
        process.send_signal(signal.SIGCONT)
        page.wait_for_selector("#runs .chip:has-text('finished')")
        assert process.wait(timeout=60) == 0
    page.wait_for_selector("#chart-success .readout .step:has-text('step 1')")
    shown = readout(page, "reward")
    assert float(shown["reward/mean"]) == logged(run, "reward/mean")[1]
    assert float(readout(page, "success")["validation/success"]) == logged(run, "validation/success")[1]
    phases = {f"time/{phase}_seconds" for phase in ("rollout", "update", "publish", "validation")}
    assert set(readout(page, "time")) == phases
    rewards = [row["reward"]["total"] for row in played(run) if row["source"] == "step-000002"]
    assert abs(float(shown["validation/reward"]) - sum(rewards) / len(rewards)) < 1e-9
    page.click("#view-trajectories")
    page.wait_for_selector("#list")
    assert int(page.inner_text("#total")) == len(played(run))
    page.click("#list tr:has-text('step 1') a >> nth=0")
    page.wait_for_selector("#turn-1")
    page.select_option("#tokens", "logprob")
    page.wait_for_selector("#turn-1 .token")
    assert "tokenizer is not on this machine" not in page.inner_text(".settings")
    page.goto("about:blank")
    (tmp_path / "model" / "tokenizer.json").unlink()
    with serving(run.rename(tmp_path / "copied")) as served:
        [first, *_] = served.ask("trajectories", source="train")["rows"]
        assert served.ask("tokens", id=first["id"])["has_pieces"], "the run has a copy of the tokenizer"
