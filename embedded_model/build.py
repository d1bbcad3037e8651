"""Builds the embedded model from nothing: its tokenizer and its weights."""

import asyncio
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from embedded_model.drills import make_drills, make_questions, practice
from embedded_model.lessons import Counts, Taught, Teacher, is_readable, make_lesson_tasks
from embedded_model.slips import Slip, slips
from embedded_model.stages import Course, Learner, Part, Say, Stage, digest_of
from embedded_model.tokenizer import MARKUP, SPECIAL, make_tokenizer
from turnwise.chat import open_chat
from turnwise.chat.hermes import write_call
from turnwise.config import PolicyConfig
from turnwise.training.policy import Policy
from turnwise.training.samples import Sample
from turnwise.types import Task, Tool

Item = TypeVar("Item")

PRACTICE_EVERY = 4
"""Steps of lessons."""


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
class BuildPlan:
    """How much of everything; the defaults have the shape of the model that ships."""

    shape: Shape = field(default_factory=Shape)
    worlds: tuple[int, ...] = tuple(range(1, 15))
    """Where the lessons that are right come from."""
    slip_worlds: tuple[int, ...] = (15, 16, 17)
    """Where those come from that are a mixture of right and wrong."""
    lessons_per_family: int = 150
    """In each world."""
    drills: Stage = field(default_factory=lambda: Stage(1400, 2e-3, 32))
    questions: Stage = field(default_factory=lambda: Stage(250, 2e-3, 24))
    lessons: Stage = field(default_factory=lambda: Stage(2000, 2e-3, 16))
    mixture: Stage = field(default_factory=lambda: Stage(40, 5e-4, 16))
    worst_drills: float = 0.3
    """Nats a token at their end; above it copying has not come, and what follows would be in vain."""
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
    """Make the lessons; each world needs five servers of its own, so a few at a time."""
    turns = asyncio.Semaphore(max((os.cpu_count() or 1) // 2, 1))

    async def taught(world: int, wrong: tuple[Slip, ...]) -> Taught:
        async with turns:
            made = await make_lesson_tasks(Counts(world, plan.lessons_per_family, wrong))
        say(f"world {world}: {len(made.tasks)} lessons")
        return made

    try:
        async with asyncio.TaskGroup() as group:
            right = [group.create_task(taught(world, ())) for world in plan.worlds]
            mixed = [group.create_task(taught(world, slips())) for world in plan.slip_worlds]
    except ExceptionGroup as failures:
        # the first says it: the others are the same servers again
        raise failures.exceptions[0] from failures
    return Lessons(_joined(right), _joined(mixed))


def _joined(gathered: Sequence[asyncio.Task[Taught]]) -> Taught:
    worlds = [each.result() for each in gathered]
    return Taught([task for each in worlds for task in each.tasks], worlds[0].tools)


def build(out: Path, plan: BuildPlan, lessons: Lessons, *, seed: int, say: Say = lambda line: None) -> Built:
    """Teach a model; the same plan, lessons and seed give the same files on the same machine.

    What each stage comes to is kept in `stages_of(out)`: after a kill, the same call goes on from there.
    """
    import torch

    started = time.perf_counter()
    torch.set_num_threads(plan.num_threads)
    tokenizer = make_tokenizer(_texts(lessons.right), plan.shape.vocabulary_size)
    policy = Policy(_network(tokenizer, plan.shape, seed), PolicyConfig(tuning="full"), device=plan.device)
    # the tokenizer is made of the lessons' own text, and stands for them
    settings = repr((seed, plan.shape, plan.num_threads, plan.device))
    made_of = digest_of(settings, tokenizer.backend_tokenizer.to_str())
    Learner(policy, stages_of(out), say).learn(_courses(tokenizer, plan, lessons, seed), made_of)
    return _save(out, policy, tokenizer, started)


def stages_of(out: Path) -> Path:
    """Beside the model, until whoever asked for it removes it."""
    return out.with_name(f"{out.name}.stages")


def _courses(tokenizer: Any, plan: BuildPlan, lessons: Lessons, seed: int) -> list[Course]:
    teacher = Teacher(open_chat(tokenizer), lessons.right.tools)

    def drills() -> Iterator[list[Part]]:
        stage = plan.drills
        for batch in make_drills(tokenizer, stage.num_steps, per_batch=stage.samples_per_step, seed=seed):
            yield [(batch, False)]

    def questions() -> Iterator[list[Part]]:
        stage = plan.questions
        for batch in make_questions(tokenizer, stage.num_steps, per_batch=stage.samples_per_step, seed=seed):
            yield [(batch, False)]

    def taught() -> Iterator[list[Part]]:
        beside = practice(tokenizer, per_batch=plan.lessons.samples_per_step, seed=seed)
        for number, batch in enumerate(_lessons(teacher, lessons.right.tasks, plan.lessons, seed)):
            yield [(batch, True), *([(next(beside), False)] if number % PRACTICE_EVERY == 0 else [])]

    def mixture() -> Iterator[list[Part]]:
        for batch in _mixture(teacher, lessons.mixed.tasks, plan.mixture, seed):
            yield [(batch, True)]

    return [
        Course("drills", plan.drills, drills, worst_loss=plan.worst_drills),
        Course("questions", plan.questions, questions),
        Course("lessons", plan.lessons, taught),
        Course("mixture", plan.mixture, mixture),
    ]


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


def _draws(items: Sequence[Item], size: int, chance: random.Random) -> Iterator[list[Item]]:
    """Every one once, in some order, before any comes again."""
    while True:
        order = chance.sample(items, len(items))
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
