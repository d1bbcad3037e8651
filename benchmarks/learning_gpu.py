"""Measure what each part of a step that always has something to learn adds, on one GPU.

    python benchmarks/learning_gpu.py --model MODEL --out runs/learning_gpu [--arms "plain,all"]

Every fifth family by name is left out of training. An arm is a warm start on demonstrations of the other
families, and GRPO from there on tasks that the warm start has not seen, both under keys of its own. Arms with
the same warm start share it; other seeds repeat GRPO alone. All are tested on the same held-out tasks of both
groups of families. Runs share the GPU, `--parallel` at a time, in the order of --arms. What is finished stays
in --out, and the same command continues an interrupted measurement.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from turnwise.rollout.measure.report import EvaluationReport, read_report
from turnwise.rollout.measure.statistics import paired_difference
from turnwise.rollout.measure.summary import EvaluatedEpisode, rates_by_task, summarise
from turnwise.worlds.market.families import CONVERSATION_FAMILIES, FAMILIES

NAMES = sorted(FAMILIES | CONVERSATION_FAMILIES)
LEFT_OUT = tuple(NAMES[::5])
TRAINED = tuple(name for name in NAMES if name not in LEFT_OUT)


@dataclass(frozen=True, slots=True)
class Arm:
    """A warm start by its name in WARM_STARTS, and the keys of GRPO."""

    warm: str
    keys: tuple[str, ...]


NO_PROBES = "sft.until_taught=false"
WARM_STARTS: Mapping[str, tuple[str, ...]] = {
    "plain": (NO_PROBES,),
    "rescues": (NO_PROBES, "sft.rescue_rounds=1"),
    "more": (NO_PROBES,),
    "probed": (),
}
"""The keys of each warm start. A round of rescues plays as many fresh tasks as were learned; `more` learns as
many more demonstrations as `rescues` had samples in its round."""

PLAIN = (
    "curriculum.kind=uniform",
    "curriculum.plan_starts=false",
    "rollout.max_repeats=0",
)
"""GRPO without the parts that are measured."""
UNCHANGED = ("optimizer.learning_rate=0.0", "run.num_steps=2")
"""What is tested is the warm start, twice."""

MOVING_REFERENCE = ("reference.kind=ema", "algorithm.kl.placement=loss_k2", "algorithm.kl.coefficient=0.05")

ARMS: Mapping[str, Arm] = {
    "all": Arm("plain", ()),
    "plain": Arm("plain", PLAIN),
    "temperatures": Arm("plain", ("rollout.temperature_by_family=true",)),
    "moving reference": Arm("plain", MOVING_REFERENCE),
    "demonstrations": Arm("plain", UNCHANGED),
    "rescues": Arm("rescues", UNCHANGED),
    "more demonstrations": Arm("more", UNCHANGED),
    "all after rescues": Arm("rescues", ()),
    "learnability": Arm("plain", (*PLAIN, "curriculum.kind=learnability")),
    "plan starts": Arm("plain", (*PLAIN, "curriculum.plan_starts=true")),
    "repeats end": Arm("plain", (*PLAIN, "rollout.max_repeats=3")),
    "until taught": Arm("probed", ()),
}
"""The defaults, GRPO without its parts, the defaults with one change, warm starts alone, and single parts."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a measurement stands, and what it trains."""

    out: Path
    model: str
    device: str
    num_warm: int
    """Tasks of each family for the warm start; half of them are demonstrations."""
    num_train: int
    num_test: int
    num_steps: int
    tasks_per_step: int

    @property
    def num_demonstrations(self) -> int:
        return self.num_warm // 2 * len(TRAINED)

    @property
    def runs(self) -> Path:
        return self.out / "runs"

    def recipe(self, name: str, seed: int, model: Path | str, tasks: str) -> Path:
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
max_batch = {128 if on_gpu else 16}
{"vllm.cache_gib = 4" if on_gpu else "cache_tokens = 32768"}
[tasks]
train = "{self.out / "tasks" / tasks}"
test = "{self.out / "tasks" / "test.jsonl"}"
[policy]
lora_rank = 32
lora_alpha = 64
gradient_checkpointing = false  # all sizes are set: a plan would count on memory that the other runs take
[rollout]
group_size = 8
tokens_per_turn = {256 if on_gpu else 64}
tokens_per_episode = 4096
num_parallel_episodes = {128 if on_gpu else 16}
[optimizer]
learning_rate = 1e-4
[run]
num_steps = {self.num_steps}
tasks_per_step = {self.tasks_per_step}
folder = "{self.runs}"
checkpoint_every = 10
keep_checkpoints = 1
[evaluation]
num_samples = 2
[update]
tokens_per_microbatch = {4096 if on_gpu else 2048}
[sft]
num_tasks = {self.num_demonstrations}
rescue_tasks = {self.num_demonstrations}
num_epochs = 2
samples_per_step = 16
learning_rate = 3e-4
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


