"""Measure how soon `turnwise train` with vLLM plays its first turn, phase by phase.

    python benchmarks/start.py --device cuda --model qwen3-1.7b     # goal: at most 60 s
    python benchmarks/start.py                                      # a rehearsal on a CPU, tiny sizes

The model has random weights in the sizes of the named Qwen3 model. The command is started as a user starts
it; every line that it prints is shown with the seconds since its start. A first turn has eight tokens, and
its episode is written as soon as its group of two is complete: that moment is taken for the first token.
`--vllm-log` also shows vLLM's own lines. The second start reads what the first one compiled from caches.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE / "long_race"), str(HERE / "race")]

GOAL = 60.0
TASK = {"id": "first", "prompt": "Which day is it?", "servers": ["sleeper"], "answer": "Monday"}
SLEEPER = {"command": sys.executable, "args": [str(HERE / "servers" / "sleeper.py")]}


RECIPE = """
[model]
path = "{model}"
device = "{device}"
dtype = "{dtype}"
[tools]
mcp = "mcp.json"
[tasks]
train = "tasks.jsonl"
[rollout]
group_size = 2
tokens_per_turn = 8
dynamic_sampling = false
[run]
tasks_per_step = 1
num_steps = 1
[evaluation]
before_and_after = false
[engine]
kind = "vllm"
"""


def write_inputs(folder: Path, model: Path, device: str) -> Path:
    """Write a task, its server and a recipe whose first episodes end after one short turn."""
    (folder / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    # a server inherits no PYTHONPATH
    server = SLEEPER | {"env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"sleeper": server}}))
    recipe = folder / "recipe.toml"
    dtype = "bfloat16" if device == "cuda" else "float32"
    recipe.write_text(RECIPE.format(model=model, device=device, dtype=dtype))
    if device == "cpu":
        recipe.write_text(recipe.read_text() + "[engine.vllm]\ncache_gib = 0.25\n")
    return recipe


def start_once(folder: Path, model: Path, options: argparse.Namespace) -> float:
    """Start `turnwise train` and return the seconds to its first written episode."""
    level = {"VLLM_LOGGING_LEVEL": "INFO"} if options.vllm_log else {}
    recipe = write_inputs(folder, model, options.device)
    command = [
        sys.executable,
        "-m",
        "turnwise",
        "train",
        str(recipe),
        "--set",
        f"run.folder={folder / 'runs'}",
    ]
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=os.environ | level,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )

    def show() -> None:
        for line in process.stdout or ():
            print(f"{time.perf_counter() - began:7.1f} s  {line.rstrip()[:200]}", flush=True)

    shown = threading.Thread(target=show)
    shown.start()
    first = 0.0
    while process.poll() is None:
        written = any(file.stat().st_size for file in folder.glob("runs/*/trajectories/*"))
        if written and not first:
            first = time.perf_counter() - began
            print(f"{first:7.1f} s  FIRST EPISODE", flush=True)
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    shown.join()
    if not first:
        sys.exit(f"no episode was written; exit code {process.returncode}")
    return first


def main() -> None:
    from benchmarks.long_steps import write_model

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", default="tiny", help="tiny or a size of benchmarks/long.py")
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--vllm-log", action="store_true", help="show vLLM's own lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnwise-start-") as scratch:
        model = Path(scratch, "model")
        write_model(options.model, model, options.device)
        found = []
        for number in range(options.starts):
            folder = Path(scratch, str(number))
            folder.mkdir()
            found.append(start_once(folder, model, options))
    words = ", ".join(f"{seconds:.1f} s" for seconds in found)
    print(f"{options.model}: first episode after {words}; goal {GOAL:g} s", flush=True)


if __name__ == "__main__":
    main()
