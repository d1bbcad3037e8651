"""A training run: everything one step needs, open for as long as the run lasts."""

import contextlib
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from turnwise.records.folder import RunFolder
from turnwise.rewards import succeeded
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.collector import CollectionFailed, Collector, step_seed
from turnwise.rollout.measure.losses import loss_figures, most_lost
from turnwise.rollout.measure.report import EvaluationReport, read_report, write_report
from turnwise.rollout.measure.summary import summarise
from turnwise.rollout.rank_exchange import rank_share
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter
from turnwise.run.batches import CollectedBatch
from turnwise.run.checkpoints import Checkpoints
from turnwise.run.figures import (
    breaker_figures,
    drawing_figures,
    evaluation_figures,
    of_all_ranks,
    rollout_figures,
)
from turnwise.run.health.falls import Watched
from turnwise.run.health.first_episodes import examine_first
from turnwise.run.health.gpu import UNMEASURED, GpuMonitor
from turnwise.run.health.health import Alarm, find_alarms
from turnwise.run.health.machine import measure as measure_memory
from turnwise.run.playing import measure
from turnwise.run.progress import RunProgress
from turnwise.run.publishing import Publishing
from turnwise.run.screen.screen import Screen
from turnwise.run.step_rescues import StepRescues, rescues_of
from turnwise.setup.bench import Workbench
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.system.ranks import ALONE, Ranks, first_rank_value, is_first
from turnwise.system.threads import run_detached
from turnwise.tasks.plan_starts import PlanStarts
from turnwise.tasks.temperatures import FamilyTemperatures
from turnwise.training.packing.samples import Sample, samples_of
from turnwise.training.update.imitation import weight_at
from turnwise.training.update.statistics import TokenMismatch
from turnwise.training.update.tokens import write_tokens
from turnwise.training.update.trainer import StepResult, Trainer
from turnwise.types import Group, Task
from turnwise.types.protocols import SleepingEngine

logger = logging.getLogger(__name__)

LESSONS_PER_STEP = 16
"""Demonstrations added to a batch while imitation lasts; imitation.weight sets how much they count."""


