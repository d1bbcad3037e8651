"""TRL's AsyncGRPOTrainer on the episodes of benchmarks/long_steps.py, with a vLLM server on the same GPU.

Weights go to the server as adapters: TRL's transfer over NCCL needs a second GPU. Its attention kernel,
FlashAttention 3, comes from the hub; without a network PyTorch's FlashAttention 2 is used instead.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from episodes import LORA_ALPHA, LORA_RANK, LongTerms, Steps, read_terms, tell
from peft import LoraConfig
from tool import read, reward
from transformers import AutoTokenizer, TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer, packing
from trl_turns import ScriptedWorker

from turnwise.training.kernels.flash import PackedRows, backward_rows, forward_rows

PORT = 8123
MAX_STALENESS = 4
"""TRL's default."""


class Attention(torch.autograd.Function):
    """Queries [N, H, D] on keys and values [M, K, D], causal, row by row; FlashAttention 2."""

    @staticmethod
    def forward(
        ctx: Any, query: Any, key: Any, value: Any, queries: PackedRows, keys: PackedRows, scale: float
    ) -> Any:
        out, lse = forward_rows(query, key, value, (queries, keys), scale=scale, is_causal=True)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.rows, ctx.scale = (queries, keys), scale
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Any) -> Any:
        grads = backward_rows(
            grad_out.contiguous(), *ctx.saved_tensors, ctx.rows, scale=ctx.scale, is_causal=True
        )
        return (*grads, None, None, None)


def flash_attn_varlen_func(
    query: Any, key: Any, value: Any, bounds_q: Any, bounds_k: Any, most_q: int, most_k: int, **options: Any
) -> Any:
    assert options["causal"]
    scale = options["softmax_scale"] or query.shape[-1] ** -0.5
    rows = PackedRows(bounds_q, int(most_q)), PackedRows(bounds_k, int(most_k))
    return Attention.apply(query.contiguous(), key, value, *rows, scale)


def check_attention() -> None:
    """Compare with plain attention, with fewer queries than keys: the last query then sees the last key."""
    query, key, value = (
        torch.randn(length, heads, 64, device="cuda", dtype=torch.bfloat16)
        for length, heads in ((5, 4), (9, 2), (9, 2))
    )
    bounds = [torch.tensor([0, length], device="cuda", dtype=torch.int32) for length in (5, 9)]
    attend: Any = flash_attn_varlen_func
    found = attend(query, key, value, *bounds, 5, 9, causal=True, softmax_scale=None)
    keys, values = (tensor.repeat_interleave(2, dim=1).float() for tensor in (key, value))
    scores = torch.einsum("qhd,khd->hqk", query.float(), keys) / 8
    seen = torch.ones(5, 9, device="cuda", dtype=torch.bool).tril(4)
    plain = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -torch.inf).softmax(-1), values)
    assert (plain - found.float()).abs().max() < 0.05, "causal rows end together"


@contextlib.contextmanager
def serving(terms: LongTerms) -> Iterator[None]:
    """Run `vllm serve` until this process ends."""
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", terms.model, "--port", str(PORT)]
    command += ["--dtype", terms.dtype, "--max-model-len", str(terms.model_len)]
    command += ["--max-num-seqs", str(terms.num_episodes)]
    command += ["--enable-lora", "--max-lora-rank", str(LORA_RANK), "--max-loras", str(MAX_STALENESS + 2)]
    command += ["--gpu-memory-utilization", str(terms.memory_share)]
    environment = {
        **os.environ,
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    with (
        Path(terms.folder, "server.log").open("w") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as server,
    ):
        try:
            wait_for(server, Path(terms.folder, "server.log"))
            yield
        finally:
            server.terminate()


def wait_for(server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the server answers; TRL would not notice that it ended."""
    while True:
        if server.poll() is not None:
            raise SystemExit(f"the vLLM server ended with {server.returncode}:\n{log.read_text()[-2500:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health"):
            return
        time.sleep(0.5)


class Reporting(TrainerCallback):
    trainer: Any

    def __init__(self, terms: LongTerms) -> None:
        self._terms = terms

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if not hasattr(self, "_steps"):
            self._steps = Steps(self._terms)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        torch.cuda.synchronize()
        trainer = self.trainer
        waited = trainer._rollout_dataset.wait_s if trainer._rollout_dataset is not None else 0.0
        self._steps.end(
            episodes=self._terms.num_episodes,
            waited=waited,
            version=float(trainer.model_version),
        )


def main() -> None:
    terms, started = read_terms(), time.perf_counter()
    tokenizer = AutoTokenizer.from_pretrained(terms.model)
    found = json.loads(terms.script_file.read_text())["tasks"]
    terms.set_latency(terms.latencies[0])
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=flash_attn_varlen_func)
    async_grpo_trainer.AsyncRolloutWorker = ScriptedWorker
    check_attention()
    reporting = Reporting(terms)
    options = AsyncGRPOConfig(
        f"{terms.folder}/trl-async",
        dtype=terms.dtype,
        num_generations=terms.group_size,
        max_completion_length=terms.sampled_tokens,  # per turn
        temperature=1.0,
        epsilon=0.2,
        epsilon_high=0.28,
        learning_rate=1e-8,
        max_grad_norm=1.0,
        max_steps=len(terms.latencies),
        max_tool_calling_iterations=terms.num_turns - 1,
        chat_template_kwargs={"enable_thinking": False},
        vllm_server_base_url=f"http://127.0.0.1:{PORT}",
        per_device_train_batch_size=terms.rows,
        gradient_accumulation_steps=terms.num_episodes // terms.rows,
        token_budget=0,  # as many episodes per step as on the other sides
        max_inflight_tasks=terms.num_episodes,
        max_staleness=MAX_STALENESS,
        gradient_checkpointing=False,
        bf16=terms.dtype == "bfloat16",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    with serving(terms):
        trainer = AsyncGRPOTrainer(
            terms.model,
            reward,
            options,
            Dataset.from_dict({"prompt": [[{"role": "user", "content": task["prompt"]}] for task in found]}),
            processing_class=tokenizer,
            callbacks=[reporting],
            tools=[read],
            peft_config=LoraConfig(r=LORA_RANK, lora_alpha=LORA_ALPHA, target_modules="all-linear"),
        )
        reporting.trainer = trainer
        tell(ready=time.perf_counter() - started)
        trainer.train()
        drift = {name: values for name, values in trainer._metrics["train"].items() if "_frac" in name}
        tell(drift={name: str(values[-1]) for name, values in drift.items()})
        tell(memory={"peak_gib": torch.cuda.max_memory_reserved() / 2**30})


if __name__ == "__main__":
    main()
    os._exit(0)
