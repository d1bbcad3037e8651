"""Tasks of generated worlds: verified, audited, the same for a seed, and earned by nothing but the work."""

from pathlib import Path

import pytest

from turnwise.config import read_recipe
from turnwise.setup.servers import load_servers, servers_of
from turnwise.tasks.load import load
from turnwise.worlds.generated.folder import write_worlds
from turnwise.worlds.generated.making import make_tasks


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    first, again = (write_worlds(tmp_path / name, num=2) for name in ("first", "again"))
    for file, other in zip(first.files, again.files, strict=True):
        if file.name != "recipe.toml":  # it names its folder
            assert file.read_bytes() == other.read_bytes()
    assert write_worlds(tmp_path / "other", num=2, seed=1).tasks != first.tasks


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    write_worlds(tmp_path, num=1)
    with pytest.raises(ValueError, match="already there"):
        write_worlds(tmp_path, num=1)


def test_the_recipe_and_the_servers_of_a_folder_can_be_read(tmp_path: Path) -> None:
    written = write_worlds(tmp_path, num=3)
    recipe = read_recipe(tmp_path / "recipe.toml")
    servers = servers_of(recipe)
    assert [spec.name for spec in servers.specs] == ["world-0-0", "world-0-1", "world-0-2"]
    assert all(spec.service is not None for spec in servers.specs)
    assert recipe.tasks.train is not None
    assert load(recipe.tasks.train) == written.tasks["train"]


def test_worlds_are_named_in_place_of_a_file() -> None:
    recipe = read_recipe(None, {"tools.mcp": "worlds:2:7"})
    assert [spec.name for spec in servers_of(recipe).specs] == ["world-7-0", "world-7-1"]
    with pytest.raises(ValueError, match="expected worlds:NUM"):
        read_recipe(None, {"tools.mcp": "worlds:many"})
    assert len(load_servers(Path("worlds:1")).specs) == 1


def test_tasks_have_ids_of_their_own() -> None:
    ids = [made.task.id for number in range(3) for made in make_tasks(0, number)]
    assert ids
    assert len(set(ids)) == len(ids)
