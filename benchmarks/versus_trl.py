"""Compare whole training steps with real tools: turnwise and TRL 1.16.0, in one run.

    pip install --target .tools/trl --no-deps trl==1.16.0 datasets dill multiprocess xxhash
    python benchmarks/versus_trl.py                                            # CPU, the embedded model
    python benchmarks/versus_trl.py --device cuda --model qwen3-0.6b           # GPU, vLLM on both sides
    python benchmarks/versus_trl.py --device cuda --model models/warm          # SmolLM2 after `turnwise sft`
    python benchmarks/versus_trl.py --steps 60 --target 0.9 --latencies 0

A step plays 8 tasks × 8 episodes with the five built-in servers and learns from them. Every side runs in a
separate process with the same weights, tokenizer, chat template, tasks in the same order, tool schemas,
servers, MCP client, rewards, limits of tokens and turns, AdamW, learning rate and clipping. Both are
synchronous and replace no groups. TRL has its best configuration, see race/trl_side.py: on a CPU it samples
by `generate` and by continuous batching, and the faster one counts; on a GPU by colocated vLLM (it supports
0.22 to 0.31) with a cache of the same size. There all sides start together, which takes minutes, and are
timed one after the other. TRL's experimental AsyncGRPOTrainer is measured in long_steps.py.

`--latencies` delays every tool result at the server, for all sides; the steps of a side alternate between the
latencies. Finished results stay in --out, and the same command continues an interrupted comparison.
`qwen3-0.6b` computes what the embedded model does in the sizes of Qwen3-0.6B, but with as many key heads as
heads (race/grown.py). `--epochs` is for a model that cannot call tools: it first learns from the tasks'
demonstrations. `--target` needs many steps: it adds the seconds until three consecutive steps reach that
success on average, and the held-out success afterwards, measured in the same way for all.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
RIVAL = HERE.parent / ".tools" / "trl"
sys.path[:1] = [str(HERE / "race")]
sys.path.append(str(RIVAL))

from slow_servers import write_servers  # noqa: E402 (found by the path above)
from terms import READY, Step, Terms  # noqa: E402

SIDES = {
    "turnwise": ("turnwise_side.py", "transformers"),
    "turnwise-vllm": ("turnwise_side.py", "vllm"),
    "trl-generate": ("trl_side.py", "generate"),
    "trl-continuous": ("trl_side.py", "continuous"),
    "trl-vllm": ("trl_side.py", "vllm"),
}
"""The script and the sampler of every side."""

DEFAULT_SIDES = {"cpu": "turnwise,trl-generate,trl-continuous", "cuda": "turnwise-vllm,trl-vllm"}

QWEN = "qwen3-0.6b"
GOALS = {("cpu", 0): 5.0, ("cpu", 500): 15.0, ("cuda", 0): 2.0, ("cuda", 500): 8.0}
"""Goals: episodes per second relative to TRL's, by device and milliseconds of a tool call."""


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one side at one latency."""

    side: str
    load: float
    """Load of the machine at the start."""
    warm: tuple[Step, ...]
    steps: tuple[Step, ...]
    """The measured steps, all of one latency."""
    peak_mib: float
    held_out: float | None

    @property
    def latency(self) -> int:
        return self.steps[0].latency

    def mean(self, name: str) -> float:
        return statistics.fmean(getattr(step, name) for step in self.steps)

    @property
    def speed(self) -> float:
        """Episodes per second."""
        return self.mean("num_episodes") / self.mean("seconds")

    def seconds_to(self, target: float) -> float | None:
        """Seconds of training until three consecutive steps reach the target on average."""
        steps = self.warm + self.steps
        for end in range(3, len(steps) + 1):
            if statistics.fmean(step.success for step in steps[end - 3 : end]) >= target:
                return sum(step.seconds for step in steps[:end])
        return None


# --- settings of all sides ----------------------------------------------------------------------------------


def write_model(name: str, folder: Path, dtype: str) -> None:
    """Write weights and a tokenizer with the template that TRL recognizes as Qwen3's."""
    import torch
    from grown import QWEN3_06B, grown

    from turnwise.config import ModelConfig
    from turnwise.engines.weight_transfer import write_model as write_weights
    from turnwise.models.chat import load_tokenizer
    from turnwise.setup.bench import load_model

    rival = find_spec("trl")
    if rival is None or not rival.submodule_search_locations:
        raise SystemExit(f"TRL is not there: {(__doc__ or '').splitlines()[2].strip()}")
    template = Path(rival.submodule_search_locations[0]) / "chat_templates" / "qwen3.jinja"
    tokenizer = load_tokenizer("embedded" if name == QWEN else name)
    tokenizer.chat_template = template.read_text()
    folder.mkdir(parents=True, exist_ok=True)
    if name == QWEN:
        ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
        small = load_model(ModelConfig(path="embedded"))
        model = grown(small, {**QWEN3_06B, **ends}).to(getattr(torch, dtype))
    else:
        model = load_model(ModelConfig(path=name, dtype=dtype))
    write_weights(model, folder)
    tokenizer.save_pretrained(folder)


