"""`turnwise.train`: the same run as the command's, with tasks, tools and rewards given as Python objects."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from tests.api.stage import PRICES, SMALL, fmp_get_quote, tasks
from tests.run.stage import write_recipe
from tests.test_cli import turnwise
from turnwise.records.ending import How
from turnwise.system.files.json_lines import plain

ROOT = Path(__file__).parents[2]
MEASURED = ("time/", "memory/", "gpu/", "rollout/tokens_per_second", "tools/seconds")
"""Figures of the machine, which differ from run to run."""
UNMEASURED = {"evaluation": {"before_and_after": False}}


def figures(run: tw.Run) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if not name.startswith(MEASURED)} for row in run.metrics
    ]


@pytest.fixture(scope="module")
def steps() -> list[Mapping[str, float]]:
    return []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, steps: list[Mapping[str, float]]) -> tw.Run:
    """A run with everything given in Python, started inside a running event loop as in a notebook."""

    async def cell() -> tw.Run:
        return tw.train(
            model="embedded",
            tasks=tasks(),
            test=[{"question": "Quote of ACME: its price? Answer with the number only.", "answer": 12.5}],
            rewards=[tw.outcome(), lambda trajectory: 1.0 / max(len(trajectory.final_text), 1)],
            tools=[fmp_get_quote],
            settings={**SMALL, "evaluation.num_samples": 1},
            folder=tmp_path_factory.mktemp("runs"),
            on_step=steps.append,
            quiet=True,
        )

    return asyncio.run(cell())


def test_it_trains_inside_a_running_loop_and_reports_every_step(
    run: tw.Run, steps: list[Mapping[str, float]]
) -> None:
    assert run.ended is not None
    assert run.ended.how is How.FINISHED
    assert [row["step"] for row in run.metrics] == [0, 1]
    assert [dict(row) for row in run.metrics] == [plain(step) for step in steps]
    assert run.summary is not None
    assert run.summary["num_steps"] == 2
    assert "2 steps, finished" in repr(run)


def test_metrics_become_a_data_frame(run: tw.Run) -> None:
    pytest.importorskip("pandas")
    frame = run.metrics.to_pandas()
    assert list(frame.index) == [0, 1]
    assert frame["reward/mean"].tolist() == [row["reward/mean"] for row in run.metrics]
    assert len(run.metrics[1:]) == 1


def test_tasks_in_memory_are_written_into_the_runs_folder(run: tw.Run) -> None:
    file = run.recipe.tasks.train
    assert file == run.path / "tasks" / "train.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len({row["id"] for row in rows}) == 4
    assert rows[0]["truth"] == {"answer": {"value": 12.5, "matcher": "numeric", "unit": ""}}
    assert run.recipe.tasks.test == run.path / "tasks" / "test.jsonl"
    assert run.recipe.run.tasks_per_step == 4, "no more than there are tasks"


def test_the_model_calls_a_plain_function_and_reads_what_it_returns(run: tw.Run) -> None:
    results = [result for episode in run.episodes() for _, result in episode.trajectory.calls]
    assert any('"price":12.5' in result.content for result in results if not result.is_error)
    assert {tool.server for episode in run.episodes() for tool in episode.trajectory.tools} == {"functions"}


def test_what_the_function_raises_is_an_error_that_the_model_sees() -> None:
    def fmp_get_quote(symbol: str) -> float:
        """Latest quote of a stock."""
        raise LookupError(f"{symbol} is not listed")

    episodes = tw.rollout(tasks=tasks(), tools=[fmp_get_quote], settings=SMALL, quiet=True)
    results = [result for episode in episodes for _, result in episode.trajectory.calls]
    assert {result.content for result in results} & {
        f"error: LookupError: {symbol} is not listed" for symbol in PRICES
    }
    assert len(episodes) == 16, "none was dropped: it is not infrastructure"


def test_episodes_can_be_filtered_by_step_and_task(run: tw.Run) -> None:
    [first, *_] = run.episodes(step=1)
    task = first.trajectory.task.id
    assert len(run.episodes(step=1, task=task)) == 4
    assert {episode.step for episode in run.episodes(task=task)} == {0, 1}
    with pytest.raises(ValueError, match="no episodes of step 9"):
        run.episodes(step=9)


def test_functions_that_cannot_be_imported_are_named_and_scored(run: tw.Run) -> None:
    assert [part.name for part in run.recipe.rewards] == ["outcome", "python:lambda"]
    assert run.recipe.tools.functions == ("tests.api.stage:fmp_get_quote",)
    assert set(run.episodes(step=0)[0].reward.parts) == {"outcome", "python:lambda"}


def test_the_command_says_in_one_line_that_a_function_was_given_in_python(run: tw.Run) -> None:
    ran = turnwise("train", "--resume", str(run.path), "--set", "run.num_steps=3", cwd=ROOT)
    assert ran.code == 2
    assert ran.err.strip().count("\n") == 0
    assert "'python:lambda' was given in Python" in ran.err


def test_a_run_is_resumed_with_the_same_functions(run: tw.Run) -> None:
    resumed = tw.train(
        resume=run,
        rewards=[tw.outcome(), lambda trajectory: 1.0 / max(len(trajectory.final_text), 1)],
        settings={"run.num_steps": 3},
        quiet=True,
    )
    assert resumed.path == run.path
    assert [row["step"] for row in resumed.metrics] == [0, 1, 2]


def test_a_run_and_its_start_are_evaluated_and_compared(run: tw.Run, tmp_path: Path) -> None:
    options: dict[str, Any] = {"samples": 2, "quiet": True}
    before = tw.evaluate(
        tasks=tasks(), tools=[fmp_get_quote], settings=SMALL, out=tmp_path / "before.json", **options
    )
    after = run.evaluate(tasks(), out=tmp_path / "after.json", **options)
    compared = after.compare(before)
    assert compared.difference.value == pytest.approx(after.success.value - before.success.value)
    assert after.compare(before.path).difference == compared.difference
    assert len(after.episodes()) == len(before.episodes()) == 8
    assert "success, after − before" in str(compared)
    assert "4 tasks × 2" in str(after)
    with pytest.raises(ValueError, match="there already"):
        run.evaluate(tasks(), out=tmp_path / "after.json")


def test_the_same_recipe_gives_the_same_figures_as_the_command_bit_for_bit(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, **UNMEASURED)
    ran = turnwise("train", str(recipe), "--set", "run.name=command", cwd=ROOT)
    assert ran.code == 0, ran.err
    ours = tw.train(recipe, settings={"run.name": "python"}, quiet=True)
    theirs = tw.load_run(tmp_path / "runs" / "command")
    assert len(theirs.metrics) == 3
    assert figures(ours) == figures(theirs)


def test_a_recipe_object_is_completed_as_a_file_is(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    stored = tw.Recipe.model_validate(
        {
            "algorithm": {"preset": "dr_grpo"},
            "model": {"path": str(tmp_path / "model")},
            "tools": {"mcp": str(tmp_path / "mcp.json")},
            "rollout": {"group_size": 2, "tokens_per_turn": 12},
            "run": {"num_steps": 1, "tasks_per_step": 1},
            "evaluation": {"before_and_after": False},
        }
    )
    run = tw.train(
        stored,
        tasks=[{"prompt": "Write a note."}],
        rewards=["tests.run.own_rewards:even_ids"],
        folder=tmp_path,
        quiet=True,
    )
    assert run.recipe.algorithm.aggregation == "constant", "as the preset says"
    assert len(run.episodes()) >= 2


def test_an_error_in_on_step_stops_the_run_saved_and_is_raised(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, **UNMEASURED)

    def refuse(figures: Mapping[str, float]) -> None:
        if figures["step"] == 1:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        tw.train(recipe, on_step=refuse, quiet=True)
    run = tw.load_run(tmp_path / "runs" / "run")
    assert run.ended is not None
    assert (run.ended.how, run.ended.why) == (How.STOPPED, "on_step raised LookupError: enough")
    assert (run.path / "checkpoints" / "step-000002").is_dir()
    done = tw.train(resume=run, quiet=True)
    assert [row["step"] for row in done.metrics] == [0, 1, 2]


def test_ctrl_c_finishes_the_step_and_returns_the_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, **UNMEASURED)
    before = signal.getsignal(signal.SIGINT)

    def interrupt(figures: Mapping[str, float]) -> None:
        if figures["step"] == 0:
            os.kill(os.getpid(), signal.SIGINT)

    run = tw.train(recipe, settings={"run.num_steps": 100}, on_step=interrupt, quiet=True)
    assert run.ended is not None
    assert (run.ended.how, run.ended.why) == (How.STOPPED, "you asked it to stop (Ctrl-C)")
    assert 1 <= len(run.metrics) < 100
    assert signal.getsignal(signal.SIGINT) is before


def namesake() -> Any:
    def fmp_get_quote(symbol: str) -> str:
        return symbol

    return fmp_get_quote


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"settings": {"rollout.group_sise": 4}},
            "rollout.group_sise: no such key; did you mean 'group_size'?",
        ),
        ({"settings": {"rollout.group_size": True}}, "rollout.group_size: expected a number, got true"),
        ({"settings": {"model.path": None}}, "settings: model.path is None"),
        ({"settings": {"trackers": [{"kind": lambda: None}]}}, "which a recipe cannot store"),
        ({"settings": {"hardware.num_processes": 2}}, "num_processes = 2: only the command"),
        ({"tasks": [{"prompt": "?", "truht": {}}]}, "tasks.train: row 1: truht: Extra inputs"),
        ({"tasks": [tw.Task(prompt="?")]}, "its truth asks for nothing that must be done"),
        ({"tasks": [tw.Task(prompt="?")], "tools": [4]}, "expected a function, got 4"),
        (
            {"tasks": tasks(), "tools": [lambda symbol: symbol]},
            "'python:lambda': a lambda tells the model neither",
        ),
        (
            {"tasks": tasks(), "tools": [fmp_get_quote, namesake()]},
            "two functions are called 'fmp_get_quote'",
        ),
        ({"recipe": "nowhere.toml"}, "nowhere.toml: no such file"),
        ({"resume": "nowhere"}, "not a run's folder"),
        ({"resume": "nowhere", "model": "embedded"}, "resume: the run has its own model"),
    ],
)
def test_a_mistake_is_a_value_error_that_names_it(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    if "resume" not in arguments:
        arguments = {**arguments, "folder": tmp_path}
    with pytest.raises(ValueError, match=words):
        tw.train(**arguments, quiet=True)


def test_what_a_run_made_elsewhere_names_is_started_only_with_consent(
    run: tw.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # the marks of another user
    words = "was not made by you on this machine(.|\n)*tools.functions: tests.api.stage:fmp_get_quote"
    with pytest.raises(ValueError, match=words):
        run.evaluate(tasks())
    with pytest.raises(ValueError, match=words):
        tw.train(resume=run.path, rewards=[tw.outcome()])
