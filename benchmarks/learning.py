"""Measure held-out success before and after training, over seeds and with two controls that must stay flat.

    python benchmarks/learning.py                     # the gate: 3 seeds × (true, learning rate 0, shuffled)
    python benchmarks/learning.py --presets --seeds 0 # every preset, a short version
    python benchmarks/learning.py --plot docs/images/learning.svg
    python benchmarks/learning.py --recipe recipes/smollm2.toml --set model.path=models/warm --goal 0.8

Every run is the recipe with another seed; `recipes/cpu.toml` is the demo, tested on companies that are not in
the training tasks. `shuffled` gives each member the reward of another member of the batch. Everything else is
the same, so a gain would not come from rewards. At learning rate 0 the weights do not change, so 10 steps are
enough.

Shuffled rewards are a random walk: a single run ends above or below its start by more than the interval of
its episodes. Controls are therefore compared with the noise between seeds.

Two runs go at a time, in separate processes with one core each. Finished runs stay in --out, and the same
command continues an interrupted measurement. Exit code 1 if a goal is missed.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rich.console import Console

from turnwise.config import PRESETS, parse_settings, read_recipe
from turnwise.records.folder import RunFolder
from turnwise.rollout.measure.statistics import mean, paired_difference
from turnwise.rollout.measure.summary import rates_by_task, summarise
from turnwise.run.demonstrations.warm_start import warm_started
from turnwise.run.loop import train
from turnwise.run.screen.screen import Screen
from turnwise.run.start_up import open_run
from turnwise.run.training_run import TrainingRun
from turnwise.system.stopping import Stopping
from turnwise.training.packing.samples import Sample
from turnwise.training.update.trainer import StepResult, Trainer

GATE = ("true rewards", "learning rate 0", "shuffled")
SHORT = {"learning rate 0": 10, **dict.fromkeys(PRESETS, 25)}
"""Steps of the variants that are shorter than the recipe."""
RECIPE = Path(__file__).parents[1] / "recipes" / "cpu.toml"


@dataclass(frozen=True, slots=True)
class Result:
    """One run and its held-out success."""

    variant: str
    seed: int
    num_steps: int
    before: float
    after: float
    low: float
    """Lower and upper end of the interval of `after`."""
    high: float
    gain_low: float
    """Lower and upper end of the interval of after - before, paired by task."""
    gain_high: float
    seconds: float
    curve: tuple[float, ...]
    """Success of each step's own episodes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The goal of a variant, and whether its runs reach it."""

    variant: str
    asked: str
    seen: str
    is_met: bool


def judge(runs: Sequence[Result], goal: float) -> Verdict:
    """Summarize all seeds of one variant."""
    variant = runs[0].variant
    if variant == GATE[0]:
        worst = min(run.after for run in runs)
        return Verdict(variant, f"at least {goal} with every seed", f"{worst:.3f}", worst >= goal)
    if variant in GATE:
        gain = mean([run.after - run.before for run in runs])
        low = runs[0].gain_low if gain.low is None else gain.low
        high = runs[0].gain_high if gain.high is None else gain.high
        return Verdict(variant, "within noise of the start", interval(low, high), low <= 0 <= high)
    least = min(run.gain_low for run in runs)
    return Verdict(variant, "a gain beyond noise with every seed", f"{least:+.3f} or more", least > 0)


def interval(low: float, high: float) -> str:
    return f"{low:+.3f} to {high:+.3f}"


class Shuffled:
    """A trainer that shuffles rewards over the samples of a batch."""

    def __init__(self, trainer: Trainer, seed: int) -> None:
        self._trainer = trainer
        self._seed = seed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)

    def update(self, samples: Sequence[Sample], *, step: int, imitation: Sequence[Sample] = ()) -> StepResult:
        rewards = [(sample.reward, sample.turn_rewards) for sample in samples]
        random.Random(f"{self._seed}/{step}").shuffle(rewards)
        mixed = [
            replace(sample, reward=reward, turn_rewards=(*(0.0,) * (len(sample.turn_rewards) - 1), reward))
            for sample, (reward, _) in zip(samples, rewards, strict=True)
        ]
        return self._trainer.update(mixed, step=step, imitation=imitation)


async def learn(variant: str, seed: int, arguments: argparse.Namespace) -> Result:
    options = [f"run.num_steps={SHORT[variant]}"] if variant in SHORT else []
    if variant in PRESETS:
        options.append(f"algorithm.preset={variant}")
    if variant == "learning rate 0":
        options.append("optimizer.learning_rate=0.0")
    recipe = read_recipe(arguments.recipe, parse_settings([f"seed={seed}", *options, *arguments.overrides]))
    screen = Screen(Console(stderr=True, emoji=False), recipe.run)
    started = time.perf_counter()
    name = f"{variant.replace(' ', '-')}-{seed}"
    with RunFolder.create(arguments.out, name, recipe) as run_folder:
        resolved = resolve(RunRequest(recipe), recipe, recipe.played_splits)
        if recipe.run.warm_start:
            resolved = await warm_started(resolved, run_folder, screen, Stopping())
        async with open_run(resolved, run_folder, screen) as opened:
            trainer: Any = Shuffled(opened.trainer, seed) if variant == "shuffled" else opened.trainer
            run = TrainingRun(opened.run, run_folder, opened.bench, trainer, opened.lessons, screen)
            ended = await train(run, Stopping())
    assert ended.before is not None
    assert ended.after is not None, ended.why
    after = summarise(ended.after.episodes).success
    gain = paired_difference(rates_by_task(ended.before.episodes), rates_by_task(ended.after.episodes))
    lines = [json.loads(line) for line in run_folder.metrics.read_text().splitlines()]
    return Result(
        variant=variant,
        seed=seed,
        num_steps=ended.progress.next_step,
        before=summarise(ended.before.episodes).success.value,
        after=after.value,
        low=after.low or 0.0,
        high=after.high or 1.0,
        gain_low=gain.low or 0.0,
        gain_high=gain.high or 0.0,
        seconds=time.perf_counter() - started,
        curve=tuple(line["metrics"]["success/rate"] for line in lines if line["kind"] == "rollout"),
    )


