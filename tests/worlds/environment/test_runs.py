"""Runs in environments: trained, resumed, evaluated and viewed, from Python and from the command line."""

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import turnwise as tw
from tests.models.chat.tokenizers import qwen3
from tests.run.test_playing import completion
from tests.setup.resolved import agent, resolved
from tests.test_cli import turnwise
from tests.worlds.environment.stage import PROMPT, task
from tests.worlds.market.provider import LoopbackProvider
from turnwise.config import Recipe
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.conversation import conversation
from turnwise.dashboard.views.token_texts import Pieces
from turnwise.rollout.measure.report import read_report
from turnwise.rollout.store import read_episodes
from turnwise.run.demonstrations.warm_up import warm_up
from turnwise.run.playing import evaluate_agent
from turnwise.tasks.load import save
from turnwise.types import Stop

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "text_game.py"
GUIDE = ROOT / "docs" / "guides" / "environments.md"
MEASURED = ("time/", "memory/", "gpu/", "rollout/tokens_per_second", "tools/seconds")
"""Figures of the machine, which differ from run to run."""
SMALL = {"run.num_steps": 2, "rollout.group_size": 4, "run.tasks_per_step": 4}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("text_game", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trained(example: ModuleType, folder: Path) -> tw.Run:
    return tw.train(
        environment=example.GuessTheNumber,
        rewards=[tw.outcome(), tw.weighted("environment.close", 0.3)],
        settings={**example.SETTINGS, **SMALL},
        folder=folder,
        quiet=True,
    )


@pytest.fixture(scope="module")
def run(example: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tw.Run:
    return trained(example, tmp_path_factory.mktemp("runs"))


def figures(run: tw.Run) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if not name.startswith(MEASURED)} for row in run.metrics
    ]


def test_a_class_of_a_script_is_trained_on_its_own_tasks(run: tw.Run) -> None:
    assert run.recipe.environment == "python:GuessTheNumber"
    assert [row["step"] for row in run.metrics] == [0, 1]
    episodes = run.episodes()
    assert len(episodes) == 32
    assert all(set(one.reward.parts) == {"outcome", "environment.close"} for one in episodes)
    assert all(one.trajectory.scores["close"] == one.reward.parts["environment.close"] for one in episodes)
    assert {one.trajectory.task.prompt[0].content for one in episodes} == {
        "Guess my number from 1 to 8. Answer with the number only."
    }
    replies = {turn.user for one in episodes for turn in one.trajectory.turns}
    assert replies <= {"", "higher", "lower", "Say a number."}
    assert {"higher", "lower"} & replies


def test_the_games_of_the_guide_and_the_example_read_any_text(example: ModuleType) -> None:
    page: dict[str, Any] = {}
    exec(GUIDE.read_text().partition("```python\n")[2].partition("run = tw.train")[0], page)
    for game in (page["GuessTheNumber"], example.GuessTheNumber):
        task = tw.Task("number", seed=3, max_turns=4)
        played = tw.play(task, ["²", "", "Ⅲ 9{4}", "3"], environment=game)
        assert (played.trajectory.stop, played.reward.parts["outcome"]) == (Stop.ENDED, 1.0)


def test_the_same_seed_gives_the_same_figures(run: tw.Run, example: ModuleType, tmp_path: Path) -> None:
    assert figures(trained(example, tmp_path)) == figures(run)


def test_a_run_is_resumed_and_evaluated_with_the_class(
    run: tw.Run, example: ModuleType, tmp_path: Path
) -> None:
    game = example.GuessTheNumber
    longer = tw.train(resume=run, environment=game, settings={"run.num_steps": 3}, quiet=True)
    assert [row["step"] for row in longer.metrics] == [0, 1, 2]
    found = longer.evaluate(game.tasks()[:2], samples=2, out=tmp_path / "eval.json", quiet=True)
    assert len(found.episodes()) == 4

    class Silent(game):  # type: ignore[misc]
        def reset(self, task: tw.Task) -> str:
            super().reset(task)
            return "Say a number."

    options: dict[str, Any] = {"samples": 1, "quiet": True, "out": tmp_path / "other.json"}
    other = tw.evaluate(longer, game.tasks()[:2], environment=Silent, **options)
    assert {one.trajectory.task.prompt[0].content for one in other.episodes()} == {"Say a number."}
    with pytest.raises(ValueError, match="generates no test tasks: give `tasks`"):
        longer.evaluate(environment=Silent)


def test_the_pages_of_a_run_show_what_the_environment_said_and_scored(run: tw.Run, tmp_path: Path) -> None:
    stored = run.episodes(step=0)
    place = next(place for place, one in enumerate(stored) if len(one.trajectory.turns) > 1)
    index = Index(run.path, tmp_path)
    index.refresh()
    pieces = Pieces(run.path, "none")
    shown = [conversation(index, number, pieces) for number in range(1, len(stored) + 1)]
    said = {one["episode"]: [turn["user"] for turn in one["turns"]] for one in shown}
    expected = stored[place].trajectory
    assert said[expected.episode_id] == [turn.user for turn in expected.turns]
    assert all(set(one["scores"]) == {"outcome", "close"} for one in shown)
    everything = [conversation(index, number, pieces) for number in range(1, len(run.episodes()) + 1)]
    ended = {one["stop"]: one["last_reply"] for one in everything}
    assert ended.pop("ended") == "right"
    assert set(ended.values()) == {""}


