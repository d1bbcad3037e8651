"""Measure what each part of a step that always has something to learn adds, on one GPU.

    python benchmarks/learning_gpu.py --model MODEL --out runs/learning_gpu [--arms "plain,all"]

Every fifth family by name is left out of training. An arm is a warm start on the demonstrations of the other
families, and GRPO from there, both under keys of its own; arms with the same warm start share it. All are
tested on the same held-out tasks of both groups of families. Runs share the GPU, `--parallel` at a time. What
is finished stays in --out, and the same command continues an interrupted measurement.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

sys.path.pop(0)  # without this folder, whose mcp.py would shadow the SDK's `mcp`

from turnwise.rollout.measure.report import EvaluationReport, read_report
from turnwise.rollout.measure.statistics import paired_difference
from turnwise.rollout.measure.summary import EvaluatedEpisode, rates_by_task, summarise
from turnwise.worlds.market.families import CONVERSATION_FAMILIES, FAMILIES

NAMES = sorted(FAMILIES | CONVERSATION_FAMILIES)
LEFT_OUT = tuple(NAMES[::5])
TRAINED = tuple(name for name in NAMES if name not in LEFT_OUT)
NUM_DEMONSTRATIONS = 480


@dataclass(frozen=True, slots=True)
class Arm:
    """A warm start by its name in WARM_STARTS, and the keys of GRPO."""

    warm: str
    keys: tuple[str, ...]


PLAIN_WARM_START = ("sft.until_taught=false", "sft.rescue_rounds=0")
WARM_STARTS: Mapping[str, tuple[str, ...]] = {
    "plain": PLAIN_WARM_START,
    "more": (*PLAIN_WARM_START, f"sft.num_tasks={2 * NUM_DEMONSTRATIONS}"),
    "taught": ("sft.rescue_rounds=0",),
    "rescues": ("sft.until_taught=false", f"sft.rescue_tasks={NUM_DEMONSTRATIONS}"),
    "all": (f"sft.rescue_tasks={NUM_DEMONSTRATIONS}",),
}
"""The keys of each warm start: `rescues` plays as many fresh tasks as it has learned, `more` learns them."""

PLAIN = ("curriculum.kind=uniform", "curriculum.plan_starts=false", "rollout.max_repeats=0")
"""GRPO without the parts that are measured."""

ARMS: Mapping[str, Arm] = {
    "plain": Arm("plain", PLAIN),
    "learnability": Arm("plain", (*PLAIN, "curriculum.kind=learnability")),
    "plan starts": Arm("plain", (*PLAIN, "curriculum.plan_starts=true")),
    "repeats end": Arm("plain", (*PLAIN, "rollout.max_repeats=3")),
    "these three": Arm("plain", ()),
    "temperature 1.2": Arm("plain", (*PLAIN, "rollout.temperature=1.2")),
    "taught": Arm("taught", PLAIN),
    "rescues": Arm("rescues", PLAIN),
    "more": Arm("more", PLAIN),
    "rescues and these": Arm("rescues", ()),
    "all": Arm("all", ()),
    "learning rate 0": Arm("plain", ("optimizer.learning_rate=0.0", "run.num_steps=5")),
}
"""Runs that differ from `plain` in one part; then `these three` of GRPO with each warm start."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a measurement stands, and what it trains."""

    out: Path
    model: str
    device: str
    num_train: int
    num_test: int
    num_steps: int

    def recipe(self, name: str, seed: int, model: Path | str) -> Path:
        """Write a run's recipe, without the keys of its arm."""
        on_gpu = self.device == "cuda"
        file = self.out / f"{name}.toml"
        file.write_text(
            f"""seed = {seed}
[model]
path = "{model}"
device = "{self.device}"
dtype = "{"bfloat16" if on_gpu else "float32"}"
[engine]
kind = "{"vllm" if on_gpu else "transformers"}"
{"vllm.cache_gib = 4" if on_gpu else ""}
[tasks]
train = "{self.out / "tasks" / "train.jsonl"}"
test = "{self.out / "tasks" / "test.jsonl"}"
[policy]
lora_rank = 32
lora_alpha = 64
[rollout]
group_size = 8
tokens_per_turn = {256 if on_gpu else 64}
tokens_per_episode = 4096
num_parallel_episodes = {128 if on_gpu else 16}
[optimizer]
learning_rate = 1e-4
[run]
num_steps = {self.num_steps}
tasks_per_step = {40 if on_gpu else 8}
folder = "{self.out / "runs"}"
checkpoint_every = 1000
[evaluation]
num_samples = 2
[update]
tokens_per_microbatch = {4096 if on_gpu else 2048}
[sft]
num_tasks = {NUM_DEMONSTRATIONS}
num_epochs = 2
learning_rate = {4e-4 if on_gpu else 5e-4}
"""
        )
        return file


