"""Build the embedded model from scratch: its tokenizer and its weights."""

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
from embedded_model.lessons import LessonCounts, LessonTasks, Teacher, is_readable, make_lesson_tasks
from embedded_model.slips import Slip, slips
from embedded_model.stages import Course, Learner, Part, Say, Stage, digest_of
from embedded_model.tokenizer import MARKUP, SPECIAL, make_tokenizer
from turnwise.config import PolicyConfig
from turnwise.models.chat import open_chat
from turnwise.models.chat.hermes import write_call
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.types import Task, Tool

Item = TypeVar("Item")

PRACTICE_EVERY = 4
"""Lesson steps per step with a practice batch."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of the network."""

    vocabulary_size: int = 1280
    hidden_size: int = 192
    intermediate_size: int = 512
    num_layers: int = 4
    num_heads: int = 12
    head_size: int = 32


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The settings of a build; the defaults have the shape of the included model."""

    shape: Shape = field(default_factory=Shape)
    worlds: tuple[int, ...] = tuple(range(1, 15))
    """Seeds of the worlds with correct lessons."""
    slip_worlds: tuple[int, ...] = (15, 16, 17)
    """Seeds of the worlds with a mixture of correct and wrong lessons."""
    lessons_per_family: int = 150
    """Lessons per family and world."""
    drills: Stage = field(default_factory=lambda: Stage(1400, 2e-3, 32))
    questions: Stage = field(default_factory=lambda: Stage(250, 2e-3, 24))
    lessons: Stage = field(default_factory=lambda: Stage(2000, 2e-3, 16))
    mixture: Stage = field(default_factory=lambda: Stage(40, 5e-4, 16))
    worst_drills: float = 0.3
    """Maximum loss at the end of the drills, in nats per token; above it the model has not learned to copy,
    and the later stages would fail."""
    num_threads: int = 2
    """Threads of torch; fixed, because the order of a sum changes its result."""
    device: str = "cpu"
    """The training device."""


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build."""

    folder: Path
    num_parameters: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lessons:
    """The lessons of all worlds."""

    right: LessonTasks
    mixed: LessonTasks


