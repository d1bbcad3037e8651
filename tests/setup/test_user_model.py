"""The model of [user], opened from a recipe: an engine of our own, an endpoint, or only a cassette."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rollout.stage import small_chat
from tests.run.stage import recipe as tiny_recipe
from tests.setup.resolved import resolved
from turnwise.config import Recipe, override_recipe, parse_settings, read_recipe
from turnwise.records.run_marks import named_besides_servers
from turnwise.rollout.users.user_samplers import EngineSampler
from turnwise.run.playing import play_episodes
from turnwise.setup.bench import open_engine, open_workbench, transformers_engine
from turnwise.setup.user_model import SimulatedUser, open_user_model
from turnwise.tasks.load import load
from turnwise.tasks.user_side import DemonstratedUser
from turnwise.types import END_WORD, Message, ModelUser, Task, Trajectory
from turnwise.types.protocols import UserDown

MESSAGES = [Message("system", "You are Ann."), Message("user", "Which one? <|im_end|>")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe whose users are played by the model that it trains, before training."""
    folder = tmp_path_factory.mktemp("user")
    return tiny_recipe(folder, user={"model": "model"}, rollout={"lockstep": True, "group_size": 2})


def talking(recipe: Recipe) -> list[Task]:
    assert recipe.tasks.train is not None
    user = ModelUser("Ann", "Have it written down.", 2)
    return [replace(task, user=user, max_turns=4) for task in load(recipe.tasks.train)[:3]]


def words(episodes: list[Trajectory]) -> dict[str, list[str]]:
    return {episode.episode_id: [turn.user for turn in episode.turns] for episode in episodes}


def test_the_model_of_a_user_is_found_next_to_the_recipe(made: Recipe) -> None:
    assert made.user.model == made.model.path, "a folder becomes absolute"
    assert override_recipe(made, {"user.model": "embedded"}).user.model == "embedded"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('url = "ftp://host/v1"\nmodel = "m"', "expected http://HOST:PORT/v1"),
        ('url = "http://ann:secret@host/v1"\nmodel = "m"', "must not contain a name or password"),
        ('url = "http://host/v1"', "user.model is not set"),
        ('modell = "m"', "user.modell"),
    ],
)
def test_a_section_that_cannot_work_is_refused(tmp_path: Path, section: str, words: str) -> None:
    (tmp_path / "recipe.toml").write_text(f"[user]\n{section}\n")
    with pytest.raises(ValueError, match=words) as caught:
        read_recipe(tmp_path / "recipe.toml")
    assert "ann:secret" not in str(caught.value)


def test_an_endpoint_is_named_before_a_run_of_somebody_else_is_resumed() -> None:
    url = "http://host/v1"
    recipe = override_recipe(
        Recipe(), parse_settings([f"user.url={url}", "user.model=m", "user.key_variable=MY_KEY"])
    )
    [named] = named_besides_servers(recipe)
    assert (named.key, url in named.words, "MY_KEY" in named.words) == ("user.url", True, True)


async def test_a_key_that_is_needed_and_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    settings = ["user.url=https://api.openai.com/v1", "user.model=m", "user.key_variable=MY_KEY"]
    recipe = override_recipe(Recipe(), parse_settings(settings))
    async with AsyncExitStack() as exits:
        with pytest.raises(ValueError, match=r"user\.url .* set MY_KEY"):
            await open_user_model(recipe, exits, open_engine, special_tokens=())


async def test_an_exact_reply_depends_on_nothing_but_request_and_seed(made: Recipe) -> None:
    engine, chat = transformers_engine(made.model, made.sizes), small_chat()
    try:
        exact = EngineSampler(engine, chat, "m", is_exact=True)
        alone = await exact.sample(MESSAGES, 3)
        others = [exact.sample([*MESSAGES[:1], Message("user", str(number))], 3) for number in range(2)]
        together = await asyncio.gather(*others, exact.sample(MESSAGES, 3))
        assert together[-1] == alone
        assert await exact.sample(MESSAGES, 4) != alone
        free = EngineSampler(engine, chat, "m", is_exact=False)
        assert await free.sample(MESSAGES, 3) == alone
        long = [*MESSAGES[:1], Message("user", "word " * 200_000)]
        assert await free.sample(long, 3) == END_WORD, "a fault would let a policy discard its episode"
    finally:
        await engine.close()
    with pytest.raises(UserDown, match="the user's model m: "):
        await exact.sample(MESSAGES, 3)


async def test_a_recorded_collection_is_replayed_without_the_users_model(
    made: Recipe, tmp_path: Path
) -> None:
    recording = override_recipe(made, parse_settings([f"tools.cassette={tmp_path / 'calls.jsonl'}"]))
    tasks = talking(made)
    played, progress = await play_episodes(resolved(recording, train=tasks))
    first = words([episode.trajectory for episode in played])
    assert any(any(said) for said in first.values()), "no user said anything"
    assert progress.num_lost == 0
    replaying = override_recipe(recording, {"tools.cassette_mode": "replay", "user.model": ""})
    again, progress = await play_episodes(resolved(replaying, train=tasks))
    assert words([episode.trajectory for episode in again]) == first
    tokens = [sorted(episode.trajectory.token_ids for episode in some) for some in (played, again)]
    assert tokens[0] == tokens[1]
    assert progress.num_lost == 0
    lines = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert {line["tool"] for line in lines if line.get("server") == "user"} == {"reply"}


async def test_a_bench_has_the_user_that_its_recipe_needs(made: Recipe, tmp_path: Path) -> None:
    async with open_workbench(resolved(override_recipe(made, {"user.model": ""}))) as bench:
        assert bench.user_model is None
    async with open_workbench(resolved(override_recipe(made, {"engine.kind": "scripted"}))) as bench:
        assert isinstance(bench.user_model, DemonstratedUser)
    async with open_workbench(resolved(made), replies=tmp_path / "replies") as bench:
        assert isinstance(bench.user_model, SimulatedUser)
        collector = bench.collector()
        async with collector.collecting(talking(made), 3) as groups:
            assert [len(group.trajectories) async for group in groups] == [2, 2, 2]
    assert list((tmp_path / "replies").rglob("*.txt")), "replies are kept in the folder of the run"
