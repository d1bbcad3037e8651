"""The training loop: collect, learn, publish, log, validate, save."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from turnwise.rollout.measure.report import EvaluationReport
from turnwise.run.batches import Batches
from turnwise.run.health.health import halt_reason, halting_alarms
from turnwise.run.progress import RunProgress
from turnwise.run.training_run import TrainingRun
from turnwise.system.ranks import first_reason
from turnwise.system.stopping import Stopping

OnStep = Callable[[Mapping[str, float]], None]
"""Called after every step with its figures and, as `step`, its number from 0."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended; one that stopped early can be resumed."""

    progress: RunProgress
    why: str
    """Why it stopped; empty if all steps are done."""
    before: EvaluationReport | None
    after: EvaluationReport | None
    halted_by: str = ""
    """Names of the alarms that halted it."""


async def train(run: TrainingRun, stopping: Stopping, on_step: OnStep | None = None) -> RunEnd:
    """Train until the recipe's steps are done, the user asks to stop, or an alarm halts the run.

    If `on_step` raises, the run stops after this step and `stopping` has the error.
    """
    progress = run.checkpoints.restore()
    await run.publishing.begin()
    await run.publishing.finish()  # the first episode must be sampled from these weights
    before = await run.measure_once("before")
    steps = range(progress.next_step, run.recipe.run.num_steps)
    batches = Batches(
        run.train_tasks,
        run.recipe,
        run.new_collector,
        steps=steps,
        shown=run.showing,
        on_group=run.keep_group,
        ranks=run.ranks,
    )
    collecting = batches.collecting(progress.curriculum, progress.plan_starts, progress.temperatures)
    async with run.publishing.going_on(), collecting:
        for step in steps:
            with run.saving_if_lost(progress):
                batch = await batches.take(step)
            # logged before the update, so that the figures are not lost if the update fails
            played = run.log_rollouts(batch)
            result = await run.learn(batch)
            publish_seconds = await run.publishing.begin()
            progress, falls = progress.after(batch, run.train_tasks)
            figures, alarms = run.log_update(batch, played, falls, result, publish_seconds)
            with run.saving_if_lost(progress):
                progress, measured, measured_alarms = await run.validated(progress)
            alarms += measured_alarms
            if on_step is not None:
                stopping.attempt(partial(on_step, {"step": step, **figures, **measured}), "on_step")
            if is_back := run.checkpoints.roll_back(progress, alarms, falls):
                await run.publishing.begin()
            why = first_reason(run.ranks, halt_reason(alarms) or stopping.why)
            if why or is_back or run.checkpoints.is_save_due(progress):
                run.checkpoints.save(progress)
            if why:
                return RunEnd(progress, why, before, None, halting_alarms(alarms))
            run.publishing.then(partial(batches.learned_from, step))
    if run.checkpoints.load_best(progress):
        await run.publishing.begin()
    return RunEnd(progress, "", before, await run.measure_once("after"))
