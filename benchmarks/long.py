"""Compare an update on long episodes, with shared prefixes, with a plain padded one, and compute the MFU.

    python benchmarks/long.py                                                  # tiny, on a CPU: a smoke test
    python benchmarks/long.py --device cuda --model qwen3-4b --tuning lora --tasks 4 --profile

The batch has 16 tasks (`--tasks`) of 8 members: 2,500 prompt tokens shared by the members of a task, then 6
turns of 300 sampled and 700 observed tokens, 8,500 tokens per episode. Weights are random, in the named
model's sizes.

`ours` is `Trainer.update` as a run calls it: batch, micro-batches, forward and backward passes, statistics,
clipping, AdamW. `plain` is transformers' own model with SDPA on padded rows, `--rows` at a time, the head
applied to sampled tokens only, peft's adapters, torch's fused AdamW; its activations are recomputed only if
they do not fit. Both start with a warm-up update of one task, then `--updates` are measured.

MFU counts the floating-point operations that a batch needs, once each; recomputation does not count. A linear
layer has 6 per token and weight with full tuning and 4 with LoRA (a frozen weight has no gradient), the head
the same per sampled token; attention has 12 per pair of tokens and channel. `unique` counts every distinct
token once, `rows` every row in full, as the plain side computes them. Both are divided by the measured
seconds and by the rate of an 8192³ product of bf16 matrices in the same process.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import gc
import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
from torch import Tensor, nn

from benchmarks import kernel_times

SMALL = {
    "vocab_size": 151_936,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40_960,
    "eos_token_id": None,
    "pad_token_id": 0,
}
LARGE = SMALL | {"num_hidden_layers": 36, "num_attention_heads": 32}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": SMALL
    | {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "head_dim": 16,
    },
    "qwen3-0.6b": SMALL | {"hidden_size": 1024, "intermediate_size": 3072},
    "qwen3-1.7b": SMALL | {"hidden_size": 2048, "intermediate_size": 6144},
    "qwen3-4b": LARGE | {"hidden_size": 2560, "intermediate_size": 9728},
    "qwen3-8b": LARGE | {"hidden_size": 4096, "intermediate_size": 12_288, "tie_word_embeddings": False},
}
LORA_RANK = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a batch."""

    num_tasks: int = 16
    group_size: int = 8
    prompt_tokens: int = 2500
    num_turns: int = 6
    sampled_tokens: int = 300
    observed_tokens: int = 700

    @property
    def num_rows(self) -> int:
        return self.num_tasks * self.group_size

    @property
    def tail(self) -> int:
        return self.num_turns * (self.sampled_tokens + self.observed_tokens)

    @property
    def num_sampled(self) -> int:
        return self.num_rows * self.num_turns * self.sampled_tokens

    def num_tokens(self, *, is_unique: bool) -> int:
        num_prompts = self.num_tasks if is_unique else self.num_rows
        return num_prompts * self.prompt_tokens + self.num_rows * self.tail

    def num_pairs(self, *, is_unique: bool) -> int:
        """Pairs of a token and one it attends to, itself included."""
        prompt, tail = self.prompt_tokens, self.tail
        num_prompts = self.num_tasks if is_unique else self.num_rows
        per_row = tail * prompt + tail * (tail + 1) // 2
        return num_prompts * (prompt * (prompt + 1) // 2) + self.num_rows * per_row


QUICK = Shape(2, 2, 100, 2, 6, 14)


def make_samples(shape: Shape, vocab_size: int) -> list[Any]:
    from turnwise.training.packing.samples import Sample

    source = random.Random(0)

    def some(count: int) -> list[int]:
        return source.choices(range(3, vocab_size), k=count)

    sampled, observed = shape.sampled_tokens, shape.observed_tokens
    mask = (0,) * shape.prompt_tokens + ((1,) * sampled + (0,) * observed) * shape.num_turns
    turns = [number for number in range(shape.num_turns) for _ in range(sampled + observed)]
    turns = [-1] * shape.prompt_tokens + turns
    samples = []
    for group in range(shape.num_tasks):
        prompt = some(shape.prompt_tokens)
        for _ in range(shape.group_size):
            ids, reward = (*prompt, *some(shape.tail)), source.gauss(0, 1)
            logprobs = tuple(-12.0 if own else 0.0 for own in mask)
            rewards = (*(0.0,) * (shape.num_turns - 1), reward)
            samples.append(
                Sample(ids, mask, logprobs, tuple(turns), group, str(group), reward, rewards, False, 0)
            )
    return samples


def make_model(name: str, device: str) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32 if device == "cpu" else torch.bfloat16)
    try:
        with torch.device(device):
            return Qwen3ForCausalLM._from_config(
                Qwen3Config(**SIZES[name]), attn_implementation="sdpa"
            ).eval()
    finally:
        torch.set_default_dtype(before)