class TrainingRun:
    """The collaborators of one run, and the parts of a step: play, learn, evaluate, save."""

    def __init__(
        self,
        run: ResolvedRun,
        folder: RunFolder,
        bench: Workbench,
        trainer: Trainer,
        lessons: Sequence[Sample],
        screen: Screen,
        ranks: Ranks = ALONE,
        gpu: GpuMonitor = UNMEASURED,
    ) -> None:
        self.ranks = ranks
        self.gpu = gpu
        self.run = run
        self.recipe = run.recipe
        self.folder = folder
        self.bench = bench
        self.trainer = trainer
        self.train_tasks = run.tasks_of("train")
        self.lessons = lessons
        self.screen = screen
        self.publishing = Publishing(self._publish, is_concurrent=self._publishes_concurrently)
        self.checkpoints = Checkpoints(run.recipe, folder, trainer, screen, ranks)
        self._measured = run.measured_tasks()
        self._writers: dict[int, TrajectoryWriter] = {}
        self._num_openings: dict[str, int] = {}

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    # --- playing -----------------------------------------------------------------------------------------

    def new_collector(self, step: int, starts: PlanStarts, temperatures: FamilyTemperatures) -> Collector:
        """A collector seeded by the step, so that a task drawn again gets new samples."""
        return self.bench.collector(
            temperature=self.recipe.temperature_at(step),
            factor=temperatures.factor,
            seed=step_seed(self.recipe.seed, step),
            num_given=starts.num_given,
        )

    def showing(self, progress: Progress) -> contextlib.AbstractAsyncContextManager[None]:
        """Show the progress of a step's episodes while the block runs."""
        num_groups = len(rank_share(self.ranks, self.recipe.run.tasks_per_step))
        num_episodes = num_groups * self.recipe.rollout.group_size
        return self.screen.playing(progress, num_episodes)

    def keep_group(self, step: int, group: Group) -> None:
        """Write a group to disk as soon as it is complete, so that a kill loses nothing that was played."""
        if not self.folder.is_written_here:
            return
        if step not in self._writers:
            self._writers[step] = TrajectoryWriter(self.folder.trajectories(step))
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
            self._writers[step].write(StoredEpisode(trajectory, reward, step))
        rewards = [reward.total for reward in group.rewards]
        logger.debug("step %d: task %s earned %s", step + 1, group.task.id, rewards)

    def log_rollouts(self, batch: CollectedBatch) -> dict[str, float]:
        if batch.step in self._writers:
            self._writers.pop(batch.step).close()
        figures = rollout_figures(batch.played, batch.progress, batch.seconds) | self._breakers()
        figures |= drawing_figures(batch.played, batch.predicted) | self._epoch(batch.step)
        self.folder.log(batch.step, "rollout", figures)
        self.folder.trackers.episodes(batch.step, batch.played, succeeded)
        if batch.step == 0:
            self._diagnose(batch.played)
        return figures

    def _diagnose(self, played: Sequence[Group]) -> None:
        """Say what keeps the first episodes from succeeding, if none did."""
        first = examine_first(
            [
                (trajectory, succeeded(trajectory, reward))
                for group in played
                for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)
            ]
        )
        if first.cannot_learn:
            is_shown = any(task.demonstration for task in self.train_tasks)
            remedy = first.remedy(self.recipe, has_demonstrations=is_shown)
            self.screen.say(f"{first}\n  {remedy}", "yellow", level=logging.WARNING)

    def _epoch(self, step: int) -> dict[str, float]:
        """The epoch, if the recipe counts epochs."""
        run = self.recipe.run
        if run.num_epochs is None:
            return {}
        return {"run/epoch": float(run.epoch_of(step, len(self.train_tasks)))}

    def _breakers(self) -> dict[str, float]:
        """The state of the servers' breakers, and how often they opened since the last call."""
        breakers = self.bench.pool.breakers
        figures = breaker_figures(breakers, self._num_openings)
        self._num_openings = {server: breaker.num_openings for server, breaker in breakers.items()}
        return of_all_ranks(self.ranks.exchange(figures))

    # --- learning ----------------------------------------------------------------------------------------

    async def learn(self, batch: CollectedBatch) -> StepResult:
        """Update the policy in a thread, so that the next batch can be collected meanwhile."""
        samples = samples_of(batch.groups)
        rescues = await self._rescues(batch)
        if self.recipe.run.mode == "sync" and isinstance(self.bench.engine, SleepingEngine):
            await self.bench.engine.sleep()  # the publication after the update wakes it
        result = await run_detached(self._update, batch, samples, rescues.lessons)
        return replace(result, metrics=result.metrics | rescues.figures)

    async def _rescues(self, batch: CollectedBatch) -> StepRescues:
        imitation = self.recipe.imitation
        if imitation.lessons != "rescues" or not weight_at(imitation, batch.step):
            return StepRescues((), {})
        return await rescues_of(self.bench, batch.played, LESSONS_PER_STEP, self.ranks)

    def _update(
        self, batch: CollectedBatch, samples: Sequence[Sample], rescues: Sequence[Sample]
    ) -> StepResult:
        step = batch.step
        # seeded by the step, so that a resumed run draws the same numbers as an unbroken one
        torch.manual_seed(step_seed(self.recipe.seed, step))
        result = self.trainer.update(samples, step=step, imitation=self._lessons(step, rescues))
        if result.tokens and self.folder.is_written_here:
            members = (member for group in batch.groups for member in group.trajectories)
            episodes = [member.episode_id for member in members]
            write_tokens(self.folder.tokens(step), step, episodes, result.tokens)
        if batch.played and not batch.groups:
            num_flat = len(batch.played)
            result = replace(result, skipped=f"in each of the {num_flat} groups all rewards were equal")
        return result

    def _lessons(self, step: int, rescues: Sequence[Sample]) -> list[Sample]:
        chosen = list(rescues)
        if self.lessons and weight_at(self.recipe.imitation, step):
            first = step * LESSONS_PER_STEP
            chosen = [self.lessons[(first + i) % len(self.lessons)] for i in range(LESSONS_PER_STEP)]
        return chosen

    def _publish(self) -> Coroutine[Any, Any, None]:
        """A coroutine that publishes the current weights, copied if the next update runs meanwhile."""
        policy, version = self.trainer.policy, self.trainer.version
        if self._publishes_concurrently:
            return self.bench.engine.publish(policy.adapter().copy(), version)
        return self._publish_gathered(version)

    async def _publish_gathered(self, version: int) -> None:
        policy = self.trainer.policy
        with policy.gathered():
            weights = policy.adapter() if self.recipe.publishes_adapters else policy.weights()
            await self.bench.engine.publish(weights, version)

    @property
    def _publishes_concurrently(self) -> bool:
        """Whether the next update may run during a publication: only adapters are small enough to copy."""
        recipe = self.recipe
        return recipe.run.mode == "async" and recipe.publishes_adapters and self.ranks.count == 1

    def log_update(
        self,
        batch: CollectedBatch,
        played: Mapping[str, float],
        falls: Watched,
        result: StepResult,
        publish_seconds: float,
    ) -> tuple[dict[str, float], list[Alarm]]:
        """Log the update's figures; return the figures of the whole step and the alarms that they raise."""
        learned = {
            **result.metrics,
            "falls/evidence": falls.evidence,
            "time/publish_seconds": publish_seconds,
            **of_all_ranks(self.ranks.exchange(measure_memory() | self.gpu.figures())),
        }
        figures = {**learned, **played}
        details = {"family_fall": falls.detail, "lost_family": most_lost(batch.progress.attempts)}
        if result.mismatch is not None:
            details["alignment"] = self._described(batch, result.mismatch)
        alarms = find_alarms(figures, self.recipe, details)
        self.folder.log(batch.step, "update", learned, histograms=result.histograms, alarms=alarms)
        self.screen.learned(batch.step, figures, alarms, result.skipped)
        return figures, alarms

    def _described(self, batch: CollectedBatch, found: TokenMismatch) -> str:
        """Describe the token: its episode, turn, position and both log-probs."""
        members = [member for group in batch.groups for member in group.trajectories]
        return (
            f"first at token {found.token_id} ({self.bench.chat.decode([found.token_id])!r}), position "
            f"{found.position} of episode {members[found.row].episode_id}, turn {found.turn + 1}: log-prob "
            f"{found.sampler_logprob:.3f} as sampled, {found.trainer_logprob:.3f} in the trainer"
        )

    # --- measuring ---------------------------------------------------------------------------------------

    async def measure_once(self, name: str) -> EvaluationReport | None:
        """Evaluate the held-out tasks before or after training; a resumed run reads an existing report."""
        tasks = self._measured.get("test")
        if tasks is None:
            return None
        out = self.folder.evaluations / f"{name}.json"
        if first_rank_value(self.ranks, out.exists()):
            return read_report(out)
        num_done = 0 if name == "before" else self.recipe.run.num_steps
        return await self._measure(tasks, out, f"the held-out tasks, {name}", name, num_done)

    async def validated(self, progress: RunProgress) -> tuple[RunProgress, dict[str, float], list[Alarm]]:
        """Run the validation if it is due; return the progress after it, its figures and its alarms."""
        every, tasks = self.recipe.evaluation.every, self._measured.get("validation")
        is_last = progress.next_step == self.recipe.run.num_steps
        if tasks is None or (progress.next_step % every and not is_last):
            return progress, {}, []
        out = self.folder.evaluations / f"step-{progress.next_step:06d}.json"
        report = await self._measure(tasks, out, "the validation tasks", "validation", progress.next_step)
        overall = summarise(report.episodes)
        success = overall.success.value
        figures = {
            "validation/success": success,
            "validation/repeating_share": overall.repeating_share,
            "time/validation_seconds": report.seconds,
        }
        progress, falls = progress.validated(report)
        figures["validation/fall_evidence"] = falls.evidence
        figures["validation/success_at_least"] = report.success_at_least
        details = {"validation_fall": falls.detail, "lost_family": most_lost(report.attempts)}
        alarms = find_alarms(figures | loss_figures(report.attempts), self.recipe, details)
        self.folder.log(progress.next_step - 1, "validation", figures, alarms=alarms)
        self.screen.warn(alarms)
        return progress, figures, alarms

    async def _measure(
        self, tasks: Sequence[Task], out: Path, what: str, name: str, num_done: int
    ) -> EvaluationReport:
        await self.publishing.finish()
        settings = self.recipe.evaluation
        collector = self.bench.collector(
            group_size=settings.num_samples,
            temperature=settings.temperature,
            seed=self.recipe.seed,
            is_evaluation=True,
        )
        trackers, played = self.folder.trackers, list[Group]()

        def keep(group: Group) -> None:
            if len(played) < trackers.episodes_per_evaluation:
                played.append(group)

        report = await measure(
            collector,
            tasks,
            out=out,
            model=f"{self.recipe.model.path}, version {self.trainer.version}",
            num_samples=settings.num_samples,
            temperature=settings.temperature,
            shown=self.screen.playing,
            on_group=keep,
            ranks=self.ranks,
        )
        if is_first(self.ranks):
            write_report(report, out)
        trackers.evaluation(name, num_done, report.model, evaluation_figures(report), played, succeeded)
        self.screen.measured(what, report)
        return report

    # --- keeping -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def saving_if_lost(self, progress: RunProgress) -> Iterator[None]:
        """Save a checkpoint if collecting fails for good, so that no finished update is lost."""
        try:
            yield
        except CollectionFailed:
            self.checkpoints.save(progress)
            self.folder.log(progress.next_step, "lost", self._breakers())  # a resumed run plays it again
            raise
