"""The build: lessons without held-out companies, reproducible weights, and the size and success of the
included model."""

import asyncio
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from embedded_model.build import BuildPlan, Built, Lessons, Shape, build, gather, stages_of
from embedded_model.drills import make_drills, make_questions
from embedded_model.lessons import LessonTasks, Teacher
from embedded_model.phrasings import WORDINGS, lesson_families
from embedded_model.stages import Stage
from tests.setup.resolved import agent
from turnwise.config import read_recipe
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.models.places import EMBEDDED, EMBEDDED_FOLDER
from turnwise.run.playing import evaluate_agent
from turnwise.tasks.load import load
from turnwise.tasks.selection import split_of
from turnwise.worlds.market.families import FAMILIES
from turnwise.worlds.market.world import open_world

TEST_TASKS = Path(__file__).parents[2] / "recipes" / "cpu" / "test.jsonl"

TINY = BuildPlan(
    shape=Shape(
        vocabulary_size=1200, hidden_size=32, intermediate_size=48, num_layers=2, num_heads=2, head_size=16
    ),
    worlds=(1,),
    slip_worlds=(2,),
    lessons_per_family=8,
    drills=Stage(2, 1e-3, 4),
    questions=Stage(2, 1e-3, 4),
    lessons=Stage(2, 1e-3, 4),
    mixture=Stage(2, 1e-3, 4),
    worst_drills=math.inf,
)


@pytest.fixture(scope="module")
def lessons() -> Lessons:
    """Gathered once, because every world starts five servers."""
    return asyncio.run(gather(TINY))


@pytest.fixture(scope="module")
def taught(lessons: Lessons) -> LessonTasks:
    return lessons.mixed


