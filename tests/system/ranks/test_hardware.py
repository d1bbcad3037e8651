"""[hardware]: unsupported combinations are rejected at once, with the names of their keys."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnwise.cli import app
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve_alone
from turnwise.training.sharding.strategies import STRATEGIES

TWO = {"num_processes": 2}


ZERO3, FSDP2 = {"hardware": {"strategy": "zero3"}}, {"hardware": {"strategy": "fsdp2"}}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ZERO3, "strategy is 'zero3', which trains every parameter: policy.tuning is 'lora'"),
        (
            {**ZERO3, "policy": {"tuning": "full"}, "model": {"dtype": "float16"}},
            "strategy is 'zero3', which needs model.dtype bfloat16 or float32",
        ),
        (
            {**FSDP2, "model": {"quantisation": "nf4"}},
            "strategy is 'fsdp2', which cannot shard a base with model.quantisation = 'nf4'",
        ),
        (
            {"hardware": TWO, "engine": {"kind": "remote"}},
            "num_processes is 2, but engine.kind 'remote' is one server",
        ),
        (
            {"hardware": TWO, "tools": {"cassette": "calls.jsonl"}},
            "num_processes is 2, but tools.cassette_mode is 'record'",
        ),
        ({"hardware": TWO, "model": {"device": "mps"}}, "num_processes is 2, but model.device is 'mps'"),
    ],
)
def test_unsupported_combinations_are_rejected_by_name(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"hardware.{words}".replace(".", r"\.")):
        Recipe.model_validate(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"hardware": TWO},
        {"hardware": {**TWO, "strategy": "fsdp2"}},
        {"hardware": {**TWO, "strategy": "zero3"}, "policy": {"tuning": "full"}},
        {"hardware": TWO, "model": {"quantisation": "nf4"}},
        {"hardware": TWO, "tools": {"cassette": "calls.jsonl", "cassette_mode": "replay"}},
    ],
    ids=str,
)
def test_supported_combinations_are_accepted(settings: dict[str, Any]) -> None:
    Recipe.model_validate(settings)


def test_every_strategy_of_the_recipe_is_implemented() -> None:
    for name in STRATEGIES:
        chosen = read_recipe(None, parse_settings([f"hardware.strategy={name}", "policy.tuning=full"]))
        assert chosen.hardware.strategy == name
    with pytest.raises(ValueError, match=r"hardware\.strategy"):
        read_recipe(None, {"hardware.strategy": "single"})


@pytest.mark.parametrize(
    "command", [["sft", "--out", "warm"], ["eval"], ["rollout"]], ids=lambda command: command[0]
)
def test_single_process_commands_are_rejected_under_a_launcher(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.toml").write_text("hardware = {num_processes = 2}\n")
    name, *options = command
    launched = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    result = CliRunner().invoke(app, [name, "recipe.toml", *options], env=launched)
    assert result.exit_code == 2
    assert f"{name} is done by one process: start it without torchrun" in result.stderr
    result = CliRunner().invoke(app, [name, "recipe.toml", *options])
    assert result.exit_code == 2
    assert "tasks" in result.stderr


def test_what_one_process_leaves_out_is_said() -> None:
    recipe = read_recipe(None, {"hardware.num_processes": 2})
    [note] = resolve_alone(RunRequest(recipe), recipe).notes
    assert note.endswith("with the whole model; left out: hardware.num_processes = 2")
