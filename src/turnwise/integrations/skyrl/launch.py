"""Takes a recipe, trains it in SkyRL: says what is not carried over, checks the config, starts it on Ray."""

from collections.abc import Callable
from importlib.util import find_spec

from turnwise.config import Recipe
from turnwise.integrations.skyrl.translation import translate

NOT_INSTALLED = "--engine skyrl: SkyRL is not installed (Python 3.12 or newer: pip install 'turnwise[skyrl]')"


def launch(recipe: Recipe, name: str, *, say: Callable[[str], None]) -> None:
    """ValueError for the user's mistakes. The same recipe again goes on from its last checkpoint."""
    folder = (recipe.run.folder / (recipe.run.name or name)).resolve()
    translation = translate(recipe, folder)
    if find_spec("skyrl") is None or find_spec("ray") is None:
        raise ValueError(NOT_INSTALLED)
    from turnwise.integrations.skyrl.experiment import checked_config, run_on_ray, train_tasks

    for line in translation.lines():
        say(line)
    train_tasks(recipe)
    config = checked_config(translation)
    say(f"run {folder}")
    run_on_ray(recipe, config)