def test_successes_in_an_environment_are_learned_from_and_demonstrations_are_refused(
    run: tw.Run, tmp_path: Path
) -> None:
    warm = asyncio.run(warm_up(resolved(run.recipe), tmp_path / "warm", source=run.path))
    assert warm.num_lessons > 0
    words = r"'python:GuessTheNumber': demonstrations cannot be played in an environment; learn .* --from RUN"
    with pytest.raises(ValueError, match=words):
        asyncio.run(warm_up(resolved(run.recipe), tmp_path / "other"))


RECIPE = """
environment = "game:GuessTheNumber"
[rollout]
group_size = 2
tokens_per_turn = 8
tokens_per_episode = 256
[run]
num_steps = 1
tasks_per_step = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "game.py").write_text(EXAMPLE.read_text())
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def test_a_dry_run_begins_an_episode_and_a_rollout_plays_some(folder: Path) -> None:
    dry = turnwise("train", "recipe.toml", "--dry-run", cwd=folder)
    assert dry.code == 0, dry.out + dry.err
    assert "tasks: 8 train; environment game:GuessTheNumber with 0 tools" in dry.out
    played = turnwise("rollout", "recipe.toml", "--groups", "1", "--show", "1", cwd=folder)
    assert played.code == 0, played.out + played.err
    assert len(list(read_episodes(folder / "runs" / "rollout" / "trajectories.jsonl"))) == 2


def test_a_dry_run_names_a_bug_in_reset(folder: Path) -> None:
    source = (folder / "game.py").read_text()
    (folder / "game.py").write_text(source.replace("task.seed, 8", "task.sede, 8"))
    dry = turnwise("train", "recipe.toml", "--dry-run", cwd=folder)
    assert dry.code == 1
    assert "bad  environment 'game:GuessTheNumber': reset() raised AttributeError" in dry.out


def test_an_evaluation_that_fails_midway_names_the_prompt_and_reports_what_it_has_played(
    folder: Path, example: ModuleType
) -> None:
    source = (folder / "game.py").read_text()
    begin = 'return "Guess my number'
    (folder / "game.py").write_text(
        source.replace(begin, f'return "x " * 500 * (task.seed == 6) + {begin[7:]}')
    )
    save(example.GuessTheNumber.tasks(), folder / "tasks.jsonl")
    one_by_one = ("-k", "1", "--set", "rollout.num_parallel_episodes=1")
    ran = turnwise(
        "eval", "recipe.toml", "--tasks", "tasks.jsonl", "--out", "eval.json", *one_by_one, cwd=folder
    )
    assert ran.code == 2, ran
    assert "Traceback" not in ran.err
    assert "rollout.tokens_per_episode is 256" in ran.err.splitlines()[-1]
    assert len(read_report(folder / "eval.json").episodes) < 8


def test_episodes_longer_than_the_models_context_are_refused_before_any_is_played(folder: Path) -> None:
    too_long = ("--set", "rollout.tokens_per_episode=5000")
    ran = turnwise("rollout", "recipe.toml", *too_long, cwd=folder)
    assert ran.code == 2
    assert "rollout.tokens_per_episode is 5000, and the model's context is 4096: lower it" in ran.err
    assert not (folder / "runs").exists()


def test_a_recipe_of_the_command_line_is_trained(folder: Path) -> None:
    ended = turnwise("train", "recipe.toml", "--quiet", cwd=folder)
    assert ended.code == 0, ended.out + ended.err
    assert "turnwise eval " in ended.out
    assert "turnwise chat " not in ended.out
    [path] = (folder / "runs").glob("recipe-*")
    run = tw.load_run(path)
    assert len(run.episodes()) >= 4
    assert run.recipe.tasks.train == path / "tasks" / "train.jsonl"


async def test_an_endpoint_plays_in_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    qwen3().save_pretrained(tmp_path / "model")
    recipe = Recipe.model_validate(
        {"model": {"path": str(tmp_path / "model")}, "environment": "tests.worlds.environment.stage:Guess"}
    )
    with LoopbackProvider() as provider:
        provider.play("chat/completions", *(completion(content=guess) for guess in ("1", "5", "3")))
        report, _ = await evaluate_agent(
            agent(recipe, [task(3)]),
            out=tmp_path / "eval.json",
            num_samples=1,
            temperature=0.0,
            endpoint=provider.url,
            endpoint_model="teacher",
        )
    [episode] = report.episodes
    assert (episode.is_success, episode.num_turns) == (True, 3)
    sent = provider.requests[-1].body["messages"]
    assert [message["content"] for message in sent] == [PROMPT, "1", "higher", "5", "lower"]
