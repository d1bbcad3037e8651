"""The facts about recipe keys that the reference page and `turnwise config` print."""

import tomllib

import pytest
from pydantic import BaseModel

from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.config.describe import KeyFacts, describe_keys, describe_sections

FACTS = {key.name: key for key in describe_keys()}


def test_every_key_of_a_recipe_is_described() -> None:
    recipe = Recipe.model_validate({"rewards": [{"name": "outcome"}], "trackers": [{"kind": "tensorboard"}]})
    assert set(_leaves(recipe)) == set(FACTS)


def _leaves(model: BaseModel, prefix: str = "") -> list[str]:
    names = []
    for name in type(model).model_fields:
        value = getattr(model, name)
        blocks = value if isinstance(value, tuple) and value and isinstance(value[0], BaseModel) else (value,)
        inner = blocks[0]
        if isinstance(inner, BaseModel):
            names += _leaves(inner, f"{prefix}{name}.")
        else:
            names.append(f"{prefix}{name}")
    return names


@pytest.mark.parametrize("key", describe_keys(), ids=lambda key: key.name)
def test_a_key_has_a_meaning_and_a_default_that_the_recipe_accepts(key: KeyFacts) -> None:
    assert key.meaning.endswith("."), f"{key.name}: no docstring under the field"
    if key.default in ("unset", "required"):
        return
    tomllib.loads(f"value = {key.default}")
    if not key.name.startswith(("rewards.", "trackers.")):
        read_recipe(None, parse_settings([f"{key.name}={key.default}"]))


def test_facts_name_choices_ranges_and_types() -> None:
    kind = FACTS["engine.kind"]
    assert kind.choices == ('"transformers"', '"vllm"', '"remote"', '"scripted"')
    assert kind.default == '"transformers"'
    share = FACTS["engine.vllm.gpu_memory_utilization"]
    assert (share.type, share.default, share.range) == ("number", "unset", "> 0, < 1")
    assert FACTS["rollout.temperature"].range == "0 or 0.01 to 100"
    assert FACTS["rewards.name"].default == "required"
    assert FACTS["run.num_epochs"].default == "unset"
    assert FACTS["policy.lora_targets"].type == "text or list of text"
    assert FACTS["curriculum.points"].type == "list of [integer, [number, number, number]]"


def test_sections_keep_the_order_of_the_recipe() -> None:
    names = [section.name for section in describe_sections()]
    assert names[:4] == ["", "model", "engine", "engine.vllm"]
    assert [section.name for section in describe_sections() if section.is_list] == ["rewards", "trackers"]
