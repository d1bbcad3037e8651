"""Compare one update with shared prefixes with padded rows and with TRL's GRPO loss.

    python benchmarks/train.py [--quick] [--model tiny|smollm2|qwen3-0.6b] [--sides padded,trl,shared]
    python benchmarks/train.py --device cuda --model qwen3-0.6b   # bf16, with MFU
    pip install --target .tools/trl --no-deps trl==1.16.0 datasets dill multiprocess xxhash   # for trl

An update is the forward and backward pass of the clip loss over 8 groups of 8 members: 2,000 shared tokens,
300 own tokens each, token mean over the whole batch, in micro-batches. Every side runs in a fresh process
with the same weights, batch, dtype and threads, after a small warm-up update; the gradients of all parameters
are compared. The padded side and TRL take a group (8 rows) at a time, TRL's default. Ours has a budget of
tokens that includes the prefix, although it is computed once: on a CPU 8 rows' own tokens, on a GPU all of
them, 21,200 tokens where the other sides compute 18,400 at a time. On a GPU the sides share a process, and
the fastest of three updates after one more warm-up counts. MFU counts the operations of the update's tokens
once, relative to the fastest matrix product. TRL runs GRPOTrainer.compute_loss on a prepared batch with its
defaults, except that gradient checkpointing and bf16 are off on all sides. `tiny` is a Qwen3 of random
weights: 4 layers, hidden 256, MLP 768, 4 heads on 2 key heads of 64, 4,096 tokens of vocabulary, 4.2 M
parameters; `qwen3-0.6b` has that model's sizes and random weights.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Waiting threads yield their core, on all sides.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

ROOT = Path(__file__).resolve().parents[1]
RIVAL = ROOT / ".tools" / "trl"


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a batch; the defaults are those described above, `QUICK` is smaller."""

    num_groups: int = 8
    group_size: int = 8
    prefix_tokens: int = 2000
    own_tokens: int = 300
    shared_budget: int = 4608
    """Tokens of the prefix and 8 rows, as many rows as the other sides take at a time."""

    @property
    def num_rows(self) -> int:
        return self.num_groups * self.group_size

    @property
    def plain_budget(self) -> int:
        return self.group_size * (self.prefix_tokens + self.own_tokens)

    @property
    def num_own(self) -> int:
        return self.num_rows * self.own_tokens

    def pairs(self, is_shared: bool) -> int:
        """Pairs of a token and one it attends to."""
        prefix, own = self.prefix_tokens * (self.prefix_tokens + 1) // 2, self.own_tokens
        each = own * self.prefix_tokens + own * (own + 1) // 2
        return self.num_rows * each + prefix * (1 if is_shared else self.num_rows)


QUICK = Shape(2, 4, 400, 60, 700)


@dataclass(frozen=True, slots=True)
class Result:
    """One side's figures; memory in MiB."""

    seconds: float
    cpu_seconds: float
    """CPU time of all threads; meaningful on shared machines too."""
    num_tokens: int
    before: float
    """Memory before the update: weights and batch; on a CPU also interpreter and libraries."""
    peak: float
    flops: float
    """Operations that the computed tokens need, forward and backward, once each."""

    @property
    def grown(self) -> float:
        return self.peak - self.before


def make_batch(shape: Shape, vocab_size: int) -> tuple[list[int], list[list[int]], list[float]]:
    """Random prefix, own ids and advantages of the rows, the same for every side."""
    source = random.Random(0)

    def some(count: int) -> list[int]:
        return [source.randrange(3, vocab_size) for _ in range(count)]

    prefix, own = some(shape.prefix_tokens), [some(shape.own_tokens) for _ in range(shape.num_rows)]
    return prefix, own, [source.gauss(0, 1) for _ in own]


QWEN3 = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "eos_token_id": None,
    "pad_token_id": 0,
}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": QWEN3
    | {
        "vocab_size": 4096,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "head_dim": 64,
    },
    "qwen3-0.6b": QWEN3
    | {
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "head_dim": 128,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
    },
}


def make_model(name: str, device: str) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from turnwise.config import ModelConfig
    from turnwise.setup.bench import load_model

    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    if name == "smollm2":
        return load_model(ModelConfig(path=name)).to(device, dtype)
    torch.manual_seed(0)
    with torch.device(device):
        return Qwen3ForCausalLM(Qwen3Config(**SIZES[name])).to(dtype)


def flops_of(model: Any, shape: Shape, num_tokens: int, is_shared: bool) -> float:
    """Two per weight and token, four per pair and channel of attention; backward twice as many."""
    from torch import nn

    head = model.get_output_embeddings()
    linears = [module for module in model.modules() if isinstance(module, nn.Linear) and module is not head]
    config = model.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    channels = config.num_hidden_layers * config.num_attention_heads * width
    forward = 2 * num_tokens * sum(linear.weight.numel() for linear in linears)
    forward += 2 * shape.num_own * head.weight.numel() + 4 * channels * shape.pairs(is_shared)
    return 3.0 * forward