def table(results: Sequence[Result], verdicts: Sequence[Verdict]) -> str:
    rows = [
        "| variant | seed | steps | before | after | 95% interval | gain | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {run.variant} | {run.seed} | {run.num_steps} | {run.before:.3f} | {run.after:.3f} "
        f"| {run.low:.3f} to {run.high:.3f} | {interval(run.gain_low, run.gain_high)} "
        f"| {run.seconds / 60:.1f} |"
        for run in results
    ]
    rows += ["", "| variant | asked for | seen | |", "|---|---|---|---|"]
    rows += [
        f"| {verdict.variant} | {verdict.asked} | {verdict.seen} | {'met' if verdict.is_met else 'MISSED'} |"
        for verdict in verdicts
    ]
    return "\n".join(rows)


def plot(results: Sequence[Result]) -> str:
    """Draw an SVG: success of each step's episodes, one line per run, one colour per variant."""
    width, height, left, top = 720, 360, 50, 20
    colours = dict(zip(dict.fromkeys(result.variant for result in results), PALETTE, strict=False))
    longest = max(len(result.curve) for result in results)

    def at(step: int, success: float) -> str:
        x = left + (width - left - 150) * step / max(longest - 1, 1)
        return f"{x:.1f},{top + (height - top - 40) * (1 - success):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    ]
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for tenth in range(0, 11, 2):
        x, y = at(0, tenth / 10).split(",")
        end = at(longest - 1, 0).split(",")[0]
        parts.append(f'<line x1="{x}" y1="{y}" x2="{end}" y2="{y}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{left - 8}" y="{float(y) + 4}" font-size="12" text-anchor="end">{tenth / 10}</text>'
        )
    for result in results:
        smooth = [
            sum(result.curve[max(0, i - 2) : i + 1]) / len(result.curve[max(0, i - 2) : i + 1])
            for i in range(len(result.curve))
        ]
        points = " ".join(at(step, value) for step, value in enumerate(smooth))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colours[result.variant]}" stroke-width="1.6"/>'
        )
    for number, (variant, colour) in enumerate(colours.items()):
        y = top + 20 + 20 * number
        parts.append(f'<text x="{width - 140}" y="{y}" font-size="13" fill="{colour}">{variant}</text>')
    legend = f"step, 0 to {longest - 1}: success of its own episodes (mean of three steps)"
    parts.append(f'<text x="{left}" y="{height - 8}" font-size="12">{legend}</text>')
    return "\n".join([*parts, "</svg>"])


PALETTE = ("#1b7f4d", "#b5482f", "#35609f", "#8a5a9e", "#9a7d0a", "#3a8f9e", "#666666")


def kept(out: Path, variant: str, seed: int) -> Path:
    return out / f"{variant.replace(' ', '-')}-{seed}.json"


def read_result(file: Path) -> Result:
    found = json.loads(file.read_text())
    return Result(**{**found, "curve": tuple(found["curve"])})


async def play_all(wanted: Sequence[tuple[str, int]], arguments: argparse.Namespace) -> None:
    """Run them in separate processes, `--jobs` at a time, each with its share of the cores."""
    turns = asyncio.Semaphore(arguments.jobs)
    cores = max((os.cpu_count() or 1) // arguments.jobs, 1)
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores)}

    async def play(variant: str, seed: int) -> None:
        command = [sys.executable, __file__, "--one", variant, "--seeds", str(seed)]
        command += ["--recipe", str(arguments.recipe), "--out", str(arguments.out)] + [
            f"--set={override}" for override in arguments.overrides
        ]
        log = kept(arguments.out, variant, seed).with_suffix(".log")
        async with turns:
            with log.open("wb") as file:
                process = await asyncio.create_subprocess_exec(
                    *command, env=environment, stdout=file, stderr=file
                )
                status = await process.wait()
        print(f"{variant}, seed {seed}: {'done' if status == 0 else f'FAILED, see {log}'}", flush=True)

    await asyncio.gather(*(play(variant, seed) for variant, seed in wanted))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--goal", type=float, default=0.9, help="success that true rewards must reach")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--presets", action="store_true", help="run every preset instead of the three variants"
    )
    parser.add_argument("--variants", nargs="*", help="run only these")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time; use 1 to time the demo")
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    parser.add_argument("--plot", type=Path, help="write the learning curves to this SVG file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.one:
        result = asyncio.run(learn(arguments.one, arguments.seeds[0], arguments))
        kept(arguments.out, arguments.one, result.seed).write_text(
            json.dumps(asdict(result), indent=1) + "\n"
        )
        return
    variants = arguments.variants or (list(PRESETS) if arguments.presets else list(GATE))
    wanted = [(variant, seed) for variant in variants for seed in arguments.seeds]
    missing = [variant for variant in wanted if not kept(arguments.out, *variant).exists()]
    asyncio.run(play_all(missing, arguments))
    results = [read_result(file) for variant in wanted if (file := kept(arguments.out, *variant)).exists()]
    verdicts = [
        judge(runs, arguments.goal)
        for name in variants
        if (runs := [r for r in results if r.variant == name])
    ]
    print(table(results, verdicts))
    if arguments.plot is not None and results:
        arguments.plot.parent.mkdir(parents=True, exist_ok=True)
        arguments.plot.write_text(plot(results))
    sys.exit(0 if len(results) == len(wanted) and all(verdict.is_met for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