async def gather(plan: BuildPlan, say: Say = lambda line: None) -> Lessons:
    """Make the lessons, a few worlds at a time: every world needs five servers."""
    worlds_at_once = asyncio.Semaphore(max((os.cpu_count() or 1) // 2, 1))

    async def make(world: int, wrong: tuple[Slip, ...]) -> LessonTasks:
        async with worlds_at_once:
            made = await make_lesson_tasks(LessonCounts(world, plan.lessons_per_family, wrong))
        say(f"world {world}: {len(made.tasks)} lessons")
        return made

    try:
        async with asyncio.TaskGroup() as group:
            right = [group.create_task(make(world, ())) for world in plan.worlds]
            mixed = [group.create_task(make(world, slips())) for world in plan.slip_worlds]
    except ExceptionGroup as failures:
        # one is enough: all worlds use the same servers
        raise failures.exceptions[0] from failures
    return Lessons(_joined(right), _joined(mixed))


def _joined(running: Sequence[asyncio.Task[LessonTasks]]) -> LessonTasks:
    worlds = [world.result() for world in running]
    return LessonTasks([task for world in worlds for task in world.tasks], worlds[0].tools)


def build(out: Path, plan: BuildPlan, lessons: Lessons, *, seed: int, say: Say = lambda line: None) -> Built:
    """Train a model; the same plan, lessons and seed give the same files on the same machine.

    The checkpoints of the stages are in `stages_of(out)`: after a kill, the same call resumes from them.
    """
    import torch

    started = time.perf_counter()
    torch.set_num_threads(plan.num_threads)
    tokenizer = make_tokenizer(_texts(lessons.right), plan.shape.vocabulary_size)
    policy = Policy(_network(tokenizer, plan.shape, seed), PolicyConfig(tuning="full"), device=plan.device)
    # the tokenizer is trained on the text of the lessons, so its digest covers them
    settings = repr((seed, plan.shape, plan.num_threads, plan.device))
    inputs = digest_of(settings, tokenizer.backend_tokenizer.to_str())
    Learner(policy, stages_of(out), say).learn(_courses(tokenizer, plan, lessons, seed), inputs)
    return _save(out, policy, tokenizer, started)


def stages_of(out: Path) -> Path:
    """The folder of the checkpoints of a build, next to the model; the caller removes it."""
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

    def lesson_steps() -> Iterator[list[Part]]:
        exercises = practice(tokenizer, per_batch=plan.lessons.samples_per_step, seed=seed)
        for number, batch in enumerate(_lessons(teacher, lessons.right.tasks, plan.lessons, seed)):
            yield [(batch, True), *([(next(exercises), False)] if number % PRACTICE_EVERY == 0 else [])]

    def mixture() -> Iterator[list[Part]]:
        for batch in _mixture(teacher, lessons.mixed.tasks, plan.mixture, seed):
            yield [(batch, True)]

    return [
        Course("drills", plan.drills, drills, worst_loss=plan.worst_drills),
        Course("questions", plan.questions, questions),
        Course("lessons", plan.lessons, lesson_steps),
        Course("mixture", plan.mixture, mixture),
    ]


def _lessons(teacher: Teacher, tasks: Sequence[Task], stage: Stage, seed: int) -> Iterator[list[Sample]]:
    """Three quarters lessons, one quarter readings."""
    rng = random.Random(f"{seed}/lessons")  # noqa: S311 (an order, not a secret)
    readings = [teacher.reading(task, rng) for task in tasks if is_readable(task)]
    num_readings = stage.samples_per_step // 4
    full = _draws([teacher.lesson(task) for task in tasks], stage.samples_per_step - num_readings, rng)
    return (
        [*first, *second] for first, second in zip(full, _draws(readings, num_readings, rng), strict=False)
    )


def _mixture(teacher: Teacher, tasks: Sequence[Task], stage: Stage, seed: int) -> Iterator[list[Sample]]:
    rng = random.Random(f"{seed}/mixture")  # noqa: S311
    return _draws([teacher.lesson(task) for task in tasks], stage.samples_per_step, rng)


def _draws(items: Sequence[Item], size: int, rng: random.Random) -> Iterator[list[Item]]:
    """Batches of shuffled items; the order is drawn again after every pass."""
    while True:
        order = rng.sample(items, len(items))
        for start in range(0, max(len(order) - size, 0) + 1, size):
            yield list(order[start : start + size])


def _texts(lessons: LessonTasks) -> list[str]:
    """The training text of the tokenizer: the lessons, and the tool listing in front of them."""
    texts = []
    for task in lessons.tasks:
        texts.append(task.prompt[0].content)
        for turn in task.demonstration:
            for call, result in zip(turn.calls, turn.results, strict=True):
                texts.append(write_call(call).removeprefix("<tool_call>").removesuffix("</tool_call>"))
                texts.append(f"\n{result.content}\n")
            texts.append(turn.text)
    return texts + _tool_listing(lessons.tools) * 50


def _tool_listing(tools: Sequence[Tool]) -> list[str]:
    """The tools in the chat template; counted 50 times, so that its words become single tokens."""
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
    byte_tokenizer = make_tokenizer([], 300)
    text = byte_tokenizer.apply_chat_template(
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
    return Qwen3ForCausalLM(config)


def _save(out: Path, policy: Policy, tokenizer: Any, started: float) -> Built:
    """Save in bfloat16, half the bytes of float32; loading converts it back to float32."""
    import torch

    model: Any = policy.model
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    num_bytes = sum(file.stat().st_size for file in out.iterdir())
    return Built(out, num_parameters, num_bytes, time.perf_counter() - started)
