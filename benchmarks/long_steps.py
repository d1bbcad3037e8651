"""Compare whole training steps on long episodes: turnwise, TRL's trainers and raw vLLM.

    python benchmarks/long_steps.py --device cuda --model qwen3-0.6b
    python benchmarks/long_steps.py --device cuda --sides turnwise,trl --latencies 500 --tasks 2
    python benchmarks/long_steps.py                    # a rehearsal on a CPU: tiny sizes, vLLM's CPU build

A step plays 16 tasks × 8 episodes and learns from them. An episode has a prompt of 2,500 tokens with the
tool's schema and 6 turns of 300 sampled tokens; 700 tokens are observed between two turns. Weights are
random, in the sizes of a Qwen3 model; long_race/episodes.py says how all sides play the same tokens.

Sides run one after the other in separate processes, with vLLM and the same share of the GPU for it:
`raw` (vLLM's AsyncLLM alone, the limit for rollouts), `engine` (the same with turnwise's engine, which starts
vLLM without torch.compile), `turnwise`, `turnwise-async`, `trl` (GRPOTrainer) and `trl-async`
(AsyncGRPOTrainer, LoRA only). `trl-async` publishes an adapter, since its merged weights need a second GPU;
the others publish merged weights. The GPU's idle share is read from nvidia-smi ten times a second.

A side's first step warms it up and is not measured. An asynchronous side plays a step's episodes during the
step before, so it takes another such step whenever the latency changes.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RIVAL = HERE.parent / ".tools" / "trl"
sys.path[:1] = [
    str(HERE.parent),
    str(HERE / "long_race"),
    str(HERE / "race"),
]
sys.path.append(str(RIVAL))

from episodes import TERMS_VARIABLE, LongTerms, Script  # noqa: E402 (found by the path above)

SIDES: dict[str, Sequence[str]] = {
    "raw": ["raw_side.py", "vllm"],
    "engine": ["raw_side.py", "engine"],
    "turnwise": ["turnwise_side.py", "sync"],
    "turnwise-async": ["turnwise_side.py", "async"],
    "trl": ["trl_side.py"],
    "trl-async": ["trl_async_side.py"],
}
GOALS = {
    ("turnwise", "trl", 0): 2.0,
    ("turnwise", "trl", 500): 8.0,
    ("turnwise-async", "trl-async", 0): 1.3,
    ("turnwise-async", "trl-async", 500): 2.0,
}
"""Goals: steps per second relative to TRL's, by milliseconds of a tool call."""
QUICK = {"num_tasks": 2, "group_size": 2, "prompt_tokens": 400, "num_turns": 3}
QUICK |= {"sampled_tokens": 40, "observed_tokens": 60}
TINY = {
    "vocab_size": 2048,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of one side at one latency, without its warm-up steps."""

    side: str
    latency: int
    seconds: list[float]
    parts: dict[str, float]
    """Means of the figures that the side printed: rollout, update, publish and others."""
    idle: float | None
    start: float
    """Seconds from the start of the process to its first step."""


def write_model(name: str, folder: Path, device: str) -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from benchmarks.long import SIZES
    from turnwise.engines.weight_transfer import write_model as write_weights
    from turnwise.models.chat import load_tokenizer

    tokenizer = load_tokenizer("embedded")
    rival = find_spec("trl")
    if rival is not None and rival.submodule_search_locations:
        template = Path(rival.submodule_search_locations[0]) / "chat_templates" / "qwen3.jinja"
        tokenizer.chat_template = template.read_text()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    sizes = SIZES["qwen3-0.6b"] | TINY if name == "tiny" else SIZES[name]
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float32 if device == "cpu" else torch.bfloat16)
    with torch.device(device):
        model = Qwen3ForCausalLM._from_config(Qwen3Config(**{**sizes, **ends}))
    torch.set_default_dtype(torch.float32)
    folder.mkdir(parents=True)
    write_weights(model, folder)
    tokenizer.save_pretrained(folder)


def write_script(terms: LongTerms, num_steps: int) -> None:
    """The tool's schema, its answer and the prompts of all steps, with exact numbers of tokens."""
    from transformers import AutoTokenizer

    from turnwise.models.chat import open_chat
    from turnwise.types import Message, Tool

    tokenizer = AutoTokenizer.from_pretrained(terms.model)
    chat, script, source = open_chat(tokenizer), Script(terms, tokenizer), random.Random(0)
    description = "Read a page." + script.some(source, terms.prompt_tokens // 3)
    page = {"type": "integer", "description": "The page to read."}
    wait = {"type": "integer", "description": "How long it takes."}
    properties = {"page": page, "milliseconds": wait}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    tools = [Tool("read", description, schema, "pages", "read")]
    tools += [
        Tool(f"read_{number}", "Read a page.", schema, f"pages_{number}", f"read_{number}")
        for number in range(1, terms.num_servers)
    ]

    def prompt(number: int, num_words: int) -> tuple[str, list[int]]:
        text = f"Task {number:03d}." + script.some(random.Random(number), num_words)
        return text, list(chat.open((Message("user", text),), tools))

    tasks = []
    for number in range(num_steps * terms.num_tasks):
        text, ids = prompt(number, terms.prompt_tokens - len(prompt(number, 0)[1]))
        assert len(ids) == terms.prompt_tokens, f"a prompt has {len(ids)} tokens"
        tasks.append({"prompt": text, "ids": ids})
    before = tasks[0]["ids"] + script.turn(0, 0)
    empty = len(chat.extend(before, [("read", "Page.")]))
    observation = "Page." + script.some(source, terms.observed_tokens - empty)
    observed = list(chat.extend(before, [("read", observation)]))
    assert len(observed) == terms.observed_tokens, f"an observation has {len(observed)} tokens"
    found = {
        "tool": {"name": "read", "description": description, "parameters": schema},
        "observation": observation,
        "observation_ids": observed,
        "tasks": tasks,
    }
    terms.script_file.write_text(json.dumps(found))


def run_side(side: str, terms: LongTerms, options: argparse.Namespace) -> list[Measured]:
    """Run a side in a separate process; empty if it failed."""
    folder = Path(terms.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file, figures = folder / "terms.json", folder / "figures.jsonl"
    file.write_text(json.dumps(asdict(terms)))
    terms.set_latency(terms.latencies[0])
    path = [str(HERE / "long_race"), os.environ.get("PYTHONPATH", ""), str(RIVAL)]
    environment = {**os.environ, TERMS_VARIABLE: str(file), "PYTHONPATH": os.pathsep.join(filter(None, path))}
    script, *arguments = SIDES[side]
    command = [sys.executable, str(HERE / "long_race" / script), *arguments]
    started, looks = time.time(), folder / "looks"
    with figures.open("w") as out, (folder / "log").open("w") as log, looking(looks, options.device):
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=log, start_new_session=True)
        try:
            status = wait_for_steps(process, figures, len(terms.latencies), options.side_seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):  # its child processes end with it
                os.killpg(process.pid, signal.SIGKILL)
    lines = [json.loads(line) for line in figures.read_text().splitlines() if line.startswith('{"')]
    if status:
        print(f"{side}: FAILED: {status}\n{(folder / 'log').read_text()[-3000:]}", flush=True)
    print(f"{side}:", *(json.dumps(line) for line in lines), sep="\n  ", flush=True)
    steps = [line["step"] for line in lines if "step" in line]
    return list(measured(side, steps, looks, started, options))


def wait_for_steps(
    process: "subprocess.Popen[bytes]", figures: Path, num_steps: int, seconds: float
) -> int | str:
    """Wait until a side has printed its last step; the checkpoint that it then writes is not measured.

    Return 0, or the exit status of a side that ended before, or what else went wrong.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = process.poll()
        if figures.read_text().count('{"step"') >= num_steps:
            return 0
        if status is not None:
            return status or f"{num_steps} steps were expected"
        time.sleep(0.1)
    return f"no result within {seconds:g} s"


def schedule(side: str, options: argparse.Namespace) -> list[tuple[int, bool]]:
    """The latency of every step, and whether the step is measured."""
    first, *others = map(int, options.latencies.split(","))
    if side in ("raw", "engine"):  # without tools
        first, others = 0, []
    found = [(first, False)] * options.warm + [(first, True)] * options.steps
    for latency in others:
        found += [(latency, False)] * (options.warm if side.endswith("async") else 0)
        found += [(latency, True)] * options.steps
    if side == "turnwise-async":  # plays nothing ahead in its last step, which is therefore short
        found.append((found[-1][0], False))
    return found


def measured(
    side: str, steps: list[dict[str, float]], looks: Path, started: float, options: argparse.Namespace
) -> Iterator[Measured]:
    planned = schedule(side, options)
    counted = [step for step, (_, is_measured) in zip(steps, planned, strict=False) if is_measured]
    for latency in sorted({int(step["latency"]) for step in counted}):
        chosen = [step for step in counted if step["latency"] == latency]
        names = [name for name in chosen[0] if name not in ("latency", "began", "seconds")]
        parts = {name: statistics.fmean(step[name] for step in chosen) for name in names}
        idle = idle_over(looks, [(step["began"], step["began"] + step["seconds"]) for step in chosen])
        seconds = [step["seconds"] for step in chosen]
        yield Measured(side, latency, seconds, parts, idle, steps[0]["began"] - started)


class looking:  # noqa: N801 - a context manager
    """nvidia-smi writes the GPU's utilisation to a file while this is open."""

    def __init__(self, file: Path, device: str) -> None:
        self._file, self._is_gpu = file, device == "cuda"

    def __enter__(self) -> None:
        self._file.write_text("")
        if self._is_gpu:
            ask = ["nvidia-smi", "--query-gpu=timestamp,utilization.gpu", "--format=csv,noheader,nounits"]
            with self._file.open("w") as out:
                self._process = subprocess.Popen([*ask, "-lms", "100"], stdout=out)

    def __exit__(self, *_: Any) -> None:
        if self._is_gpu:
            self._process.terminate()
            self._process.wait()


def idle_over(looks: Path, spans: Sequence[tuple[float, float]]) -> float | None:
    from benchmarks.gpu_idle import read_looks

    found = read_looks(looks.read_text())
    busy = [look.busy for look in found if any(start <= look.time <= end for start, end in spans)]
    return 1 - statistics.fmean(busy) if busy else None


def report(rows: Sequence[Measured], terms: LongTerms) -> None:
    heads = ["tools ms", "side", "s/step (spread)", "rollout", "update", "publish", "GPU idle", "start s"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in sorted(rows, key=lambda row: row.latency):
        mean = statistics.fmean(row.seconds)
        spread = (max(row.seconds) - min(row.seconds)) / mean
        parts = [
            f"{row.parts[name]:.2f}" if name in row.parts else "" for name in ("rollout", "update", "publish")
        ]
        idle = "" if row.idle is None else f"{row.idle:.0%}"
        cells = [str(row.latency), row.side, f"{mean:.2f} ({spread:.0%})", *parts, idle, f"{row.start:.0f}"]
        print("| " + " | ".join(cells) + " |")
    means = {(row.side, row.latency): statistics.fmean(row.seconds) for row in rows}
    for (ours, rival, latency), goal in GOALS.items():
        if (ours, latency) in means and (rival, latency) in means:
            ratio = means[rival, latency] / means[ours, latency]
            print(f"{ours} at {latency} ms: {ratio:.2f}x {rival}, goal {goal:g}x")
    rollouts = {row.side: row.parts["rollout"] for row in rows if row.latency == 0 and "rollout" in row.parts}
    if {"raw", "turnwise"} <= rollouts.keys():
        print(f"rollouts: {rollouts['raw'] / rollouts['turnwise']:.2f} of raw vLLM, goal 0.95")
    print(
        f"{terms.num_episodes} episodes of {terms.prompt_tokens + terms.tail_tokens} tokens per step",
        flush=True,
    )


def terms_of(options: argparse.Namespace, side: str) -> LongTerms:
    is_cpu = options.device == "cpu"
    shape = QUICK if is_cpu else {}
    shape |= {"num_tasks": options.tasks} if options.tasks else {}
    return LongTerms(
        folder=str(options.out.resolve() / side),
        model=str(options.out.resolve() / "model"),
        device=options.device,
        dtype="float32" if is_cpu else "bfloat16",
        tuning=options.tuning,
        latencies=tuple(latency for latency, _ in schedule(side, options)),
        memory_share=options.memory_share,
        tokens_per_microbatch=options.tokens,
        rows=options.rows,
        settings=tuple(options.set),
        **shape,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", default="tiny", help="tiny or a size of benchmarks/long.py")
    parser.add_argument("--tuning", choices=["lora", "full"], default="lora")
    parser.add_argument("--sides", default="raw,turnwise", help=f"with commas between, of {', '.join(SIDES)}")
    parser.add_argument("--latencies", default="0", help="milliseconds of a tool call, separated by commas")
    parser.add_argument("--warm", type=int, default=1, help="warm-up steps")
    parser.add_argument("--steps", type=int, default=2, help="measured steps at each latency")
    parser.add_argument("--tasks", type=int, help="per step, each played 8 times; 16 by default")
    parser.add_argument("--memory-share", type=float, default=0.45, help="share of the GPU for vLLM")
    parser.add_argument(
        "--tokens", type=int, default=32_768, help="turnwise: tokens per micro-batch; 0: as many as fit"
    )
    parser.add_argument("--set", action="append", default=[], help="turnwise: a setting, KEY=VALUE")
    parser.add_argument("--rows", type=int, default=2, help="TRL: episodes per micro-batch")
    parser.add_argument("--side-seconds", type=float, default=600, help="time limit of a side")
    parser.add_argument("--out", type=Path, default=Path("runs/long_steps"))
    parser.add_argument("--json", type=Path, help="append every result to this file, one line per side")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a side's processes must not outlive this one
    rows = []
    if not (options.out / "model").exists():
        write_model(options.model, options.out / "model", options.device)
    terms_of(options, "model").set_latency(0)
    # enough for the side that plays the most steps, and ahead of them
    write_script(terms_of(options, "model"), 2 * len(schedule("trl-async", options)) + 1)
    for side in options.sides.split(","):
        found = run_side(side, terms_of(options, side), options)
        rows += found
        if options.json is not None:
            with options.json.open("a") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in found)
    report(rows, terms_of(options, "model"))


if __name__ == "__main__":
    main()
