"""`turnwise.sft` and `Run.export`: models that a program makes and every command can load."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

import turnwise as tw
from tests.api.stage import PRICES, SMALL, fmp_get_quote, tasks
from turnwise.models.places import EMBEDDED_FOLDER
from turnwise.training.update.sft import SftStep

SETTINGS: dict[str, Any] = {**SMALL, "run.num_steps": 1, "sft.num_epochs": 1, "sft.samples_per_step": 2}


def demonstrated(symbol: str, answer: float) -> dict[str, Any]:
    """A task whose demonstration looks the price up and then gives this answer."""
    calls = [{"name": "fmp_get_quote", "arguments": {"symbol": symbol}}]
    return {
        "id": symbol,
        "prompt": f"What is the latest price of {symbol}? Answer with the number only.",
        "truth": {"answer": {"value": PRICES[symbol], "matcher": "numeric"}},
        "demonstration": [{"calls": calls}, {"text": str(answer)}],
    }


def weights(folder: Path) -> dict[str, Any]:
    return dict(AutoModelForCausalLM.from_pretrained(folder).named_parameters())


def is_same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(bool((left[name] == right[name]).all()) for name in left)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tw.Run:
    return tw.train(
        tasks=tasks(),
        tools=[fmp_get_quote],
        settings=SETTINGS,
        folder=tmp_path_factory.mktemp("runs"),
        quiet=True,
    )


def test_a_model_learns_from_the_demonstrations_that_earn_their_reward(tmp_path: Path) -> None:
    rows = [demonstrated(symbol, price) for symbol, price in PRICES.items()]
    rows[-1] = demonstrated("UMBR", 1.0)
    steps: list[SftStep] = []
    warm = tw.sft(
        out=tmp_path / "warm", tasks=rows, tools=[fmp_get_quote], settings=SETTINGS, on_step=steps.append
    )
    assert warm.folder == tmp_path / "warm"
    assert (warm.num_lessons, dict(warm.dropped)) == (3, {"UMBR": "answered, without success"})
    assert steps == list(warm.steps)
    assert len(steps) == 2, "three samples, two a step"
    episodes = tw.rollout(
        model=warm.folder, tasks=tasks()[:1], tools=[fmp_get_quote], settings=SETTINGS, quiet=True
    )
    assert len(episodes) == 4


def test_a_model_learns_from_a_run_s_episodes_that_succeeded(run: tw.Run, tmp_path: Path) -> None:
    warm = tw.sft(
        out=tmp_path / "warm", run=run, settings={**SETTINGS, "policy.tuning": "lora"}, adapter=True
    )
    said = {
        (episode.trajectory.task.id, episode.trajectory.token_ids)
        for episode in run.episodes()
        if episode.reward.total == 1
    }
    assert warm.num_lessons == len(said) > 0, "equal episodes of a task are learned once"
    assert (warm.folder / "adapter_config.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tasks": [{"prompt": "?", "answer": 1}]}, "has a demonstration to learn from"),
        ({"verify": False, "run": "runs/a"}, "verify=False: the episodes of a run are already scored"),
    ],
)
def test_nothing_to_learn_from_is_a_value_error(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        tw.sft(out=tmp_path / "warm", tools=[fmp_get_quote], settings=SETTINGS, **arguments)
    assert not (tmp_path / "warm").exists()


def test_a_trained_model_is_exported_and_loads_in_transformers(run: tw.Run, tmp_path: Path) -> None:
    exported = run.export(tmp_path / "model", step=1)
    assert exported == tmp_path / "model"
    base = weights(EMBEDDED_FOLDER)
    assert not is_same(weights(exported), base)
    evaluated = tw.evaluate(
        model=exported,
        tasks=tasks()[:2],
        tools=[fmp_get_quote],
        settings=SETTINGS,
        samples=1,
        temperature=0,
        out=tmp_path / "exported.json",
        quiet=True,
    )
    same = run.evaluate(tasks()[:2], samples=1, temperature=0, out=tmp_path / "run.json", quiet=True)
    said = [[episode.trajectory.token_ids for episode in found.episodes()] for found in (evaluated, same)]
    assert said[0] == said[1]
    assert json.loads((exported / "config.json").read_text())["architectures"]


def test_an_export_never_overwrites_and_needs_a_checkpoint_that_is_there(run: tw.Run, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="model: is there already"):
        run.export(tmp_path / "model")
    with pytest.raises(ValueError, match="there is no adapter"):
        run.export(tmp_path / "adapter", adapter=True)
    with pytest.raises(ValueError, match="step=1 and best=True name different checkpoints"):
        run.export(tmp_path / "other", step=1, best=True)
    with pytest.raises(ValueError, match="step 7"):
        run.export(tmp_path / "other", step=7)
    assert not (tmp_path / "other").exists()
