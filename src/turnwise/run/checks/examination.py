"""Examine a recipe and its servers; findings come as soon as they are known."""

import asyncio
from collections.abc import AsyncIterator

from turnwise.config import Recipe
from turnwise.run.checks import keys, machine
from turnwise.run.checks.endpoints import check_endpoints
from turnwise.run.checks.findings import ROLLOUT, Finding, FindingLevel
from turnwise.run.checks.servers import Reached, reach_servers
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.setup.servers import NO_SERVERS, ReadyServers
from turnwise.system.python_functions import NOTHING_GIVEN


async def examine(
    servers: ReadyServers, recipe: Recipe | None, *, needed_bytes: int, recipe_name: str = "RECIPE"
) -> AsyncIterator[Finding]:
    """Check everything a run needs; nothing is changed, and no finding contains a secret.

    Without a recipe, or without the packages of the extra `train`, only the machine and the servers are
    checked. `needed_bytes` is a run's disk space, `recipe_name` what commands call the recipe.
    """
    is_modelled = recipe is not None and recipe.engine.kind != "scripted"
    yield machine.check_python()
    for finding in machine.check_packages(needs_models=is_modelled):
        yield finding
    if recipe is not None:
        for finding in machine.check_requirements(recipe):
            yield finding
        recipe = machine.without_quantisation(recipe)
    can_train = machine.has_model_packages()
    if recipe is not None and can_train and recipe.engine.kind == "remote":
        from turnwise.run.checks.model import check_remote

        yield await check_remote(recipe.engine.remote.url, is_lockstep=recipe.rollout.lockstep)
    if can_train:
        yield await asyncio.to_thread(machine.check_device, recipe.model.device if recipe else "auto")
    if recipe is not None:
        yield machine.check_disk(recipe.run.folder, needed_bytes)
        is_replayed = recipe.tools.is_replayed
        async for finding in check_endpoints(recipe.rewards, recipe.user, is_replayed=is_replayed):
            yield finding
    yield await asyncio.to_thread(machine.check_sandbox)
    for finding in keys.check_keys(servers):
        yield finding
    needed = None
    if recipe is not None and can_train:
        from turnwise.run.checks.model import needed_servers

        needed = needed_servers(recipe.tasks, servers)
    reached = await reach_servers(servers, needed)
    for finding in reached.findings:
        yield finding
    if recipe is not None and can_train:
        run = ResolvedRun(recipe, {}, NO_SERVERS if recipe.tools.is_replayed else servers, NOTHING_GIVEN)
        async for finding in _examine_run(run, reached, recipe_name):
            yield finding


async def _examine_run(run: ResolvedRun, reached: Reached, recipe_name: str) -> AsyncIterator[Finding]:
    from turnwise.run.checks import model as setup

    recipe, is_sound = run.recipe, reached.is_whole
    for finding in setup.check_tasks(run, reached):
        is_sound = is_sound and finding.level is not FindingLevel.BAD
        yield finding
    task = setup.some_task(recipe.tasks, reached.tools) if is_sound else None
    if recipe.engine.kind != "scripted":
        async for finding in setup.check_model(run, task, reached.tools):
            is_sound = is_sound and finding.level is not FindingLevel.BAD
            yield finding
    if task is not None and is_sound:
        yield await setup.check_rollout(run, task)
        if recipe.engine.kind != "scripted":
            yield await setup.check_first_episodes(run, reached.tools, recipe_name)
    elif recipe.tasks.files:
        yield Finding(ROLLOUT, FindingLevel.WARNING, "not tried: what is bad above would make it fail")
