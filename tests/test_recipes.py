"""Every recipe that ships loads, names files that are there, and asks for tasks that its tools can do."""

from pathlib import Path

import pytest

from turnwise.config import load_recipe
from turnwise.mcp.spec import load as load_servers
from turnwise.servers.services import DEFAULT_FILE
from turnwise.tasks.load import load

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipe_loads_and_all_it_names_is_there(file: Path) -> None:
    recipe = load_recipe(file)
    servers = {spec.name for spec in load_servers(recipe.tools.mcp or DEFAULT_FILE)}
    ids: dict[str, str] = {}
    for name in ("train", "validation", "test"):
        tasks = load(getattr(recipe.tasks, name))
        assert tasks
        for task in tasks:
            assert set(task.servers) <= servers
            assert ids.setdefault(task.id, name) == name, "no task of training is one of the held-out"
    assert len(load(recipe.tasks.train)) >= recipe.run.tasks_per_step


def test_there_are_recipes() -> None:
    assert {"cpu", "smollm2"} <= {file.stem for file in RECIPES}
