"""Takes a plan and a seed, gives the embedded model in a folder: tokenizer and weights, made from nothing."""

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnwise.chat import open_chat
from turnwise.chat.hermes import write_call
from turnwise.config import PolicyConfig
from turnwise.embedded.drills import make_drills, make_questions, practice
from turnwise.embedded.lessons import Counts, Taught, Teacher, is_readable, make_lesson_tasks
from turnwise.embedded.slips import Slip, slips
from turnwise.embedded.tokenizer import MARKUP, SPECIAL, make_tokenizer
from turnwise.training.imitation import cross_entropy, num_own_tokens
from turnwise.training.optimizer import Optimizer
from turnwise.training.policy import Policy
from turnwise.training.samples import Sample
from turnwise.types import Task, Tool

Say = Callable[[str], None]

Part = tuple[list[Sample], bool]
"""Samples, and whether they have a prefix in common that is worth sharing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the network."""

    vocabulary_size: int = 1280
    hidden_size: int = 192
    intermediate_size: int = 512
    num_layers: int = 4
    num_heads: int = 12
    head_size: int = 32


@dataclass(frozen=True, slots=True)
class Stage:
    """Some steps of learning; the rate rises over 30 steps, stays, and falls to a fifth at the end."""

    num_steps: int
    learning_rate: float
    samples_per_step: int


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """How much of everything; the defaults have the shape and the stages of the model that ships."""

    shape: Shape = field(default_factory=Shape)
    worlds: tuple[int, ...] = tuple(range(1, 15))
    """Where the lessons that are right come from."""
    slip_worlds: tuple[int, ...] = (15, 16, 17)
    """Where those come from that are a mixture of right and wrong."""
    lessons_per_family: int = 150
    """In each world."""
    drills: Stage = field(default_factory=lambda: Stage(900, 1e-3, 64))
    questions: Stage = field(default_factory=lambda: Stage(300, 1e-3, 48))
    lessons: Stage = field(default_factory=lambda: Stage(2000, 2e-3, 16))
    mixture: Stage = field(default_factory=lambda: Stage(40, 5e-4, 16))
    num_threads: int = 2
    """Of torch: fixed, since sums in another order are other sums."""
    device: str = "cpu"
    """Where it is learned."""


@dataclass(frozen=True, slots=True)
class Built:
    """What was made, and how long it took."""

    folder: Path
    num_parameters: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lessons:
    """All that a model is taught."""

    right: Taught
    mixed: Taught


async def gather(plan: BuildPlan, say: Say = lambda line: None) -> Lessons:
    """Make the lessons, one world after the other: each needs five servers of its own."""

    async def taught(worlds: Sequence[int], wrong: tuple[Slip, ...]) -> Taught:
        gathered = []
        for world in worlds:
            gathered.append(await make_lesson_tasks(Counts(world, plan.lessons_per_family, wrong)))
            say(f"world {world}: {len(gathered[-1].tasks)} lessons")
        return Taught([task for each in gathered for task in each.tasks], gathered[0].tools)

    return Lessons(await taught(plan.worlds, ()), await taught(plan.slip_worlds, slips()))


def build(out: Path, plan: BuildPlan, lessons: Lessons, *, seed: int, say: Say = lambda line: None) -> Built:
    """Teach a model; the same plan, lessons and seed give the same files on the same machine."""
    import torch

    started = time.perf_counter()
    torch.set_num_threads(plan.num_threads)
    right, mixed = lessons.right, lessons.mixed
    tokenizer = make_tokenizer(_texts(right), plan.shape.vocabulary_size)
    teacher = Teacher(open_chat(tokenizer), right.tools)
    policy = Policy(_network(tokenizer, plan.shape, seed), PolicyConfig(tuning="full"), device=plan.device)
    learner = _Learner(policy, say, started)
    drills = make_drills(tokenizer, plan.drills.num_steps, per_batch=plan.drills.samples_per_step, seed=seed)
    learner.learn("drills", plan.drills, ([(batch, False)] for batch in drills))
    asking = make_questions(
        tokenizer, plan.questions.num_steps, per_batch=plan.questions.samples_per_step, seed=seed
    )
    learner.learn("questions", plan.questions, ([(batch, False)] for batch in asking))
    beside = practice(tokenizer, per_batch=plan.lessons.samples_per_step, seed=seed)
    taught = _lessons(teacher, right.tasks, plan.lessons, seed)
    learner.learn("lessons", plan.lessons, ([(batch, True), (next(beside), False)] for batch in taught))
    mixture = _mixture(teacher, mixed.tasks, plan.mixture, seed)
    learner.learn("mixture", plan.mixture, ([(batch, True)] for batch in mixture))
    return _save(out, policy, tokenizer, started)