def teach(model: Path, learned: Path, terms: Terms, num_epochs: int) -> None:
    """Warm the model up on the tasks' demonstrations, so that it calls tools."""
    keys = {
        "model.path": model,
        "model.device": terms.device,
        "tasks.train": terms.tasks,
        "tools.mcp": terms.mcp,
        "policy.tuning": "full",
        "rollout.tokens_per_episode": 4096,
        "sft.num_epochs": num_epochs,
        "sft.learning_rate": 2e-4,
    }
    recipe = str(HERE.parent / "recipes" / "cpu.toml")
    command = [sys.executable, "-m", "turnwise", "sft", recipe, "--no-verify", "--out", str(learned)]
    subprocess.run([*command, *(f"--set={key}={value}" for key, value in keys.items())], check=True)


def write_tasks(file: Path, terms: Terms) -> None:
    """With one turn limit for all tasks, because TRL has only one."""
    from turnwise.tasks.load import load, save

    tasks = load(HERE.parent / "recipes" / "cpu" / "train.jsonl")
    save([replace(task, max_turns=terms.max_turns) for task in tasks], file)


async def longest_prompt(terms: Terms) -> int:
    from turnwise.mcp.pool import Pool
    from turnwise.mcp.spec import load as load_servers
    from turnwise.models.chat import load_tokenizer, open_chat
    from turnwise.setup.bench import offered_tools
    from turnwise.tasks.load import load

    chat = open_chat(load_tokenizer(terms.model))
    async with Pool(load_servers(Path(terms.mcp)), special_tokens=chat.special_tokens) as pool:
        await pool.connect()
        tasks = load(Path(terms.tasks))
        return max(len(chat.open(task.prompt, offered_tools(task, pool.tools))) for task in tasks)


def prepare(options: argparse.Namespace) -> Terms:
    out: Path = options.out.resolve()
    latencies = tuple(map(int, options.latencies.split(",")))
    is_cpu = options.device == "cpu"
    terms = Terms(
        folder="",
        model=str(out / "model"),
        tasks=str(out / "tasks.jsonl"),
        mcp=str(out / "mcp.json"),
        backend="",
        device=options.device,
        dtype="float32" if is_cpu else "bfloat16",
        tuning=options.tuning or ("full" if is_cpu else "lora"),
        latencies=options.warm * latencies[:1] + options.steps * latencies,
        prompt_tokens=0,
        tasks_per_step=options.tasks_per_step,
        rows=options.rows or (8 if is_cpu else 32),
        # an enlarged model forgets what it knows after one step of the usual size
        is_merged=options.publish == "merged",
        cache_gib=options.cache_gib,
        learning_rate=1e-8 if options.model == QWEN else 2e-4,
    )
    if not (out / "model").exists():
        write_servers(Path(terms.mcp), 0)
        write_tasks(Path(terms.tasks), terms)
        source = options.model
        if options.epochs:
            write_model(options.model, out / "untaught", "float32")
            teach(out / "untaught", out / "taught", terms, options.epochs)
            source = str(out / "taught")
        write_model(source, out / "unfinished", terms.dtype)
        (out / "unfinished").rename(out / "model")
    return replace(terms, prompt_tokens=asyncio.run(longest_prompt(terms)))


# --- the sides ----------------------------------------------------------------------------------------------