async def turnwise(log: Path, *arguments: str) -> None:
    """Run the command and append its output to a log. RuntimeError if it fails."""
    with log.open("ab") as file:
        command = (sys.executable, "-m", "turnwise", *arguments)
        process = await asyncio.create_subprocess_exec(*command, stdout=file, stderr=file)
        code = await process.wait()
    if code:
        raise RuntimeError(f"exit code {code}, see {log}")


def options(settings: Iterable[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


async def make_tasks(place: Place) -> None:
    """Write the tasks of the warm start and of GRPO, of TRAINED alone, and test tasks of all families."""
    if (place.out / "tasks").exists():
        return
    new = place.out / "tasks.new"
    num_test = place.num_test * len(TRAINED) // len(LEFT_OUT) // 2  # half as many tasks as of TRAINED
    for names, num_train, count in (
        (TRAINED, place.num_warm + place.num_train, place.num_test),
        (LEFT_OUT, 1, num_test),
    ):
        folder = new / ("trained" if names is TRAINED else "left_out")
        counts = ("--train", str(num_train), "--validation", "1", "--test", str(count))
        families = [part for name in names for part in ("--family", name)]
        await turnwise(place.out / "tasks.log", "tasks", "make", str(folder), *counts, *families)
    seen = dict.fromkeys(TRAINED, 0)
    parts: dict[str, list[str]] = {"warm.jsonl": [], "train.jsonl": [], "test.jsonl": []}
    for line in (new / "trained" / "train.jsonl").read_text().splitlines():
        family = json.loads(line)["family"]
        seen[family] += 1
        parts["warm.jsonl" if seen[family] <= place.num_warm else "train.jsonl"].append(line)
    for group in ("trained", "left_out"):
        parts["test.jsonl"] += (new / group / "test.jsonl").read_text().splitlines()
    for name, lines in parts.items():
        (new / name).write_text("\n".join(lines) + "\n")
    new.rename(place.out / "tasks")


class Runs:
    """All runs of a measurement, `parallel` at a time; a warm start is made once."""

    def __init__(self, place: Place, warm_seed: int, parallel: int) -> None:
        self._place = place
        self._warm_seed = warm_seed
        self._slots = asyncio.Semaphore(parallel)
        self._warm: dict[str, asyncio.Task[Path]] = {}

    async def run(self, wanted: Sequence[tuple[int, str]]) -> None:
        """Run what is not finished; a run that fails does not stop the others."""
        for _, arm in wanted:
            self._begin(ARMS[arm].warm)
        names = [run_name(arm, seed) for seed, arm in wanted]
        ended = await asyncio.gather(*(self._learn(*pair) for pair in wanted), return_exceptions=True)
        for name, error in zip(names, ended, strict=True):
            if isinstance(error, Exception):
                print(f"{name}: {error}", flush=True)

    def _begin(self, warm: str) -> None:
        if warm == "more":
            self._begin("rescues")
        if warm not in self._warm:
            self._warm[warm] = asyncio.create_task(self._warm_up(warm))

    async def _warm_up(self, warm: str) -> Path:
        name = run_name(f"warm {warm}", self._warm_seed)
        model = self._place.out / name
        keys = WARM_STARTS[warm]
        if warm == "more":
            num_more = num_rescue_samples(await self._warm["rescues"])
            keys = (*keys, f"sft.num_tasks={self._place.num_demonstrations + num_more}")
        if not model.exists():
            recipe = self._place.recipe(name, self._warm_seed, self._place.model, "warm.jsonl")
            await self._timed(name, "sft", str(recipe), "--out", str(model), *options(keys))
        return model

    async def _learn(self, seed: int, arm: str) -> None:
        place, name = self._place, run_name(arm, seed)
        if (place.out / f"{name}.seconds").exists():
            return
        warm = await self._warm[ARMS[arm].warm]
        recipe = place.recipe(name, seed, warm, "train.jsonl")
        start = [str(recipe), *options((f"run.name={name}", *ARMS[arm].keys))]
        if (place.runs / name).exists():
            has_saved = any((place.runs / name / "checkpoints").glob("step-*"))
            start = ["--resume", str(place.runs / name), *(["--from-start"] * (not has_saved))]
        await self._timed(name, "train", *start)

    async def _timed(self, name: str, *arguments: str) -> None:
        """Run a command once a slot is free; keep and print the seconds that it took."""
        async with self._slots:
            started = time.perf_counter()
            await turnwise(self._place.out / f"{name}.log", *arguments)
            seconds = time.perf_counter() - started
        (self._place.out / f"{name}.seconds").write_text(f"{seconds:.1f}\n")
        print(f"{name}: {seconds:.0f} s", flush=True)


def num_rescue_samples(model: Path) -> int:
    """How many samples were learned once in the rounds of rescues of a warm start."""
    rounds = json.loads((model / "sft.json").read_text())["rescues"]
    return sum(one["num_rescued"] + one["num_plain"] for one in rounds)


def run_name(arm: str, seed: int) -> str:
    return f"{arm.replace(' ', '-')}-{seed}"


def read_result(place: Place, seed: int, arm: str) -> Result | None:
    name = run_name(arm, seed)
    done, run = place.out / f"{name}.seconds", place.runs / name
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
    parser.add_argument("--tasks-per-step", type=int, default=24)
    parser.add_argument("--num-warm", type=int, default=40, help="tasks of each family for the warm start")
    parser.add_argument("--num-train", type=int, default=100, help="tasks of each family for GRPO")
    parser.add_argument("--num-test", type=int, default=8, help="test tasks of each family")
    parser.add_argument("--parallel", type=int, default=4, help="runs at a time on the GPU")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    place = Place(
        arguments.out.resolve(),
        arguments.model,
        arguments.device,
        arguments.num_warm,
        arguments.num_train,
        arguments.num_test,
        arguments.steps,
        arguments.tasks_per_step,
    )
    place.out.mkdir(parents=True, exist_ok=True)
    arms = [name.strip() for name in arguments.arms.split(",")]
    wanted = [(seed, arm) for seed in arguments.seeds for arm in arms]
    asyncio.run(measure(place, wanted, arguments.parallel))
    results = [found for pair in wanted if (found := read_result(place, *pair)) is not None]
    text = table(results) if results else "no run has finished"
    (place.out / "table.md").write_text(text + "\n")
    print(text)
    sys.exit(0 if len(results) == len(wanted) else 1)


async def measure(place: Place, wanted: Sequence[tuple[int, str]], parallel: int) -> None:
    await make_tasks(place)
    await Runs(place, wanted[0][0], parallel).run(wanted)


if __name__ == "__main__":
    main()