def update_ours(model: Any, shape: Shape, *, is_shared: bool) -> Callable[[], int]:
    """By passes as the trainer makes them; with padded rows, kernels are those of transformers."""
    import torch

    from turnwise.config.training import PolicyConfig
    from turnwise.training.algorithms.losses import Bounds, clip
    from turnwise.training.packing.samples import Sample
    from turnwise.training.policy.policy import Policy
    from turnwise.training.update.scoring import Passes

    prefix, own, advantages = make_batch(shape, model.config.vocab_size)
    policy = Policy(model, PolicyConfig(tuning="full"), is_fused=is_shared)
    length = shape.prefix_tokens + shape.own_tokens
    mask = (0,) * shape.prefix_tokens + (1,) * shape.own_tokens
    samples = [
        Sample((*prefix, *ids), mask, (0.0,) * length, mask, row // shape.group_size, "", 0.0, (), False, 0)
        for row, ids in enumerate(own)
    ]
    is_tight = is_shared and model.device.type == "cpu"
    all_tokens = shape.prefix_tokens + shape.num_rows * (shape.own_tokens + 1)
    budget = shape.shared_budget if is_tight else all_tokens if is_shared else shape.plain_budget
    passes = Passes(policy, tokens_per_microbatch=budget, is_shared=is_shared)

    def update() -> int:
        run = passes.begin(samples)
        for rows in run.parts:
            scores = run.score(rows)
            chosen_B = torch.tensor([advantages[row] for row in rows])
            advantages_BT = chosen_B[:, None].expand_as(scores.mask_BT)
            old_BT = scores.logprobs_BT.detach()
            loss = clip(scores.logprobs_BT, old_BT, advantages_BT, scores.mask_BT, Bounds())
            (loss.losses_BT.sum() / shape.num_own).backward()
        run.backward()
        return run.num_computed

    return update


def update_trl(model: Any, shape: Shape, folder: Path) -> Callable[[], int]:
    """The same with TRL's trainer, on batches as its rollouts prepare them."""
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
        bf16=False,  # the same weights as on the other sides
        use_cpu=model.device.type == "cpu",
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
            prompt_ids = torch.tensor([prefix] * shape.group_size, device=model.device)
            completion_ids = torch.tensor(own[part], device=model.device)
            inputs = {
                "prompt_ids": prompt_ids,
                "prompt_mask": torch.ones_like(prompt_ids),
                "completion_ids": completion_ids,
                "completion_mask": torch.ones_like(completion_ids),
                "advantages": torch.tensor(advantages[part], device=model.device),
                "num_items_in_batch": torch.tensor(float(shape.num_own), device=model.device),
            }
            trainer.compute_loss(trainer.model, inputs).backward()
        return shape.num_rows * (shape.prefix_tokens + shape.own_tokens)

    return update


MAKERS: dict[str, Callable[[Any, Shape, Path], Callable[[], int]]] = {
    "padded": lambda model, shape, _: update_ours(model, shape, is_shared=False),
    "trl": update_trl,
    "shared": lambda model, shape, _: update_ours(model, shape, is_shared=True),
}
"""(model, shape, a scratch folder) to a function that runs one update and gives the tokens it computed.

What is fused stays so in the one process of a GPU: sides run in this order.
"""

SIDES = {"cpu": ("padded", *(["trl"] if RIVAL.is_dir() else []), "shared"), "cuda": ("padded", "shared")}

WARM_UP = Shape(1, 2, 20, 5, 100)


def run_side(side: str, options: argparse.Namespace, shape: Shape) -> None:
    """Run one update in a separate process on a CPU; write its gradients and figures to the folder."""
    import torch
    from safetensors.torch import save_file
    from transformers.utils import logging

    torch.set_num_threads(2)
    logging.set_verbosity_error()
    model = make_model(options.model, "cpu")
    make_update = MAKERS[side]
    make_update(make_model("tiny", "cpu"), WARM_UP, options.folder)()
    update = make_update(model, shape, options.folder)
    before = _resident()
    started, cpu_started = time.perf_counter(), time.process_time()
    num_tokens = update()
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    gradients = {name: parameter.grad.contiguous() for name, parameter in model.named_parameters()}
    save_file(gradients, options.folder / f"{side}.safetensors")
    flops = flops_of(model, shape, num_tokens, is_shared=side == "shared")
    figures = Result(seconds, cpu_seconds, num_tokens, before, peak, flops)
    (options.folder / f"{side}.json").write_text(json.dumps(asdict(figures)))


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure_on_gpu(
    sides: Sequence[str], options: argparse.Namespace, shape: Shape, folder: Path
) -> dict[str, Result]:
    """Run all sides one after the other in this process."""
    import torch
    from safetensors.torch import save_file

    model, results = make_model(options.model, "cuda"), {}
    for side in sides:
        update = MAKERS[side](model, shape, folder)
        timed = []
        for _ in range(4):
            for parameter in model.parameters():
                parameter.grad = None
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated() / 2**20
            started, cpu_started = time.perf_counter(), time.process_time()
            num_tokens = update()
            torch.cuda.synchronize()
            timed.append((time.perf_counter() - started, time.process_time() - cpu_started))
        seconds, cpu_seconds = min(timed[1:])
        peak = torch.cuda.max_memory_allocated() / 2**20
        gradients = {name: parameter.grad.contiguous() for name, parameter in model.named_parameters()}
        save_file(gradients, folder / f"{side}.safetensors")
        flops = flops_of(model, shape, num_tokens, is_shared=side == "shared")
        results[side] = Result(seconds, cpu_seconds, num_tokens, before, peak, flops)
        print(f"{side}: {seconds:.3f} s", flush=True)
        if options.profile is not None:
            write_profile(update, options.profile / f"{options.model}-{side}.txt")
    return results


def write_profile(update: Callable[[], int], file: Path) -> None:
    import torch

    with torch.profiler.profile() as profile:
        update()
        torch.cuda.synchronize()
    file.write_text(profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=60))