def run_side(side: str, terms: Terms, options: argparse.Namespace) -> Row | None:
    """Run a side in a separate process that prints its figures; keep its stderr. None if it fails.

    The row still covers all latencies.
    """
    script, backend = SIDES[side]
    folder = options.out.resolve() / side
    file, mcp, told, log = (folder / name for name in ("terms.json", "mcp.json", "told.jsonl", "log"))
    write_servers(mcp, 0)
    file.write_text(json.dumps(asdict(replace(terms, folder=str(folder), mcp=str(mcp), backend=backend))))
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(RIVAL)]))
    command = [sys.executable, str(HERE / "race" / script), str(file)]
    load = os.getloadavg()[0]
    with told.open("w") as figures, log.open("w") as errors:
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, env=environment, stdout=figures, stderr=errors, check=False)
    (folder / READY).touch()  # in any case, stop waiting for it
    if done.returncode:
        print(log.read_text()[-2000:], file=sys.stderr)
        return None
    # libraries print there too
    lines = [json.loads(line) for line in told.read_text().splitlines() if line.startswith('{"')]
    steps = tuple(Step(**line["step"]) for line in lines if "step" in line)
    last = {key: value for line in lines for key, value in line.items()}
    success = held_out(side, last["learned"], terms, folder) if options.target else None
    return Row(side, load, steps[: options.warm], steps[options.warm :], last["peak_mib"], success)


def run_sides(sides: Sequence[str], terms: Terms, options: argparse.Namespace) -> None:
    """Run the sides and keep each one's results in a file; on a GPU they start together."""
    folders = [options.out.resolve() / side for side in sides]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    is_together = terms.device == "cuda" and options.warm > 0
    terms = replace(terms, together=tuple(map(str, folders)) if is_together else ())

    def run(side: str) -> None:
        row = run_side(side, terms, options)
        said = "FAILED"
        if row is not None:
            said = ", ".join(f"{step.seconds:.2f} s at {step.latency} ms" for step in row.steps)
            (options.out / f"{side}.json").write_text(json.dumps(asdict(row), indent=1) + "\n")
        print(f"{side}: {said}", flush=True)

    with ThreadPoolExecutor(len(sides) if is_together else 1) as running:
        list(running.map(run, sides))


def held_out(side: str, learned: str, terms: Terms, folder: Path) -> float:
    """Held-out success by `turnwise eval`, for every side, without delays."""
    keys = {
        "rollout.tokens_per_turn": terms.tokens_per_turn,
        "rollout.tokens_per_episode": terms.prompt_tokens + terms.completion_tokens,
        "tools.mcp": terms.mcp,
        "model.device": terms.device,
    }
    is_run = side.startswith("turnwise")  # else a model's folder
    keys |= {} if is_run else {"model.path": learned}
    tasks, out = HERE.parent / "recipes" / "cpu" / "test.jsonl", folder / "eval.json"
    command = [sys.executable, "-m", "turnwise", "eval", *([learned] if is_run else [])]
    command += ["--tasks", str(tasks), "--samples", "2", "--out", str(out), "--json"]
    command += [f"--set={key}={value}" for key, value in keys.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["all"]["success"]["value"])


# --- results ------------------------------------------------------------------------------------------------


def read_rows(file: Path) -> list[Row]:
    """Split a row by latency."""
    found = json.loads(file.read_text())
    warm, steps = ([Step(**step) for step in found[name]] for name in ("warm", "steps"))
    parts = [tuple(step for step in steps if step.latency == latency) for latency in latencies_of(steps)]
    return [Row(**{**found, "warm": tuple(warm), "steps": part}) for part in parts]


def latencies_of(steps: Sequence[Step]) -> list[int]:
    return sorted({step.latency for step in steps})


def our_row(rows: Sequence[Row], latency: int) -> Row | None:
    return next((row for row in rows if row.latency == latency and row.side.startswith("turnwise")), None)


