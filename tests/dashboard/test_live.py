"""A real training, looked at while it goes: the page follows it, and its numbers are those of the files."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.dashboard.looking import readout
from tests.dashboard.test_clicking import played
from tests.dashboard.test_server import serving
from tests.run.stage import write_recipe

ROOT = Path(__file__).parents[2]


def logged(run: Path, name: str) -> dict[int, float]:
    """By step, as metrics.jsonl has it."""
    whole, _, _ = (run / "metrics.jsonl").read_text().rpartition("\n")  # a line may be half written
    rows = [json.loads(line) for line in whole.splitlines()]
    return {row["step"]: row["metrics"][name] for row in rows if name in row["metrics"]}


def test_a_real_training_is_followed_to_its_end(page: Any, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 4}, evaluation={"num_samples": 2, "every": 2})
    command = [sys.executable, "-m", "turnwise", "train", str(recipe), "--quiet"]
    run = tmp_path / "runs" / "run"
    page.set_default_timeout(180_000)  # a training on a busy machine
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not ((run / "metrics.jsonl").exists() and logged(run, "reward/mean")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)  # or it might be over before the page is there
        last = max(logged(run, "reward/mean"))
        for served in serving(run):
            page.goto(f"http://127.0.0.1:{served.port}/#/overview")
            page.wait_for_selector("#runs .chip:has-text('running')")
            page.wait_for_selector(f"#chart-success .readout .step:has-text('step {last}')")
            process.send_signal(signal.SIGCONT)
            page.wait_for_selector("#runs .chip:has-text('finished')")
            assert process.wait(timeout=60) == 0
            page.wait_for_selector("#chart-success .readout .step:has-text('step 3')")
            shown = readout(page, "reward")
            assert float(shown["reward/mean"]) == logged(run, "reward/mean")[3]
            assert (
                float(readout(page, "success")["validation/success"]) == logged(run, "validation/success")[3]
            )
            assert set(readout(page, "time")) == {
                f"time/{phase}_seconds" for phase in ("rollout", "update", "publish", "validation")
            }
            rewards = [
                row["reward"]["total"]
                for row in played(run)
                if (row["folder"], row["file"]) == ("evaluations", "step-000004")
            ]
            assert abs(float(shown["validation/reward"]) - sum(rewards) / len(rewards)) < 1e-9
            page.click("#view-trajectories")
            page.wait_for_selector("#list")
            assert int(page.inner_text("#total")) == len(played(run))
            page.click("#list tr:has-text('step 3') a >> nth=0")
            page.wait_for_selector("#turn-1")
            page.select_option("#tokens", "logprob")
            page.wait_for_selector("#turn-1 .token")
            assert "tokenizer is not on this machine" not in page.inner_text(".settings")
            page.goto("about:blank")
    (tmp_path / "model" / "tokenizer.json").unlink()
    for served in serving(run.rename(tmp_path / "copied")):
        [first, *_] = served.ask("trajectories", source="train")["rows"]
        assert served.ask("tokens", id=first["id"])["has_pieces"], "wherever its model has gone"
