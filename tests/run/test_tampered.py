"""A checkpoint that somebody has changed, digests and all, is refused in one line that names it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import turnwise as tw
from tests.run.stage import write_recipe
from tests.run.test_train import UNMEASURED

Facts = dict[str, Any]
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one of its two steps done."""
    folder = tmp_path_factory.mktemp("tampered")
    recipe = write_recipe(folder, run={"num_steps": 1, "checkpoint_every": 1}, **UNMEASURED)
    return tw.train(recipe, quiet=True).path


def _set(*path: str, to: object) -> Callable[[Facts, Tensors], None]:
    def change(facts: Facts, tensors: Tensors) -> None:
        place = facts
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def _reshaped(prefix: str) -> Callable[[Facts, Tensors], None]:
    def change(facts: Facts, tensors: Tensors) -> None:
        name = next(name for name, tensor in tensors.items() if name.startswith(prefix) and tensor.ndim)
        tensors[name] = torch.zeros(3)

    return change


def _without_moments(facts: Facts, tensors: Tensors) -> None:
    for name in [name for name in tensors if name.endswith("exp_avg_sq")]:
        del tensors[name]


CHANGES: dict[str, Callable[[Facts, Tensors], None]] = {
    "a step that is a text": _set("standing", "next_step", to="x"),
    "another step": _set("standing", "next_step", to=7),
    "a level that is a text": _set("standing", "curriculum", "level", to="x"),
    "a best step that is an object": _set("standing", "best_step", to={}),
    "a trainer that is a list": _set("trainer", to=[1]),
    "a policy of another shape": _reshaped("policy/"),
    "no moments": _without_moments,
    "moments of another shape": _reshaped("optimizer/"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_checkpoint_is_one_line(run: Path, tmp_path: Path, name: str) -> None:
    copied = shutil.copytree(run, tmp_path / "run")
    [place] = (copied / "checkpoints").iterdir()
    facts, tensors = json.loads((place / "facts.json").read_text()), load_file(place / "tensors.safetensors")
    CHANGES[name](facts, tensors)
    (place / "facts.json").write_text(json.dumps(facts))
    save_file(tensors, place / "tensors.safetensors")
    manifest = json.loads((place / "manifest.json").read_text())
    for file in manifest["files"]:
        content = (place / file).read_bytes()
        manifest["files"][file] = {"sha256": hashlib.sha256(content).hexdigest(), "num_bytes": len(content)}
    (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="not a checkpoint of this run") as caught:
        tw.train(resume=copied, settings={"run.num_steps": 2}, quiet=True)
    assert str(place) in str(caught.value)
    assert "\n" not in str(caught.value)
