"""Keys of earlier versions: what a recipe with one is told, and how a run's stored recipe is read."""

import logging
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from turnwise.config import Recipe, TrackerConfig, load_recipe, override_recipe, stored_recipe
from turnwise.config.older_keys import REMOVED, RENAMED

STORED = Recipe(trackers=(TrackerConfig(kind="wandb"),)).model_dump(mode="json")


def stored(keys: Mapping[str, Any]) -> Recipe:
    """The recipe read from a run's folder that has these dotted keys as well."""
    data = deepcopy(STORED)
    for key, value in keys.items():
        *sections, name = key.split(".")
        holder: Any = data
        for section in sections:
            holder = holder[section][0] if section == "trackers" else holder[section]
        holder[name] = value
    return stored_recipe(data, "recipe.json")


@pytest.mark.parametrize("key", [*RENAMED, *REMOVED])
def test_a_recipe_with_an_older_key_is_told_what_to_do(tmp_path: Path, key: str) -> None:
    file = tmp_path / "recipe.toml"
    section, _, name = key.rpartition(".")
    head = '[[trackers]]\nkind = "wandb"' if section == "trackers" else f"[{section}]"
    file.write_text(f"{head}\n{name} = 1\n")
    what = f"is now {RENAMED[key]}" if key in RENAMED else f"is no longer a key: {REMOVED[key].advice}"
    with pytest.raises(ValueError, match=r"recipe\.toml: ") as caught:
        load_recipe(file)
    assert f"{key.replace('trackers.', 'trackers.0.')} {what}" in str(caught.value)


def test_an_override_with_an_older_key_is_refused_with_the_new_name() -> None:
    with pytest.raises(ValueError, match=r"^evaluation\.is_before_and_after is now evaluation\.before_and"):
        override_recipe(Recipe(), ["evaluation.is_before_and_after=false"])


def test_a_stored_recipe_drops_removed_keys_at_their_defaults(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "turnwise"):
        recipe = stored({key: removed.default for key, removed in REMOVED.items()})
    assert recipe == Recipe.model_validate(STORED)
    [line] = caplog.messages
    assert all(key in line for key in REMOVED if not key.startswith("algorithm.correction"))
    assert " = " not in line, "no value is lost"


@pytest.mark.parametrize("key", [key for key in REMOVED if not key.startswith("algorithm.correction")])
def test_a_stored_value_that_mattered_is_an_error(key: str) -> None:
    if REMOVED[key].is_harmless:
        assert stored({key: 77}) == Recipe.model_validate(STORED)
    else:
        with pytest.raises(ValueError, match=f"^recipe.json: {key} is 77, which this version cannot do"):
            stored({key: 77})


@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        ({"model.enable_thinking": True}, ["model.thinking=true"]),
        ({"evaluation.is_before_and_after": False}, ["evaluation.before_and_after=false"]),
        ({"engine.vllm.adapters": False, "engine.remote.adapters": True}, []),
        (
            {"engine.kind": "vllm", "engine.vllm.adapters": False, "engine.remote.adapters": True},
            ["engine.kind=vllm", "engine.adapters=false"],
        ),
        (
            {
                "algorithm.correction": "mask",
                "algorithm.correction_low": 0.25,
                "algorithm.correction_high": 4.0,
            },
            ["algorithm.correction=mask", "algorithm.correction_cap=4"],
        ),
        ({"algorithm.correction_low": 0.1, "algorithm.correction_high": 3.0}, []),
    ],
)
def test_a_stored_value_moves_to_the_new_key(keys: Mapping[str, Any], changes: list[str]) -> None:
    assert stored(keys) == override_recipe(Recipe.model_validate(STORED), changes)


def test_bounds_of_a_mask_that_one_cap_cannot_say_are_an_error() -> None:
    bounds = {"algorithm.correction_low": 0.1, "algorithm.correction_high": 4.0}
    with pytest.raises(ValueError, match=r"algorithm\.correction_low is 0\.1"):
        stored({"algorithm.correction": "mask", **bounds})
