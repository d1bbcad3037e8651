"""Train a recipe with SkyRL: report untranslated keys, validate the config, and start it on Ray."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from turnwise.config import Recipe, RunConfig
from turnwise.config.optional_packages import install_command
from turnwise.config.requirements import is_installed, skyrl_requirements
from turnwise.run.skyrl.translation import Translation, translate
from turnwise.setup.servers import servers_of
from turnwise.tasks.live_conflicts import check_worlds
from turnwise.tasks.load import load

NOT_INSTALLED = f"--engine skyrl: SkyRL is not installed (Python 3.12 or newer: {install_command('skyrl')})"

_TRAINER = ("vllm", "vllm_router", "flash_attn")
"""Modules that SkyRL's trainer imports on all hardware and that the extra does not install."""


def launch(recipe: Recipe, name: str, *, say: Callable[[str], None]) -> None:
    """Train the recipe; ValueError for a user's mistake. The same recipe resumes from its last checkpoint."""
    folder = _folder(recipe.run, name)
    translation = translate(recipe, folder)
    if not _is_installed():
        raise ValueError(NOT_INSTALLED)
    from turnwise.run.skyrl.experiment import check_embeddings, checked_config, run_on_ray, train_tasks

    for line in translation.lines():
        say(line)
    train_tasks(recipe)
    _share_servers(recipe)
    config = checked_config(translation)
    if missing := _missing():
        raise ValueError(f"--engine skyrl: {missing}")
    check_embeddings(recipe.policy.tuning, config)
    say(f"run {folder}")
    run_on_ray(recipe, config)


def preview(recipe: Recipe, name: str) -> tuple[list[str], list[str]]:
    """Preview `launch` without starting anything: what it would print and pass to SkyRL, and the problems.

    ValueError if the recipe cannot be translated.
    """
    folder = _folder(recipe.run, name)
    translation = translate(recipe, folder)
    lines = [*translation.lines(), "SkyRL gets:"]
    lines += [f"  {key} = {json.dumps(value)}" for key, value in sorted(translation.overrides.items())]
    problems = list[str]()
    try:
        _share_servers(recipe)
        lines.append(_accepted(recipe, translation))
    except ValueError as error:
        problems.append(str(error))
    if missing := _missing():
        lines.append(missing)
    return [*lines, f"folder: {folder}; nothing was started or written"], problems


def _accepted(recipe: Recipe, translation: Translation) -> str:
    """A line stating that SkyRL accepts the config; ValueError if it does not."""
    if not _is_installed():
        raise ValueError(NOT_INSTALLED)
    from turnwise.run.skyrl.experiment import check_embeddings, checked_config, num_gpus, train_tasks

    train_tasks(recipe)
    config = checked_config(translation)
    check_embeddings(recipe.policy.tuning, config)
    return f"SkyRL accepts it, and will need {num_gpus(config)} GPUs of Ray's cluster"


def _share_servers(recipe: Recipe) -> None:
    """ValueError if a server cannot serve all players, or if tasks do not work with a live server."""
    servers = servers_of(recipe)
    for spec in servers.specs:
        spec.shared_by(max(recipe.skyrl.num_players, 1))
    for split, file in recipe.tasks.files.items():
        if servers.live and split != "test":  # SkyRL plays no test tasks
            check_worlds(load(file), servers.live)


def _missing() -> str:
    """A sentence on modules that a node needs and this one lacks; empty if it has all."""
    names = [name for name in _TRAINER if find_spec(name) is None]
    where = "SkyRL's trainer needs it on every node: pip install 'skyrl[fsdp]'"
    return f"not installed here: {', '.join(names)}; {where}" if names else ""


def _folder(run: RunConfig, name: str) -> Path:
    return (run.folder / (run.name or name)).resolve()


def _is_installed() -> bool:
    return all(is_installed(requirement.module) for requirement in skyrl_requirements())
