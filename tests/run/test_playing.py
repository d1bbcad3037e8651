"""Evaluations over real servers: demonstrations, an endpoint on loopback, reports and comparisons."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.models.chat.tokenizers import qwen3
from tests.rollout.stage import NOTEBOOK, call, task
from tests.setup.resolved import agent, resolved
from tests.worlds.market.provider import Answer as Reply
from tests.worlds.market.provider import LoopbackProvider
from turnwise.config import Recipe, override_recipe
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.measure.report import (
    EvaluationReport,
    compare,
    figures,
    print_comparison,
    print_report,
    read_report,
    require_free_report,
    trajectories_of,
    write_report,
)
from turnwise.rollout.measure.summary import EvaluatedEpisode
from turnwise.rollout.store import read_episodes
from turnwise.run.playing import evaluate_agent, play_groups
from turnwise.run.progress import RunProgress
from turnwise.tasks.curriculum import CurriculumState
from turnwise.types import DemoTurn, Task


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """A recipe with a small tokenizer on disk and the notebook server; it needs no weights."""
    qwen3().save_pretrained(tmp_path / "model")
    block = {"command": sys.executable, "args": [str(NOTEBOOK)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notebook": block}}))
    return Recipe.model_validate(
        {
            "model": {"path": str(tmp_path / "model")},
            "engine": {"kind": "scripted"},
            "tools": {"mcp": str(tmp_path / "mcp.json")},
            "rollout": {"group_size": 2},
        }
    )


def demonstrated(name: str, answer: str, family: str) -> Task:
    turns = (DemoTurn("", (call("write", text=name),)), DemoTurn(answer))
    return task(name, demonstration=turns, family=family)


TASKS = (demonstrated("a", "done", "good"), demonstrated("b", "nonsense", "bad"))


async def test_demonstrations_are_played_and_measured(recipe: Recipe, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "eval.json"
    report, written = await evaluate_agent(agent(recipe, TASKS), out=out, num_samples=2, temperature=1.0)
    assert written == out
    assert read_report(out) == report
    found = json.loads(out.read_text())["figures"]
    assert found["all"]["success"]["value"] == 0.5
    assert found["by_family"]["good"]["pass_hat_k"] == {"1": 1.0, "2": 1.0}
    assert found["by_family"]["bad"]["success"]["value"] == 0.0
    assert found["num_sampled_tokens"] == sum(episode.num_tokens for episode in report.episodes) > 0
    assert len(list(read_episodes(out.with_name("trajectories.jsonl")))) == 4


async def test_an_evaluation_ends_no_episode_that_repeats_itself_and_counts_it(
    recipe: Recipe, tmp_path: Path
) -> None:
    reads = [DemoTurn("", (call("read"),))] * 6
    looping = task("loop", demonstration=(*reads, DemoTurn("done")))
    report, _ = await evaluate_agent(
        agent(recipe, [looping, TASKS[0]]), out=tmp_path / "eval.json", num_samples=1, temperature=1.0
    )
    assert [episode.num_turns for episode in report.episodes] == [2, 7]
    assert [episode.is_success for episode in report.episodes] == [True, True]
    assert figures(report)["all"]["repeating_share"] == 0.5
    asked = override_recipe(recipe, {"evaluation.plain": False})
    report, _ = await evaluate_agent(
        agent(asked, [looping, TASKS[0]]), out=tmp_path / "asked.json", num_samples=1, temperature=1.0
    )
    assert [episode.num_turns for episode in report.episodes] == [2, 5]
    assert figures(report)["all"]["repeating_share"] == 0.5


async def test_a_rollout_ends_episodes_that_repeat_themselves_and_says_how_many(
    recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looping = task("loop", demonstration=(*[DemoTurn("", (call("read"),))] * 6, DemoTurn("done")))
    await play_groups(
        resolved(recipe, train=[looping, TASKS[0]]), num_tasks=2, out=tmp_path / "t.jsonl", num_shown=0
    )
    printed = capsys.readouterr().out
    assert "2 of 4 episodes repeat themselves" in printed
    assert "repeated 2" in printed
    stored = [
        episode for episode in read_episodes(tmp_path / "t.jsonl") if episode.trajectory.stop == "repeated"
    ]
    assert [episode.reward.parts["outcome"] for episode in stored] == [0.0, 0.0]


async def test_a_rollout_keeps_every_episode_and_prints_some(
    recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trajectories.jsonl"
    await play_groups(resolved(recipe, train=TASKS), num_tasks=2, out=out, num_shown=1)
    assert len(list(read_episodes(out))) == 4
    printed = capsys.readouterr().out
    assert printed.count("· reward") == 1, "num_shown is 1"
    summary = printed[printed.index("4 episodes of 2 tasks in ") :].splitlines()
    assert summary[1:] == [
        "success 0.500 by the tasks' ground truth, mean reward +0.500",
        "stops: answered 4",
        "tool calls: 4, of which 0 failed because of the model and 0 because of infrastructure",
        "lost to infrastructure: 0 episodes, 0 groups dropped",
        f"trajectories: {out}",
    ]


def completion(**message: Any) -> Reply:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return Reply({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})


async def test_an_endpoint_is_evaluated_with_its_own_token_counts_cost_and_key(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-dotenv\n")
    function = {"name": "write", "arguments": '{"text": "x"}'}
    calling = completion(content=None, tool_calls=[{"id": "c", "type": "function", "function": function}])
    with LoopbackProvider() as provider:
        provider.play("chat/completions", calling, completion(content="done"))
        report, _ = await evaluate_agent(
            agent(recipe, TASKS[:1]),
            out=tmp_path / "eval.json",
            num_samples=1,
            temperature=0.0,
            endpoint=provider.url,
            endpoint_model="teacher",
            prices=(1.0, 10.0),
        )
    assert provider.requests[0].headers["authorization"] == "Bearer sk-from-dotenv"
    assert report.model == "teacher"
    [episode] = report.episodes
    assert episode.is_success
    assert (episode.num_turns, episode.num_tokens, episode.num_prompt_tokens) == (2, 20, 200)
    assert report.cost == pytest.approx((200 * 1.0 + 20 * 10.0) / 1e6)


def report_of(model: str, rates: dict[str, list[bool]]) -> EvaluationReport:
    episodes = tuple(
        EvaluatedEpisode(name, name[0], "easy", is_success, 2, 10, 1, 0, 0)
        for name, outcomes in rates.items()
        for is_success in outcomes
    )
    return EvaluationReport(model, 2, 1.0, 1.0, len(rates), 0, episodes)


def test_a_comparison_pairs_tasks_and_reports_those_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    before = report_of("old", {"x1": [False, False], "x2": [True, False], "y1": [True, True]})
    after = report_of("new", {"x1": [True, True], "x2": [True, True], "z9": [True, True]})
    print_comparison(compare(before, after), as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert rows["all"]["value"] == pytest.approx(0.75)
    assert rows["all"]["low"] > 0
    print_comparison(compare(before, after))
    shown = capsys.readouterr().out
    assert "+0.75" in shown
    assert "2 tasks are in one evaluation only" in shown


def test_unplayed_tasks_count_as_missing_and_not_as_failures(capsys: pytest.CaptureFixture[str]) -> None:
    short = replace(report_of("m", {"x1": [True, True]}), num_tasks_asked=3, num_lost=5)
    assert short.num_tasks_missing == 2
    assert figures(short)["all"]["success"]["value"] == 1.0
    print_report(short)
    assert "2 tasks could not be played" in " ".join(capsys.readouterr().out.split())


def test_what_was_not_played_or_drawn_again_counts_as_failed_in_the_bound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = report_of("m", {"x1": [True, True], "y1": [True, False]})
    assert report.success_at_least == 0.75
    redrawn = tuple(replace(one, is_redrawn=one.task_id == "x1") for one in report.episodes)
    attempts = {"x": (40, 20), "y": (40, 0)}
    short = replace(report, num_tasks_asked=5, num_lost=20, episodes=redrawn, attempts=attempts)
    assert short.success_at_least == 0.1
    assert figures(short)["success_at_least"] == 0.1
    print_report(short)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Counted as failed, success is 0.10" in shown
    assert "family x: 20 of 40 were lost: far more than of the others" in shown


def test_the_best_checkpoint_is_not_the_one_whose_failures_were_lost() -> None:
    honest = report_of("m", {"x1": [True, True], "x2": [True, False]})
    voiding = replace(report_of("m", {"x1": [True, True]}), num_tasks_asked=2, num_lost=6)
    first, _ = RunProgress(1, CurriculumState(seed=0)).validated(honest)
    second, _ = replace(first, next_step=2).validated(voiding)
    assert (second.best_step, second.best_success) == (1, 0.75)


def test_an_empty_evaluation_is_rejected_and_an_invalid_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no task could be played"):
        write_report(EvaluationReport("m", 1, 1.0, 1.0, 1, 3, ()), tmp_path / "eval.json")
    assert not (tmp_path / "eval.json").exists()
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"other\.json: is not an eval\.json"):
        read_report(tmp_path / "other.json")


@pytest.mark.parametrize("name", ["eval.json", "mine.json"])
async def test_a_report_whose_file_appears_during_the_evaluation_goes_to_a_free_name_with_its_episodes(
    recipe: Recipe, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "runs" / name

    @contextlib.asynccontextmanager
    async def shown(_progress: Progress, _num_episodes: int) -> AsyncIterator[None]:
        yield
        out.write_text("of someone else")

    report, written = await evaluate_agent(
        agent(recipe, TASKS[:1]), out=out, num_samples=1, temperature=1.0, shown=shown
    )
    assert written == out.with_name(f"{out.stem}-2.json")
    assert read_report(written) == report
    assert len(list(read_episodes(trajectories_of(written)))) == 1
    assert out.read_text() == "of someone else"
    assert len(list(out.parent.iterdir())) == 3, "a temporary file is left"


def test_an_evaluation_is_refused_if_its_report_or_its_episodes_are_there(tmp_path: Path) -> None:
    out = tmp_path / "eval.json"
    trajectories_of(out).write_text("")
    with pytest.raises(ValueError, match=r"trajectories\.jsonl: is there already"):
        require_free_report(out)
    trajectories_of(out).rename(out)
    with pytest.raises(ValueError, match=r"eval\.json: is there already"):
        require_free_report(out)