def table(rows: Sequence[Row], target: float) -> str:
    heads = ["tools ms", "side", "s/step", "CPU s", "generation", "tools", "update", "episodes/s"]
    heads += ["turnwise is", "peak MiB", "calls", "tokens", "success", "load"]
    heads += [f"s to {target}", "held out"] if target else []
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        ours = our_row(rows, row.latency)
        times = ("seconds", "cpu_seconds", "generation", "tools", "update")
        cells = [str(row.latency), row.side, *(f"{row.mean(name):.2f}" for name in times)]
        cells += [f"{row.speed:.2f}", f"{ours.speed / row.speed:.1f}×" if ours and ours != row else ""]
        cells += [f"{row.peak_mib:,.0f}", f"{row.mean('calls'):.2f}", f"{row.mean('tokens'):.0f}"]
        cells += [f"{row.mean('success'):.2f}", f"{row.load:.1f}"]
        if target:
            seconds = row.seconds_to(target)
            cells += ["never" if seconds is None else f"{seconds:.0f}", f"{row.held_out:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(rows: Sequence[Row], device: str) -> Iterator[str]:
    for (where, latency), goal in GOALS.items():
        ours = our_row(rows, latency)
        theirs = [row for row in rows if row.latency == latency and row.side.startswith("trl")]
        if where == device and ours and theirs:
            best = max(theirs, key=lambda row: row.speed)
            ratio = ours.speed / best.speed
            verdict = "met" if ratio >= goal else "NOT MET"
            yield f"goal at {latency} ms: >= {goal:g}x TRL's best ({best.side}): {ratio:.1f}x {verdict}"


def check_same(options: argparse.Namespace) -> None:
    """Refuse to mix results of other settings into one table."""
    names = ("device", "model", "epochs", "latencies", "tasks_per_step", "rows")
    names += ("tuning", "publish", "cache_gib", "warm", "steps")
    asked = {name: getattr(options, name) for name in names}
    file = options.out / "options.json"
    if not file.exists():
        file.write_text(json.dumps(asked))
    if (kept := json.loads(file.read_text())) != asked:
        raise SystemExit(f"{options.out} has rows of other options, give another --out: {kept}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", default="embedded", help=f"embedded, smollm2, {QWEN} or a folder")
    parser.add_argument("--epochs", type=int, default=0, help="epochs of a warm start on demonstrations")
    parser.add_argument("--sides", help=f"with commas between, of {', '.join(SIDES)}")
    parser.add_argument("--latencies", default="0,50,500", help="milliseconds of a tool call")
    parser.add_argument("--warm", type=int, default=2, help="warm-up steps")
    parser.add_argument("--steps", type=int, default=3, help="measured steps at each latency")
    parser.add_argument("--tasks-per-step", type=int, default=8, help="tasks per step, each played 8 times")
    parser.add_argument("--rows", type=int, help="rows of TRL's micro-batches; 8 on a CPU, 32 on a GPU")
    parser.add_argument("--tuning", choices=["full", "lora"], help="full on a CPU, lora on a GPU")
    parser.add_argument(
        "--publish",
        choices=["merged", "adapters"],
        help="how turnwise publishes LoRA to vLLM; adapters for qwen3-0.6b, merged for small models",
    )
    parser.add_argument("--cache-gib", type=float, default=16.0, help="size of vLLM's cache, on both sides")
    parser.add_argument("--target", type=float, default=0.0, help="success to reach; 0: none")
    parser.add_argument("--out", type=Path, help="runs/versus_trl/MODEL-DEVICE by default")
    options = parser.parse_args()
    options.out = options.out or Path("runs/versus_trl") / f"{Path(options.model).name}-{options.device}"
    options.publish = options.publish or ("adapters" if options.model == QWEN else "merged")
    options.out.mkdir(parents=True, exist_ok=True)
    check_same(options)
    sides = (options.sides or DEFAULT_SIDES[options.device]).split(",")
    files = {side: options.out / f"{side}.json" for side in sides}
    missing = [side for side, file in files.items() if not file.exists()]
    terms = prepare(options) if missing else None
    if terms is not None:
        run_sides(missing, terms, options)
    rows = [row for file in files.values() if file.exists() for row in read_rows(file)]
    rows.sort(key=lambda row: row.latency)
    print(table(rows, options.target), *verdicts(rows, options.device), sep="\n")
    sys.exit(not all(file.exists() for file in files.values()))


if __name__ == "__main__":
    main()
