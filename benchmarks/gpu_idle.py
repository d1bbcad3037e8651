"""Measure the share of time that the GPU is idle in every step of a run, and draw a timeline.

    python benchmarks/gpu_idle.py --model models/warm --plot docs/images/timeline.svg   # async, 50 ms calls
    python benchmarks/gpu_idle.py --model models/warm --mode sync                       # for comparison
    python benchmarks/race/grown.py models/grown 8        # the embedded model, as large as Qwen3-8B
    python benchmarks/gpu_idle.py --model models/grown --set optimizer.learning_rate=1e-8

It runs `turnwise train recipes/smollm2.toml` with vLLM and slow tools in a separate process, while nvidia-smi
reports ten times a second the share of time with a kernel running. A step lasts from the end of one update to
the end of the next. The first steps, in which much is compiled, and the last ones, without concurrent
episodes, are left out. The goal is at most 15% idle in every measured step; exit code 1 if it is missed.
"""

import argparse
import bisect
import datetime
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE / "race")]

from slow_servers import write_servers  # noqa: E402 (found by the path above)

GOAL = 0.15
EVERY = ("-lms", "100")
"""Milliseconds between samples."""
WARM = 2
"""Steps at the start that are left out."""
END = 3
"""Steps at the end that are left out: the batches that may be collected ahead, and the one being learned."""


@dataclass(frozen=True, slots=True)
class Look:
    """One sample of nvidia-smi."""

    time: float
    busy: float


@dataclass(frozen=True, slots=True)
class Step:
    """A step: from the end of one update to the end of the next."""

    number: int
    start: float
    end: float
    played: float
    """Seconds to collect its batch; in async mode, concurrently with other work."""
    learned: float


def read_looks(text: str) -> list[Look]:
    """Parse lines like `2026/11/15 16:12:01.123, 87`, in local time."""
    looks = []
    for line in text.splitlines():
        when, _, share = line.partition(",")
        if share.strip().isdigit():
            moment = datetime.datetime.strptime(when.strip(), "%Y/%m/%d %H:%M:%S.%f")
            looks.append(Look(moment.timestamp(), int(share) / 100))
    return looks


def read_steps(metrics: Path) -> list[Step]:
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    played = {line["step"]: line["metrics"] for line in lines if line["kind"] == "rollout"}
    updates = [line for line in lines if line["kind"] == "update"]
    return [
        Step(
            after["step"],
            before["time"],
            after["time"],
            played[after["step"]]["time/rollout_seconds"],
            after["metrics"]["time/update_seconds"],
        )
        for before, after in itertools.pairwise(updates)
    ]


def idle_share(looks: Sequence[Look], start: float, end: float) -> float:
    """The idle share of the samples in this period; a sample covers the time before it."""
    times = [look.time for look in looks]
    within = looks[bisect.bisect_left(times, start) : bisect.bisect_right(times, end)]
    if not within:
        raise ValueError(f"nvidia-smi said nothing between {start} and {end}")
    return 1 - sum(look.busy for look in within) / len(within)


def record(arguments: argparse.Namespace, folder: Path) -> tuple[list[Look], list[Step]]:
    write_servers(folder / "mcp.json", arguments.latency)
    keys = {
        "model.path": arguments.model,
        "model.dtype": "bfloat16",
        "engine.kind": "vllm",
        "engine.max_batch": 128,
        "rollout.num_parallel_episodes": 128,
        "update.tokens_per_microbatch": 16_384,
        "tools.mcp": folder / "mcp.json",
        "run.mode": arguments.mode,
        "run.num_steps": arguments.steps + WARM + END + 1,
        "run.folder": folder,
        "run.name": "idle",
        "evaluation.before_and_after": "false",
    }
    options = [f"--set={key}={value}" for key, value in keys.items()]
    options += [f"--set={override}" for override in arguments.overrides]
    train = [sys.executable, "-m", "turnwise", "train", str(HERE.parent / "recipes" / "smollm2.toml")]
    look = ["nvidia-smi", "--query-gpu=timestamp,utilization.gpu", "--format=csv,noheader,nounits", *EVERY]
    with subprocess.Popen(look, stdout=subprocess.PIPE, text=True) as looking:
        try:
            subprocess.run([*train, *options], check=True, stdout=sys.stderr)
        finally:
            looking.terminate()
            said = looking.communicate()[0]
    [metrics] = folder.glob("idle*/metrics.jsonl")
    return read_looks(said), read_steps(metrics)[WARM:-END]


def timeline(looks: Sequence[Look], steps: Sequence[Step]) -> str:
    """Draw an SVG: the share of time that the GPU worked, and below it when updates ran."""
    width, height, left, top = 900, 220, 50, 20
    start, end = steps[0].start, steps[-1].end

    def x(time: float) -> float:
        return left + (width - left - 20) * (time - start) / (end - start)

    bottom = height - 60
    shown = [look for look in looks if start <= look.time <= end]
    points = " ".join(f"{x(look.time):.1f},{bottom - (bottom - top) * look.busy:.1f}" for look in shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<polyline points="{points}" fill="none" stroke="#35609f" stroke-width="1.2"/>',
    ]
    for share in (0, 0.5, 1):
        y = bottom - (bottom - top) * share
        parts.append(f'<line x1="{left}" y1="{y}" x2="{width - 20}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" font-size="12" text-anchor="end">{share:.0%}</text>')
    for step in steps:
        begin, finish = x(max(step.end - step.learned, start)), x(step.end)
        bar = f'x="{begin:.1f}" y="{bottom + 8}" width="{max(finish - begin, 1):.1f}" height="12"'
        share = f"{idle_share(looks, step.start, step.end):.0%} idle"
        parts += [
            f'<rect {bar} fill="#1b7f4d"/>',
            f'<line x1="{finish:.1f}" y1="{top}" x2="{finish:.1f}" y2="{bottom}" stroke="#bbb"/>',
            f'<text x="{x(step.start) + 3:.1f}" y="{top - 6}" font-size="10">{share}</text>',
        ]
    legend = f"{end - start:.0f} s. Line: share of the time a kernel ran; bars: updates; grey: ends of steps"
    parts.append(f'<text x="{left}" y="{height - 12}" font-size="12">{legend}</text>')
    return "\n".join([*parts, "</svg>"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2", help="a model folder, preferably after a warm start")
    parser.add_argument("--mode", choices=("async", "sync"), default="async")
    parser.add_argument("--latency", type=int, default=50, help="milliseconds added to every call")
    parser.add_argument("--steps", type=int, default=8, help="measured steps")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--plot", type=Path, help="write a timeline to this SVG file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        looks, steps = record(arguments, Path(folder))
    shares = [idle_share(looks, step.start, step.end) for step in steps]
    print("| step | seconds | collecting | updating | GPU idle |\n|---|---|---|---|---|")
    for step, share in zip(steps, shares, strict=True):
        seconds = f"{step.end - step.start:.1f} | {step.played:.1f} | {step.learned:.1f}"
        print(f"| {step.number} | {seconds} | {share:.0%} |")
    print(
        f"{arguments.mode}, {arguments.latency} ms per call: at most {max(shares):.0%} idle, goal {GOAL:.0%}"
    )
    if arguments.plot is not None:
        arguments.plot.write_text(timeline(looks, steps))
    sys.exit(0 if max(shares) <= GOAL else 1)


if __name__ == "__main__":
    main()
