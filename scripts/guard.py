"""Digests of what the CPU demo writes: killed after its first checkpoint, resumed, and evaluated.

A change that should change no behaviour prints the same digests before and after. Durations, dates and
measurements of the machine are left out. `python scripts/guard.py` takes about a minute on a quiet machine.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import turnwise

SETTINGS = {
    "run.name": "guard",
    "run.num_steps": 3,
    "run.tasks_per_step": 4,
    "run.checkpoint_every": 1,
    "rollout.group_size": 4,
    "rollout.tokens_per_turn": 48,
    "evaluation.num_tasks": 4,
    "evaluation.num_samples": 1,
    "evaluation.every": 2,
}
FILES = (
    "recipe.json",
    "metrics.jsonl",
    "ended.json",
    "trajectories/*.jsonl",
    "tokens/*.jsonl",
    "evaluations/*.json",
    "checkpoints/step-*/facts.json",
    "checkpoints/step-*/*.safetensors",
)
MEASURED = ("time", "seconds", "memory", "gpu", "process", "tokens_per_second", "digests", "traceback")
"""Words in the names of figures that are measured, and so differ between two runs of the same code."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="turnwise-guard-") as folder:
        runs = Path(folder).resolve() / "runs"
        run = runs / "guard"
        start = _turnwise("train", "cpu", "--quiet", *_options({**SETTINGS, "run.folder": runs}))
        _kill_after_checkpoint(start, run)
        _finish(_turnwise("train", "--resume", str(run), "--quiet"), 0)
        out = str(runs / "eval.json")
        _finish(_turnwise("eval", str(run), "-k", "1", "--out", out, "--set", "evaluation.num_tasks=3"), 0)
        lacking = {"run.folder": runs, "tasks.train": runs / "lacking.jsonl"}
        _finish(_turnwise("train", "cpu", *_options(lacking)), 2)
        files = [file for pattern in FILES for file in sorted(run.glob(pattern))]
        for file in (*files, runs / "eval.json", runs / "failed_starts.jsonl"):
            print(f"{_digest(file, str(runs))}  {file.relative_to(runs)}")


def _turnwise(*words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "turnwise", *words]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def _options(settings: dict[str, Any]) -> Iterable[str]:
    return (word for key, value in settings.items() for word in ("--set", f"{key}={value}"))


def _kill_after_checkpoint(process: "subprocess.Popen[bytes]", run: Path) -> None:
    while process.poll() is None and not list(run.glob("checkpoints/step-*/facts.json")):
        time.sleep(0.05)
    if process.poll() is not None:
        _finish(process, -signal.SIGKILL)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _finish(process: "subprocess.Popen[bytes]", code: int) -> None:
    _, errors = process.communicate()
    if process.returncode != code:
        sys.exit(f"{process.args}: exit code {process.returncode}\n{errors.decode()}")


def _digest(file: Path, runs: str) -> str:
    if file.suffix == ".safetensors":
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    text = file.read_text().replace(runs, "RUNS").replace(str(Path(turnwise.__file__).parent), "TURNWISE")
    parts = text.splitlines() if file.suffix == ".jsonl" else [text]
    kept = "\n".join(json.dumps(_unmeasured(json.loads(part)), sort_keys=True) for part in parts)
    return hashlib.sha256(kept.encode()).hexdigest()[:16]


def _unmeasured(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if not any(word in key for word in MEASURED)}
        return {key: _unmeasured(inner) for key, inner in kept.items()}
    return [_unmeasured(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