def flops_of(model: Any, shape: Shape, tuning: str, *, is_unique: bool) -> float:
    head, config = model.get_output_embeddings(), model.config
    linears = [module for module in model.modules() if isinstance(module, nn.Linear) and module is not head]
    per_weight = 6 if tuning == "full" else 4
    channels = config.num_hidden_layers * config.num_attention_heads * config.head_dim
    return (
        per_weight * shape.num_tokens(is_unique=is_unique) * sum(linear.weight.numel() for linear in linears)
        + per_weight * shape.num_sampled * head.weight.numel()
        + 12.0 * channels * shape.num_pairs(is_unique=is_unique)
    )


# --- sides -------------------------------------------------------------------------------------------------

Update = Callable[[list[Any]], int]
"""Take one optimizer step on the samples; return the number of computed tokens."""


def ours(model: Any, options: argparse.Namespace) -> Update:
    from turnwise.config import Recipe
    from turnwise.training.policy.policy import Policy
    from turnwise.training.update.trainer import Trainer

    recipe = Recipe.model_validate(
        {
            "policy": {
                "tuning": options.tuning,
                "lora_rank": LORA_RANK,
                "gradient_checkpointing": options.recompute,
            },
            "update": {"tokens_per_microbatch": options.tokens},
            # the sampler's log-probs are artificial
            "algorithm": {"correction": "none"},
            "optimizer": {"learning_rate": 1e-6, "offload": options.offload},
        }
    )
    trainer = Trainer(Policy(model, recipe.policy, is_fused=options.kernels == "fused"), recipe)
    step = 0

    def update(samples: list[Any]) -> int:
        nonlocal step
        result = trainer.update(samples, step=step)
        assert not result.skipped, result.skipped
        step += 1
        return int(result.metrics["update/num_packed_tokens"])

    return update


def plain(model: Any, options: argparse.Namespace) -> Update:
    if options.tuning == "lora":
        from peft import LoraConfig, get_peft_model

        targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        get_peft_model(model, LoraConfig(r=LORA_RANK, lora_alpha=32, target_modules=targets))
    else:
        model.requires_grad_(True)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-6, fused=True)
    if options.recompute:
        recompute(model)

    def update(samples: list[Any]) -> int:
        try:
            return whole(samples)
        except torch.OutOfMemoryError:
            if model.is_gradient_checkpointing:
                raise
        print("plain: out of memory; recomputing activations from now on", flush=True)
        optimizer.zero_grad()
        clean()
        recompute(model)
        return whole(samples)

    def whole(samples: list[Any]) -> int:
        mean = sum(sample.reward for sample in samples) / len(samples)
        num_sampled = sum(sum(sample.loss_mask) for sample in samples)
        num_tokens = 0
        for start in range(0, len(samples), options.rows):
            rows = samples[start : start + options.rows]
            num_tokens += len(rows) * len(rows[0].token_ids)
            plain_loss(model, rows, mean, num_sampled).backward()
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return num_tokens

    return update


def plain_loss(model: Any, rows: list[Any], mean: float, num_sampled: int) -> Tensor:
    """Clipped loss at a ratio of 1, summed over the sampled tokens of these rows."""
    ids_RN = torch.tensor([sample.token_ids for sample in rows], device=model.device)
    mask_RN = torch.tensor([sample.loss_mask for sample in rows], dtype=torch.bool, device=model.device)
    advantage_R = torch.tensor([sample.reward - mean for sample in rows], device=model.device)
    hidden_RND = model.base_model(input_ids=ids_RN, use_cache=False).last_hidden_state
    own = mask_RN[:, 1:]
    logits_PV = model.get_output_embeddings()(hidden_RND[:, :-1][own]).float()
    logprobs_P = -nn.functional.cross_entropy(logits_PV, ids_RN[:, 1:][own], reduction="none")
    ratio_P = torch.exp(logprobs_P - logprobs_P.detach())
    advantage_P = advantage_R[:, None].expand(own.shape)[own]
    clipped_P = ratio_P.clamp(0.8, 1.28) * advantage_P
    return -torch.minimum(ratio_P * advantage_P, clipped_P).sum() / num_sampled


def recompute(model: Any) -> None:
    model.train()  # transformers recomputes only in training mode; the model has no dropout
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()


SIDES: dict[str, Callable[[Any, argparse.Namespace], Update]] = {"ours": ours, "plain": plain}


