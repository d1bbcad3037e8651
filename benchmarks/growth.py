"""Measure how a step's time and memory grow with tokens, episodes, turns and servers, and draw it.

    python benchmarks/growth.py --plot docs/images/growth.svg     # a tiny model on a CPU, about 8 minutes
    python benchmarks/growth.py --axes episodes,turns

Every point is a run of turnwise as in benchmarks/long_steps.py, with scripted turns and real servers: one
warm-up step and two measured ones. One number grows, the others stay: 8 episodes with a prompt of 400 tokens
and 3 turns of 40 sampled tokens, 60 tokens observed between two turns, one server. A line is fitted to the
points before the last; how far the last one lies above it shows whether the growth bends.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE / "long_race"), str(HERE / "race")]

from episodes import TERMS_VARIABLE, LongTerms  # noqa: E402 (found by the path above)

AXES: Mapping[str, tuple[str, Sequence[int]]] = {
    "tokens": ("observed_tokens", (60, 260, 460, 860, 1260)),
    "episodes": ("num_tasks", (2, 4, 8, 12, 16)),
    "turns": ("num_turns", (3, 6, 9, 12, 18)),
    "servers": ("num_servers", (1, 2, 4, 8, 12)),
}
"""What grows, the field of the terms, and its values."""
PARTS = ("rollout", "update", "publish")
COLOURS = {"rollout": "#35609f", "update": "#1b7f4d", "memory": "#b3541e"}
WARM, MEASURED = 1, 2


@dataclass(frozen=True, slots=True)
class Point:
    """One run: the number that grew, mean seconds of each part of a step, and the peak of its memory."""

    axis: str
    value: float
    seconds: Mapping[str, float]
    spread: float
    """Of the steps' seconds, relative to their mean."""
    peak_gib: float


def terms_for(folder: Path, model: Path, axis: str, value: int) -> LongTerms:
    base = LongTerms(
        folder=str(folder),
        model=str(model),
        device="cpu",
        dtype="float32",
        tuning="lora",
        latencies=(0,) * (WARM + MEASURED),
        memory_share=0.3,
        tokens_per_microbatch=8_192,
        rows=2,
        num_tasks=2,
        group_size=4,
        prompt_tokens=400,
        num_turns=3,
        sampled_tokens=40,
        observed_tokens=60,
        engine="transformers",
    )
    if axis == "servers":  # their schemas need room
        base = replace(base, prompt_tokens=2_400)
    return replace(base, **{AXES[axis][0]: value})


def shown_value(axis: str, terms: LongTerms) -> float:
    """The number on the axis: a user's, not the field's."""
    return {
        "tokens": terms.prompt_tokens + terms.tail_tokens,
        "episodes": terms.num_episodes,
        "turns": terms.num_turns,
        "servers": terms.num_servers,
    }[axis]