@dataclass(frozen=True, slots=True)
class Result:
    """One run: its reports before and after, and the figures of its steps."""

    arm: str
    seed: int
    before: EvaluationReport
    after: EvaluationReport
    steps: tuple[Mapping[str, float], ...]
    seconds: float


def turnwise(log: Path, *arguments: str) -> None:
    """Run the command and append its output to a log."""
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-m", "turnwise", *arguments], stdout=file, stderr=file, check=True)


def options(settings: Iterable[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def make_tasks(place: Place) -> None:
    """Train on TRAINED; test on all families, those in LEFT_OUT included."""
    if (place.out / "tasks").exists():
        return
    log = place.out / "tasks.log"
    counts = ("--validation", "1", "--test", str(place.num_test))
    names = [part for name in NAMES for part in ("--family", name)]
    new = place.out / "tasks.new"
    turnwise(log, "tasks", "make", str(new), "--train", str(place.num_train), *counts, *names)
    train = new / "train.jsonl"
    kept = [line for line in train.read_text().splitlines() if json.loads(line)["family"] in TRAINED]
    train.write_text("\n".join(kept) + "\n")
    new.rename(place.out / "tasks")


def warm_model(place: Place, seed: int, warm: str) -> Path:
    return place.out / run_name(f"warm {warm}", seed)


def warm_up(place: Place, seed: int, warm: str) -> None:
    model = warm_model(place, seed, warm)
    if model.exists():
        return
    recipe = place.recipe(model.name, seed, place.model)
    with reported(place, model.name):
        keys = options(WARM_STARTS[warm])
        turnwise(place.out / f"{model.name}.log", "sft", str(recipe), "--out", str(model), *keys)


def learn(place: Place, seed: int, arm: str) -> None:
    name, warm = run_name(arm, seed), warm_model(place, seed, ARMS[arm].warm)
    if (place.out / f"{name}.seconds").exists() or not warm.exists():
        return
    recipe = place.recipe(name, seed, warm)
    with reported(place, name):
        keys = options((f"run.name={name}", *ARMS[arm].keys))
        turnwise(place.out / f"{name}.log", "train", str(recipe), *keys)


@contextlib.contextmanager
def reported(place: Place, name: str) -> Iterator[None]:
    """Keep and print the seconds that a run took; a run that fails does not stop the others."""
    started = time.perf_counter()
    try:
        yield
    except subprocess.CalledProcessError as error:
        print(f"{name}: exit code {error.returncode}, see {place.out / name}.log", flush=True)
        return
    seconds = time.perf_counter() - started
    (place.out / f"{name}.seconds").write_text(f"{seconds:.1f}\n")
    print(f"{name}: {seconds:.0f} s", flush=True)


def run_name(arm: str, seed: int) -> str:
    return f"{arm.replace(' ', '-')}-{seed}"


def read_result(place: Place, seed: int, arm: str) -> Result | None:
    name = run_name(arm, seed)
    done, run = place.out / f"{name}.seconds", place.out / "runs" / name
    if not done.exists():
        return None
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    steps: dict[int, dict[str, float]] = {}
    for line in lines:
        if line["kind"] in ("rollout", "update"):
            steps.setdefault(line["step"], {}).update(line["metrics"])
    before, after = (read_report(run / "evaluations" / f"{when}.json") for when in ("before", "after"))
    return Result(
        arm, seed, before, after, tuple(steps[step] for step in sorted(steps)), float(done.read_text())
    )


def of(report: EvaluationReport, families: Sequence[str]) -> list[EvaluatedEpisode]:
    return [episode for episode in report.episodes if episode.family in families]


def table(results: Sequence[Result]) -> str:
    """One row a run: success in trained and left-out families, the lowest one, repeats, groups that teach."""
    rows = [
        "| arm | seed | trained before → after (gain) | left out before → after (gain) | lowest family | "
        "fell most | repeat themselves, left out | groups that teach, first and last ten | entropy | s |",
        "|" + "---|" * 10,
    ]
    for result in results:
        cells = [result.arm, str(result.seed)]
        cells += [_change(result, families) for families in (TRAINED, LEFT_OUT)]
        rates = {name: _pair(result, [name]) for name in TRAINED if of(result.after, [name])}
        lowest = min(rates, key=lambda name: rates[name][1])
        fell = min(rates, key=lambda name: rates[name][1] - rates[name][0])
        cells += [f"{lowest} {rates[lowest][1]:.2f}", f"{fell} {rates[fell][0]:.2f} → {rates[fell][1]:.2f}"]
        cells.append(f"{_repeating(result.before):.2f} → {_repeating(result.after):.2f}")
        cells.append(_ends(result, "groups/signal_fraction"))
        cells.append(_ends(result, "entropy/mean"))
        cells.append(f"{result.seconds:.0f}")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _pair(result: Result, families: Sequence[str]) -> tuple[float, float]:
    before, after = (summarise(of(report, families)) for report in (result.before, result.after))
    return before.success.value, after.success.value


def _change(result: Result, families: Sequence[str]) -> str:
    before, after = of(result.before, families), of(result.after, families)
    gain = paired_difference(rates_by_task(before), rates_by_task(after))
    low, high = gain.low or 0.0, gain.high or 0.0
    values = _pair(result, families)
    return f"{values[0]:.3f} → {values[1]:.3f} ({low:+.2f} to {high:+.2f})"


def _repeating(report: EvaluationReport) -> float:
    return fmean(episode.is_repeating for episode in of(report, LEFT_OUT))


def _ends(result: Result, figure: str) -> str:
    values = [step[figure] for step in result.steps if figure in step]
    return f"{fmean(values[:10]):.2f}, {fmean(values[-10:]):.2f}" if values else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a model's folder, or `embedded` for a rehearsal")
    parser.add_argument("--out", type=Path, default=Path("runs/learning_gpu"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--num-train", type=int, default=60, help="training tasks of each family")
    parser.add_argument("--num-test", type=int, default=8, help="test tasks of each family")
    parser.add_argument("--parallel", type=int, default=3, help="runs at a time on the GPU")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    place = Place(
        arguments.out.resolve(),
        arguments.model,
        arguments.device,
        arguments.num_train,
        arguments.num_test,
        arguments.steps,
    )
    place.out.mkdir(parents=True, exist_ok=True)
    arms = [name.strip() for name in arguments.arms.split(",")]
    make_tasks(place)
    wanted = [(seed, arm) for seed in arguments.seeds for arm in arms]
    warm = dict.fromkeys((seed, ARMS[arm].warm) for seed, arm in wanted)
    with ThreadPoolExecutor(arguments.parallel) as turns:
        list(turns.map(lambda pair: warm_up(place, *pair), warm))
        list(turns.map(lambda pair: learn(place, *pair), wanted))
    results = [found for pair in wanted if (found := read_result(place, *pair)) is not None]
    text = table(results) if results else "no run has finished"
    (place.out / "table.md").write_text(text + "\n")
    print(text)
    sys.exit(0 if len(results) == len(wanted) else 1)


if __name__ == "__main__":
    main()
