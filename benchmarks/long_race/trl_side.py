"""TRL's GRPOTrainer on the episodes of benchmarks/long_steps.py, vLLM colocated.

Its tool is an asynchronous function in its own process; turnwise's is an MCP server.
"""

import itertools
import json
import os
import random
import time
from typing import Any

import torch
from datasets import Dataset
from episodes import LORA_ALPHA, LORA_RANK, LongTerms, Script, Steps, read_terms, tell
from peft import LoraConfig
from tool import read, reward
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class ScriptedTrainer(GRPOTrainer):
    """Replace the tokens of a turn after sampling, and time the parts of a step."""

    script: Script
    terms: LongTerms
    steps: Steps
    seconds: dict[str, float]
    numbers = itertools.count(random.getrandbits(40))

    def _generate_single_turn(self, prompt_ids: Any, *arguments: Any, **options: Any) -> Any:
        ids, *rest = super()._generate_single_turn(prompt_ids, *arguments, **options)
        scripted = [
            self.script.turn(next(self.numbers), self.terms.turn_of(len(prompt))) for prompt in prompt_ids
        ]
        assert [len(one_id) for one_id in ids] == [len(turn) for turn in scripted], (
            "as many tokens were sampled"
        )
        return (scripted, *rest)

    def _generate(self, *arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return super()._generate(*arguments, **options)
        finally:
            self.seconds["rollout"] += time.perf_counter() - started


class Reporting(TrainerCallback):
    trainer: Any = None

    def __init__(self, terms: LongTerms) -> None:
        self._terms = terms

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        ScriptedTrainer.seconds = {"rollout": 0.0}
        ScriptedTrainer.steps = Steps(self._terms)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        if self._terms.device == "cuda":
            torch.cuda.synchronize()
        metrics = self.trainer._metrics["train"]
        ScriptedTrainer.steps.end(
            rollout=ScriptedTrainer.seconds["rollout"],
            episodes=self._terms.num_episodes,
            sampled=metrics["completions/mean_length"][-1],
            calls=metrics["tools/call_frequency"][-1],
        )
        ScriptedTrainer.seconds["rollout"] = 0.0


def options_of(terms: LongTerms) -> GRPOConfig:
    is_gpu = terms.device == "cuda"
    return GRPOConfig(
        f"{terms.folder}/trl",
        loss_type="dapo",
        scale_rewards="none",
        beta=0.0,
        num_iterations=1,
        temperature=1.0,
        epsilon=0.2,
        epsilon_high=0.28,
        learning_rate=1e-8,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        per_device_train_batch_size=terms.rows,
        gradient_accumulation_steps=terms.num_episodes // terms.rows,
        num_generations=terms.group_size,
        max_completion_length=terms.tail_tokens + 64,
        generation_kwargs={
            "max_tokens" if is_gpu else "max_new_tokens": terms.sampled_tokens,
            "ignore_eos" if is_gpu else "min_new_tokens": True if is_gpu else terms.sampled_tokens,
        },
        max_tool_calling_iterations=terms.num_turns - 1,
        chat_template_kwargs={"enable_thinking": False},
        max_steps=len(terms.latencies),
        shuffle_dataset=False,
        use_vllm=is_gpu,
        vllm_mode="colocate",
        vllm_gpu_memory_utilization=terms.memory_share,
        vllm_max_model_length=terms.model_len,
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=2.0,
        gradient_checkpointing=False,  # there is enough memory
        bf16=terms.dtype == "bfloat16",
        use_cpu=not is_gpu,
        log_completions=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def main() -> None:
    terms, started = read_terms(), time.perf_counter()
    tokenizer = AutoTokenizer.from_pretrained(terms.model)
    found = json.loads(terms.script_file.read_text())["tasks"]
    prompts = [[{"role": "user", "content": task["prompt"]}] for task in found]
    ScriptedTrainer.script, ScriptedTrainer.terms = Script(terms, tokenizer), terms
    reporting = Reporting(terms)
    adapter = LoraConfig(r=LORA_RANK, lora_alpha=LORA_ALPHA, target_modules="all-linear")
    trainer = ScriptedTrainer(
        AutoModelForCausalLM.from_pretrained(terms.model, dtype=getattr(torch, terms.dtype)),
        reward,
        options_of(terms),
        Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        callbacks=[reporting],
        tools=[read],
        peft_config=adapter if terms.tuning == "lora" else None,
    )
    reporting.trainer = trainer
    [ids], *_ = trainer._tokenize_prompts(prompts[:1])
    assert list(ids) == found[0]["ids"], "the same prompt"
    tell(ready=time.perf_counter() - started)
    trainer.train()
    if terms.device == "cuda":
        tell(memory={"peak_gib": torch.cuda.max_memory_reserved() / 2**30})


if __name__ == "__main__":
    main()
    os._exit(0)  # with vLLM inside, the interpreter may wait forever for its threads