def measure(scratch: Path, model: Path, axis: str, value: int) -> Point:
    from benchmarks.long_steps import write_script

    folder = scratch / f"{axis}-{value}"
    folder.mkdir()
    terms = terms_for(folder, model, axis, value)
    file = folder / "terms.json"
    file.write_text(json.dumps(asdict(terms)))
    terms.set_latency(0)
    write_script(terms, 1 + WARM + MEASURED)
    path = os.pathsep.join(filter(None, [str(HERE / "long_race"), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {TERMS_VARIABLE: str(file), "PYTHONPATH": path}
    command = [sys.executable, str(HERE / "long_race" / "turnwise_side.py"), "sync"]
    with (folder / "log").open("w") as log:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, check=False
        )
    if done.returncode:
        sys.exit(f"{axis} {value}: exit code {done.returncode}\n{(folder / 'log').read_text()[-3000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    steps = [line["step"] for line in lines if "step" in line][WARM:]
    seconds = {part: statistics.fmean(step[part] for step in steps) for part in PARTS}
    totals = [step["seconds"] for step in steps]
    spread = (max(totals) - min(totals)) / statistics.fmean(totals)
    [memory] = [line["memory"]["peak_gib"] for line in lines if "memory" in line]
    shutil.rmtree(folder)
    return Point(axis, shown_value(axis, terms), seconds, spread, memory)


def above_line(values: Sequence[float], measured: Sequence[float]) -> float:
    """The last point relative to the line through the ones before it."""
    slope, intercept = statistics.linear_regression(values[:-1], measured[:-1])
    expected = intercept + slope * values[-1]
    return measured[-1] / expected - 1 if expected > 0 else float("inf")


def series_of(points: Sequence[Point]) -> dict[str, list[float]]:
    found = {part: [point.seconds[part] for point in points] for part in ("rollout", "update")}
    return found | {"memory": [point.peak_gib for point in points]}


def drawing(points: Sequence[Point]) -> str:
    """Four panels: seconds of rollout and update, and GiB, against the number that grows."""
    width, height, gap = 420, 240, 50
    axes = list(dict.fromkeys(point.axis for point in points))
    rows = -(-len(axes) // 2)
    size = f"0 0 {2 * width} {rows * height + 30}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, axis in enumerate(axes):
        chosen = [point for point in points if point.axis == axis]
        left, top = number % 2 * width + gap, number // 2 * height + 25
        wide, high = width - 2 * gap, height - 65
        values, series = [point.value for point in chosen], series_of(chosen)
        most = {name: max(*numbers, 1e-9) for name, numbers in series.items()}
        most["rollout"] = most["update"] = max(most["rollout"], most["update"])
        for name, numbers in series.items():
            places = [
                (left + wide * value / values[-1], top + high * (1 - measured / most[name]))
                for value, measured in zip(values, numbers, strict=True)
            ]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>'
            )
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[name]}"/>' for x, y in places
            ]
        label = f"{values[-1]:,.0f} {axis}"
        frame = f'x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#bbb"'
        parts += [
            f"<rect {frame}/>",
            f'<text x="{left}" y="{top - 8}">{most["rollout"]:.1f} s</text>',
            f'<text x="{left + wide}" y="{top - 8}" text-anchor="end">{most["memory"]:.2f} GiB</text>',
            f'<text x="{left}" y="{top + high + 14}">0</text>',
            f'<text x="{left + wide}" y="{top + high + 14}" text-anchor="end">{label}</text>',
        ]
    for place, (name, colour) in enumerate(COLOURS.items()):
        x, y = gap + place * 120, rows * height + 15
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 15}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</svg>"])


def report(points: Sequence[Point]) -> None:
    heads = ["grows", "value", "rollout s", "update s", "publish s", "spread", "peak GiB"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for point in points:
        seconds = " | ".join(f"{point.seconds[part]:.2f}" for part in PARTS)
        cells = f"{seconds} | {point.spread:.0%} | {point.peak_gib:.2f}"
        print(f"| {point.axis} | {point.value:,.0f} | {cells} |")
    for axis in dict.fromkeys(point.axis for point in points):
        chosen = [point for point in points if point.axis == axis]
        values = [point.value for point in chosen]
        over = {name: above_line(values, numbers) for name, numbers in series_of(chosen).items()}
        words = ", ".join(f"{name} {share:+.0%}" for name, share in over.items())
        print(f"{axis}: the last point compared with the line through the others: {words}")


def main() -> None:
    from benchmarks.long_steps import write_model

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axes", default=",".join(AXES), help="with commas between")
    parser.add_argument("--plot", type=Path, help="write the curves to this SVG file")
    options = parser.parse_args()
    points = []
    with tempfile.TemporaryDirectory(prefix="turnwise-growth-") as scratch:
        model = Path(scratch, "model")
        write_model("tiny", model, "cpu")
        for axis in options.axes.split(","):
            for value in AXES[axis][1]:
                points.append(measure(Path(scratch), model, axis, value))
                print(json.dumps(asdict(points[-1])), flush=True)
    report(points)
    if options.plot is not None:
        options.plot.write_text(drawing(points))


if __name__ == "__main__":
    main()
