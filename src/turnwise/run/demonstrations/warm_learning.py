"""Supervised learning step by step: in a thread, probed by episodes, and stopped between two steps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from turnwise.config import Recipe
from turnwise.run.demonstrations.warm_probes import WarmProbes
from turnwise.run.health.readiness import Probe, probe_steps, why_ready
from turnwise.system.terminal import counted
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update.sft import SftPart, SftStep, fine_tuning


class WarmLearning:
    """What a policy has learned so far; after a cancellation, too."""

    def __init__(
        self,
        policy: Policy,
        recipe: Recipe,
        on_step: Callable[[SftStep], None],
        on_part: Callable[[SftPart], None],
    ) -> None:
        self.steps: list[SftStep] = []
        """All steps, of demonstrations and of rescues."""
        self.probes: list[Probe] = []
        self.why = "it was stopped"
        """Why learning from demonstrations ended."""
        self._policy = policy
        self._recipe = recipe
        self._on_step = on_step
        self._on_part = on_part

    async def learn_until_taught(
        self, samples: Sequence[Sample], probes: WarmProbes | None, on_note: Callable[[str], None]
    ) -> list[SftStep]:
        """Learn the samples for sft.num_epochs, or until a probe shows that they have taught enough."""
        steps = []
        async for step in self._taken(samples):
            steps.append(step)
            if probes is None or len(steps) not in probe_steps(step.num_steps):
                continue
            if (probe := await probes.play(steps)) is not None:
                self.probes.append(probe)
                on_note(f"probe after {counted(probe.num_demonstrations, 'demonstration')}: {probe}")
                if why := why_ready(self.probes):
                    self.why = why
                    return steps
        self.why = f"all epochs are done ({self._recipe.sft.num_epochs})"
        return steps

    async def learn(self, samples: Sequence[Sample]) -> list[SftStep]:
        """Learn the samples for sft.num_epochs."""
        return [step async for step in self._taken(samples)]

    async def _taken(self, samples: Sequence[Sample]) -> AsyncIterator[SftStep]:
        """Yield each step once it is taken, in a thread; a cancellation waits for the step to end."""
        learning = fine_tuning(self._policy, samples, self._recipe, on_part=self._on_part)
        while True:
            taking = asyncio.ensure_future(asyncio.to_thread(_next, learning))
            try:
                step = await asyncio.shield(taking)
            except asyncio.CancelledError:
                await asyncio.wait([taking])
                if taking.exception() is None and (last := taking.result()) is not None:
                    self.steps.append(last)
                raise
            if step is None:
                return
            self.steps.append(step)
            self._on_step(step)
            yield step


def _next(learning: Iterator[SftStep]) -> SftStep | None:
    try:
        return next(learning, None)
    except FloatingPointError as error:
        raise ValueError(f"the update was not a number and was not made: {error}") from None
