"""Takes an opened run, gives how it ended: collect, learn, publish, log, measure, save, step after step."""

from dataclasses import dataclass
from functools import partial

from turnwise.diagnostics.health import halting_alarms, why_halt
from turnwise.evaluate.report import Report
from turnwise.run.batches import Batches
from turnwise.run.opened import Run
from turnwise.run.standing import Standing
from turnwise.run.stopping import Stopping


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run came to its end, for now."""

    standing: Standing
    why: str
    """Empty when all steps are done; else what stopped it."""
    before: Report | None
    after: Report | None
    halted_by: str = ""
    """Names of the alarms that stopped it."""


async def train(run: Run, stopping: Stopping) -> Ended:
    """Play, learn and measure until the recipe's steps are done, the user asks to stop or an alarm halts."""
    standing = run.restore()
    await run.publishing.begin()
    await run.publishing.finish()  # whatever samples first samples from these weights
    before = await run.measure_once("before")
    steps = range(standing.next_step, run.recipe.run.num_steps)
    batches = Batches(
        run.train_tasks,
        run.recipe,
        run.new_collector,
        steps=steps,
        shown=run.showing,
        on_group=run.keep_group,
        ranks=run.ranks,
    )
    async with run.publishing.going_on(), batches.collecting(standing.curriculum):
        for step in steps:
            with run.saving_if_lost(standing):
                batch = await batches.take(step)
            # before the update: should that fail, what was played is not lost
            played = run.log_rollouts(batch)
            result = await run.learn(batch)
            publish_seconds = await run.publishing.begin()
            alarms = run.log_update(batch, played, result, publish_seconds)
            standing = standing.after(batch)
            with run.saving_if_lost(standing):
                standing = await run.validated(standing)
            why = run.agreed(why_halt(alarms) or stopping.why)
            if why or run.is_save_due(standing):
                run.save(standing)
            if why:
                return Ended(standing, why, before, None, halting_alarms(alarms))
            run.publishing.then(partial(batches.learned_from, step))
    return Ended(standing, "", before, await run.measure_once("after"))