# --- measuring ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    """Results of one side."""

    model: str
    tuning: str
    side: str
    num_tasks: int
    seconds: list[float]
    """Seconds of every measured update."""
    num_computed: int
    """Tokens computed in an update."""
    unique_tokens: int
    row_tokens: int
    peak_gib: float
    mfu_unique: float
    mfu_rows: float


def clean() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def done(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def ceiling(device: str) -> float:
    """Floating-point operations per second of a large product of random matrices; the best of five."""
    size, dtype = (8192, torch.bfloat16) if device == "cuda" else (512, torch.float32)
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best = 0.0
    for _ in range(5):
        done(device)
        started = time.perf_counter()
        for _ in range(10):
            left @ right
        done(device)
        best = max(best, 10 * 2 * size**3 / (time.perf_counter() - started))
    return best


def measure(side: str, options: argparse.Namespace, shape: Shape, rate: float) -> Result:
    model = make_model(options.model, options.device)
    flops = {
        is_unique: flops_of(model, shape, options.tuning, is_unique=is_unique) for is_unique in (True, False)
    }
    samples = make_samples(shape, model.config.vocab_size)
    update = SIDES[side](model, options)
    update(samples[: shape.group_size])
    done(options.device)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for number in range(options.updates):
        started = time.perf_counter()
        num_computed = update(samples)
        done(options.device)
        seconds.append(time.perf_counter() - started)
        print(
            f"{options.model} {options.tuning} {side}: update {number} took {seconds[-1]:.2f} s", flush=True
        )
    peak = torch.cuda.max_memory_allocated() / 2**30 if options.device == "cuda" else 0.0
    if options.profile:
        print(f"{options.model} {options.tuning} {side}: one task's update by kernels")
        print(
            kernel_times.report(kernel_times.profile(lambda: update(samples[: shape.group_size]))), flush=True
        )
    mean = sum(seconds) / len(seconds)
    return Result(
        options.model,
        options.tuning,
        side,
        shape.num_tasks,
        seconds,
        num_computed,
        shape.num_tokens(is_unique=True),
        shape.num_tokens(is_unique=False),
        peak,
        flops[True] / mean / rate,
        flops[False] / mean / rate,
    )


def report(results: list[Result], rate: float) -> None:
    print(f"a product of matrices: {rate / 1e12:,.1f} TFLOP/s")
    columns = ["model tuning side", "tasks", "s/update (spread)", "tokens/s of rows", "computed", "peak GiB"]
    print(" | ".join([*columns, "MFU unique, rows"]))
    for result in results:
        mean = sum(result.seconds) / len(result.seconds)
        spread = (max(result.seconds) - min(result.seconds)) / mean
        print(
            f"{result.model} {result.tuning} {result.side} | {result.num_tasks} | {mean:.2f} ({spread:.1%}) "
            f"| {result.row_tokens / mean:,.0f} | {result.num_computed:,} | {result.peak_gib:.1f} "
            f"| {result.mfu_unique:.3f}, {result.mfu_rows:.3f}"
        )
    means = {result.side: sum(result.seconds) / len(result.seconds) for result in results}
    if len(means) == len(SIDES):
        print(f"ours is {means['plain'] / means['ours']:.2f}x as fast as plain", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", choices=list(SIZES), default="tiny")
    parser.add_argument("--tuning", choices=["lora", "full"], default="lora")
    parser.add_argument("--tasks", type=int, default=0, help="16 by default, 2 on a CPU")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--tokens", type=int, default=16_384, help="ours: tokens per micro-batch")
    parser.add_argument("--rows", type=int, default=1, help="plain: rows at a time")
    parser.add_argument("--updates", type=int, default=2, help="that count")
    parser.add_argument("--kernels", choices=["plain", "fused"], default="fused", help="ours")
    parser.add_argument("--recompute", action="store_true", help="both sides recompute activations")
    parser.add_argument("--offload", action="store_true", help="ours: the optimizer is in host memory")
    parser.add_argument("--profile", action="store_true", help="print the GPU time by kernel")
    parser.add_argument("--json", type=Path, help="append every result to this file, one line each")
    options = parser.parse_args()
    shape = QUICK if options.device == "cpu" else Shape()
    shape = Shape(**{**asdict(shape), "num_tasks": options.tasks or shape.num_tasks})
    rate = ceiling(options.device)
    results = []
    for side in options.sides.split(","):
        results.append(measure(side, options, shape, rate))
        if options.json is not None:
            with options.json.open("a") as file:
                file.write(json.dumps(asdict(results[-1])) + "\n")
        clean()
    report(results, rate)


if __name__ == "__main__":
    main()