@pytest.fixture(scope="module")
def first(lessons: Lessons, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A build of seed 0 without interruption."""
    return build(tmp_path_factory.mktemp("built") / "first", TINY, lessons, seed=0)


def test_an_interrupted_build_resumes_and_gives_the_same_bytes(
    first: Built, lessons: Lessons, tmp_path: Path
) -> None:
    class Killed(Exception):
        pass

    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("lessons"):
            raise Killed

    with pytest.raises(Killed):
        build(tmp_path / "broken", TINY, lessons, seed=0, say=say)
    said.clear()
    build(tmp_path / "broken", TINY, lessons, seed=0, say=said.append)
    assert [line.partition(":")[0] for line in said] == [
        "resuming after questions 2/2",
        "lessons 2/2",
        "mixture 2/2",
    ]
    folders = (first.folder, tmp_path / "broken")
    assert all(stages_of(folder).is_dir() for folder in folders)
    weights = [(folder / "model.safetensors").read_bytes() for folder in folders]
    assert weights[0] == weights[1]
    said.clear()
    with pytest.raises(Killed):
        build(tmp_path / "broken", TINY, lessons, seed=1, say=say)
    assert not any("resuming" in line for line in said), "stages of another seed are not used"


def test_drills_that_were_not_learned_end_the_build_on_every_attempt(
    lessons: Lessons, tmp_path: Path
) -> None:
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"drills were not learned: \d\.\d\d nats per token; try another seed"
        ):
            build(tmp_path / "model", replace(TINY, worst_drills=1.0), lessons, seed=0, say=said.append)
    assert [line.partition(":")[0] for line in said] == ["drills 2/2", "drills 2/2"]


def test_a_built_model_loads_from_its_folder(first: Built) -> None:
    model = AutoModelForCausalLM.from_pretrained(first.folder, dtype=torch.float32)
    assert sum(weight.numel() for weight in model.parameters()) == first.num_parameters
    assert open_chat(load_tokenizer(first.folder)).notes == ()


def test_no_lesson_names_a_held_out_company_of_the_demo(taught: LessonTasks) -> None:
    held_out = [
        company for company in open_world(0).market.companies() if split_of(company.symbol) != "train"
    ]
    assert held_out
    for task in taught.tasks:
        for company in held_out:
            assert company.name not in task.prompt[0].content
            assert company.symbol not in task.prompt[0].content.split()


def test_no_lesson_uses_a_wording_of_validation_or_test_tasks() -> None:
    for name, family in lesson_families().items():
        asked = set(family.phrasings_for("train"))
        assert set(WORDINGS[name]) <= asked
        assert asked.isdisjoint(FAMILIES[name].phrasings[-2:])


def test_slips_are_verified_and_have_their_share(taught: LessonTasks) -> None:
    families = [task.family for task in taught.tasks]
    assert families.count("post_figure") == families.count("post_figure, unsaid") == 4
    assert all(task.demonstration[-1].text for task in taught.tasks)
    unsaid = [task for task in taught.tasks if task.family == "post_figure, unsaid"]
    assert all(
        {call.name for turn in task.demonstration for call in turn.calls} == {"fmp_get_quote"}
        for task in unsaid
    )


def test_a_lesson_has_the_tokens_of_an_episode_and_only_the_models_tokens_are_learned(
    taught: LessonTasks,
) -> None:
    tokenizer = load_tokenizer(EMBEDDED)
    chat = open_chat(tokenizer)
    teacher = Teacher(chat, taught.tools)
    task = next(task for task in taught.tasks if task.family == "quote_figure")
    lesson = teacher.lesson(task)
    opening = chat.open(task.prompt, taught.tools)
    assert lesson.token_ids[: len(opening)] == opening
    own = [token for token, is_own in zip(lesson.token_ids, lesson.loss_mask, strict=True) if is_own]
    assert own == [token for turn in task.demonstration for token in chat.say(turn.text, turn.calls)]
    assert not any(lesson.loss_mask[: len(opening)])


def test_a_reading_asks_for_further_figures_of_the_same_result(taught: LessonTasks) -> None:
    tokenizer = load_tokenizer(EMBEDDED)
    teacher = Teacher(open_chat(tokenizer), taught.tools)
    task = next(task for task in taught.tasks if task.family == "quote_figure")
    lesson, reading = teacher.lesson(task), teacher.reading(task, random.Random(0))
    assert reading.token_ids[: len(lesson.token_ids)] == lesson.token_ids
    added = slice(len(lesson.token_ids), None)
    pairs = zip(reading.token_ids[added], reading.loss_mask[added], strict=True)
    said = tokenizer.decode([token for token, is_own in pairs if is_own]).split("<|im_end|>")[:-1]
    figures = json.loads(task.demonstration[0].results[0].content).values()
    assert len(said) == 3
    assert {json.loads(text) for text in said} <= set(figures)


def test_drills_ask_only_for_values_that_can_be_copied() -> None:
    tokenizer = load_tokenizer(EMBEDDED)
    made = [make(tokenizer, 20, per_batch=4, seed=0) for make in (make_drills, make_questions)]
    for batch in (batch for batches in made for batch in batches):
        for drill in batch:
            end = tokenizer.eos_token_id
            shown: set[int] = set()
            for token, is_own in zip(drill.token_ids, drill.loss_mask, strict=True):
                assert not is_own or token in shown or token == end
                shown.add(token)


async def test_the_included_model_is_small_and_succeeds_on_unseen_tasks(tmp_path: Path) -> None:
    assert sum(file.stat().st_size for file in EMBEDDED_FOLDER.iterdir()) <= 10_000_000
    recipe = read_recipe(None, {"model.path": "embedded"})
    tasks = [task for task in load(TEST_TASKS) if task.family == "quote_figure"][:8]
    out = tmp_path / "eval.json"
    report, _ = await evaluate_agent(agent(recipe, tasks), out=out, num_samples=1, temperature=0.0)
    figures = json.loads(out.read_text())["figures"]
    assert report.model == "embedded"
    assert figures["all"]["success"]["value"] >= 0.5
