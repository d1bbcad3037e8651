"""Every key of a recipe can be looked up: meaning, type, default and range."""

import json
from pathlib import Path

import pytest

from tests.test_cli import fresh, turnwise
from turnwise.config.keys import Key, all_keys, keys_below, nearest_keys


def test_every_key_has_a_meaning_and_a_name_of_its_own() -> None:
    keys = all_keys()
    assert [key.name for key in keys if not key.meaning] == []
    assert len({key.name for key in keys}) == len(keys) > 110


def test_a_key_has_its_type_default_and_range() -> None:
    assert keys_below("rollout.group_size") == [
        Key(
            "rollout.group_size",
            "Members of a group: episodes per task for one update.",
            "integer",
            "8",
            "at least 1",
        )
    ]
    [dtype] = keys_below("model.dtype")
    assert (dtype.type, dtype.default) == ("string", '"float32"')
    assert dtype.allowed == '"float32", "bfloat16", "float16"'
    [betas] = keys_below("optimizer.betas")
    assert (betas.type, betas.default) == ("list of 2: number", "[0.9, 0.999]")
    [name] = keys_below("rewards.name")
    assert name.default == "required"


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
    older = turnwise("config", "model.enable_thinking", cwd=tmp_path, python=fresh)
    assert older.err == "turnwise: model.enable_thinking is now model.thinking\n"