def ceiling() -> float:
    """Floating-point operations per second of the fastest of some large bf16 products."""
    import torch

    best = 0.0
    for size in (4096, 8192, 16384):
        left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        for _ in range(5):
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(10):
                left @ right
            torch.cuda.synchronize()
            best = max(best, 10 * 2 * size**3 / (time.perf_counter() - started))
    return best


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
        print(f"{side}: {results[-1].seconds:.1f} s", flush=True)
    return min(results, key=lambda result: result.seconds)


def difference(one: Path, other: Path) -> float:
    """Largest difference, relative to the largest entry of its tensor."""
    from safetensors.torch import load_file

    ones, others = load_file(one), load_file(other)
    assert ones.keys() == others.keys()
    return max(float((ones[name] - others[name]).abs().max() / ones[name].abs().max()) for name in ones)


def report(results: dict[str, Result], folder: Path, flops_per_second: float) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=120)
    columns = ["side", "seconds", "CPU s", "tokens", "before MiB", "peak MiB", "grown MiB"]
    table = Table(*columns, "time", "CPU", "peak", "gradients")
    plain = results.get("padded")
    for side, result in results.items():
        cells = [side, f"{result.seconds:.2f}", f"{result.cpu_seconds:.1f}", f"{result.num_tokens:,}"]
        cells += [f"{mebibytes:,.0f}" for mebibytes in (result.before, result.peak, result.grown)]
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
        if flops_per_second:
            mfu = ours.flops / ours.seconds / flops_per_second
            tera = f"{ours.flops / ours.seconds / 1e12:,.0f} of {flops_per_second / 1e12:,.0f} TFLOP/s"
            console.print(f"shared: MFU {mfu:.2f} ({tera}, the largest product of matrices measured here)")
        else:
            console.print(f"goal: peak memory below half: {share:.2f} {'met' if share < 0.5 else 'NOT MET'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK}")
    parser.add_argument("--model", choices=["smollm2", *SIZES], default="tiny")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--profile", type=Path, help="write the GPU time by kernel of every side to this folder"
    )
    parser.add_argument("--sides", help=f"of {', '.join(MAKERS)}; by default what the device has")
    parser.add_argument("--tokens", type=int, help="tokens per micro-batch with shared prefixes")
    parser.add_argument("--rounds", type=int, default=1, help="rounds; the fastest counts")
    parser.add_argument("--side", choices=list(MAKERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = QUICK if options.quick else Shape()
    if options.tokens:
        shape = replace(shape, shared_budget=options.tokens)
    if options.side:
        run_side(options.side, options, shape)
        return
    print(
        f"{options.model} on {options.device}: {shape}, 2 threads, load {os.getloadavg()[0]:.1f} at the start"
    )
    with tempfile.TemporaryDirectory() as name:
        sides = options.sides.split(",") if options.sides else SIDES[options.device]
        folder = Path(name)
        if options.device == "cpu":
            results = {side: measure(side, options, folder) for side in sides}
            report(results, folder, 0.0)
        else:
            report(measure_on_gpu(sides, options, shape, folder), folder, ceiling())


if __name__ == "__main__":
    main()
