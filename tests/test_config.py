"""Recipes: defaults, files, overrides, and mistakes that name the key and the nearest one."""

from pathlib import Path

import pytest

from turnwise.config import Recipe, load_recipe


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def test_no_file_gives_the_defaults() -> None:
    assert load_recipe(None) == Recipe()


def test_a_file_is_read_and_overrides_win(tmp_path: Path) -> None:
    path = write(tmp_path, "seed = 3\n[rollout]\ngroup_size = 4\ntemperature = 0.7\n")
    recipe = load_recipe(
        path, ["rollout.group_size=2", "engine.kind=scripted", "model.system_prompt=Be brief"]
    )
    assert (recipe.seed, recipe.rollout.group_size, recipe.rollout.temperature) == (3, 2, 0.7)
    assert recipe.engine.kind == "scripted"
    assert recipe.model.system_prompt == "Be brief"


def test_relative_paths_are_seen_from_the_recipes_folder(tmp_path: Path) -> None:
    path = write(tmp_path, '[tasks]\ntrain = "data/train.jsonl"\n[tools]\nmcp = "/etc/mcp.json"\n')
    recipe = load_recipe(path)
    assert recipe.tasks.train == tmp_path / "data" / "train.jsonl"
    assert recipe.tools.mcp == Path("/etc/mcp.json")
    assert recipe.tasks.test is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[rolout]\n", "rolout: no such key; did you mean 'rollout'?"),
        ("[rollout]\ngroup_sise = 2\n", "rollout.group_sise: no such key; did you mean 'group_size'?"),
        ("[rollout]\nzzz = 2\n", "rollout.zzz: no such key; known: group_size,"),
        (
            '[[rewards]]\nname = "outcome"\nwieght = 2\n',
            "rewards.0.wieght: no such key; did you mean",
        ),
        (
            "[rollout]\ngroup_size = 0\n",
            "rollout.group_size: Input should be greater",
        ),
        (
            '[engine]\nkind = "vlm"\n',
            "engine.kind: Input should be 'transformers', 'vllm' or 'scripted', got 'vlm'",
        ),
        ("seed = [", "not TOML"),
    ],
)
def test_a_mistake_names_the_key_and_the_value(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is what is tested)
        load_recipe(write(tmp_path, text))
    assert says in str(caught.value)
    assert "recipe.toml" in str(caught.value)


@pytest.mark.parametrize("override", ["rollout.group_size", "=3", "seed.x=3"])
def test_a_malformed_override_is_named(tmp_path: Path, override: str) -> None:
    with pytest.raises(ValueError, match=f"--set {override}"):
        load_recipe(write(tmp_path, "seed = 1\n"), [override])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"absent\.toml: no such file"):
        load_recipe(tmp_path / "absent.toml")
