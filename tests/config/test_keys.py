"""Keys of a recipe are looked up by name, also by a wrong one."""

import json
from pathlib import Path

import pytest

from tests.test_cli import fresh, turnwise
from turnwise.config.keys import keys_below, nearest_keys


def test_a_section_has_the_keys_below_it() -> None:
    names = [key.name for key in keys_below("engine")]
    assert "engine.kind" in names
    assert "engine.vllm.eager" in names
    assert keys_below("engin") == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("group_size", "rollout.group_size"),
        ("rolout.group_size", "rollout.group_size"),
        ("rollout.grop_size", "rollout.group_size"),
        ("learning_rat", "optimizer.learning_rate"),
    ],
)
def test_an_unknown_key_names_the_nearest(name: str, meant: str) -> None:
    assert meant in nearest_keys(name)


def test_the_command_explains_a_key_and_a_mistake(tmp_path: Path) -> None:
    ran = turnwise("config", "run.mode", cwd=tmp_path, python=fresh)
    assert (ran.code, ran.out.splitlines()[:2]) == (0, ['run.mode = "sync"', '    one of "sync", "async"'])
    [key] = json.loads(turnwise("config", "run.mode", "--json", cwd=tmp_path, python=fresh).out)
    assert key["default"] == '"sync"'
    wrong = turnwise("config", "run.mod", cwd=tmp_path, python=fresh)
    assert (wrong.code, wrong.err) == (2, "turnwise: run.mod: no such key; did you mean run.mode?\n")