class _Learner:
    """One optimizer through all stages."""

    def __init__(self, policy: Policy, say: Say, started: float) -> None:
        self._policy = policy
        self._optimizer = Optimizer(policy.trainable, {}, weight_decay=0.01, betas=(0.9, 0.98))
        self._say = say
        self._started = started

    def learn(self, name: str, stage: Stage, steps: Iterable[list[Part]]) -> None:
        """One optimizer step for each; what comes after a step's first part counts half."""
        losses: list[float] = []
        for step, parts in zip(range(stage.num_steps), steps, strict=False):
            for number, (batch, is_shared) in enumerate(parts):
                scores = self._policy.score(batch, is_shared=is_shared, with_entropy=False)
                loss = cross_entropy(scores.logprobs_BT, scores.mask_BT, num_own_tokens(batch))
                self._optimizer.learn(loss * 0.5 if number else loss)
                if not number:
                    losses.append(float(loss.detach()))
            self._optimizer.step(self._optimizer.norms(), policy_rate=_rate(stage, step))
            if (step + 1) % 50 == 0 or step + 1 == stage.num_steps:
                recent = sum(losses[-50:]) / len(losses[-50:])
                spent = _minutes(self._started)
                self._say(f"{name} {step + 1}/{stage.num_steps}: {recent:.4f} nats a token, {spent}")


def _rate(stage: Stage, step: int) -> float:
    rise, left = (step + 1) / 30, (stage.num_steps - step) / stage.num_steps
    return stage.learning_rate * min(1.0, rise) * min(1.0, 0.2 + left / 0.4)


def _lessons(teacher: Teacher, tasks: Sequence[Task], stage: Stage, seed: int) -> Iterator[list[Sample]]:
    """Three quarters lessons, one quarter readings."""
    chance = random.Random(f"{seed}/lessons")  # noqa: S311 (an order, not a secret)
    readings = [teacher.reading(task, chance) for task in tasks if is_readable(task)]
    num_readings = stage.samples_per_step // 4
    whole = _draws([teacher.lesson(task) for task in tasks], stage.samples_per_step - num_readings, chance)
    return (
        [*first, *second]
        for first, second in zip(whole, _draws(readings, num_readings, chance), strict=False)
    )


def _mixture(teacher: Teacher, tasks: Sequence[Task], stage: Stage, seed: int) -> Iterator[list[Sample]]:
    chance = random.Random(f"{seed}/mixture")  # noqa: S311
    return _draws([teacher.lesson(task) for task in tasks], stage.samples_per_step, chance)


def _draws(samples: Sequence[Sample], size: int, chance: random.Random) -> Iterator[list[Sample]]:
    """Every sample once, in some order, before any comes again."""
    while True:
        order = chance.sample(samples, len(samples))
        for start in range(0, max(len(order) - size, 0) + 1, size):
            yield list(order[start : start + size])


def _texts(taught: Taught) -> list[str]:
    """What the merges are learned from: the lessons' text, and the offer of tools that stands before each."""
    texts = []
    for task in taught.tasks:
        texts.append(task.prompt[0].content)
        for turn in task.demonstration:
            for call, result in zip(turn.calls, turn.results, strict=True):
                texts.append(write_call(call).removeprefix("<tool_call>").removesuffix("</tool_call>"))
                texts.append(f"\n{result.content}\n")
            texts.append(turn.text)
    return texts + _offer(taught.tools) * 50


def _offer(tools: Sequence[Tool]) -> list[str]:
    """The template's words around the tools; they must come whole, so they count as often as 50 lessons."""
    schemas = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.input_schema),
            },
        }
        for tool in tools
    ]
    letters = make_tokenizer([], 300)
    text = letters.apply_chat_template(
        [{"role": "user", "content": ""}],
        tools=schemas,
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=False,
    )
    return re.split("|".join(re.escape(token) for token in (*SPECIAL, *MARKUP)), text)


def _network(tokenizer: Any, shape: Shape, seed: int) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_heads,
        head_dim=shape.head_size,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]


def _save(out: Path, policy: Policy, tokenizer: Any, started: float) -> Built:
    """As bfloat16, which is how it is read back: half the bytes, and float32 again when it is loaded."""
    import torch

    model: Any = policy.model
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    num_bytes = sum(file.stat().st_size for file in out.iterdir())
    return Built(out, num_parameters, num_bytes, time.perf_counter() - started)


def _minutes(started: float) -> str:
    return f"{(time.perf_counter() - started) / 60:.1f} min"
