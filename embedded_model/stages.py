"""Train a policy in several stages, and resume after an interruption."""

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update import checkpoint
from turnwise.training.update.imitation import cross_entropy, num_own_tokens
from turnwise.training.update.optimizer import Optimizer

Say = Callable[[str], None]

Part = tuple[list[Sample], bool]
"""Samples, and whether they share a prefix that is computed once."""

SAVE_EVERY = 250
"""Steps between checkpoints."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Training steps whose learning rate rises over 30 steps, stays constant, and falls to a fifth."""

    num_steps: int
    learning_rate: float
    samples_per_step: int

    def rate(self, step: int) -> float:
        rise, left = (step + 1) / 30, (self.num_steps - step) / self.num_steps
        return self.learning_rate * min(1.0, rise) * min(1.0, 0.2 + left / 0.4)


@dataclass(frozen=True, slots=True)
class Course:
    """A stage and its batches."""

    name: str
    stage: Stage
    steps: Callable[[], Iterable[Sequence[Part]]]
    """The batches from the first step on; equal for every call."""
    worst_loss: float = math.inf
    """Maximum mean loss of the last 50 steps; above it the build fails."""


class Learner:
    """Trains all courses with one optimizer."""

    def __init__(self, policy: Policy, folder: Path, say: Say) -> None:
        self._policy = policy
        self._optimizer = Optimizer(policy.trainable, {}, weight_decay=0.01, betas=(0.9, 0.98))
        self._folder = folder
        self._say = say
        self._started = time.perf_counter()

    def learn(self, courses: Sequence[Course], inputs: str) -> None:
        """Train all remaining courses; `inputs` is a digest of all else that determines the weights."""
        digests = [digest_of(inputs, *map(repr, _facts(courses[: n + 1]))) for n in range(len(courses))]
        starts = [sum(course.stage.num_steps for course in courses[:n]) for n in range(len(courses))]
        done = self._resume(courses, digests, starts)
        for course, digest, start in zip(courses, digests, starts, strict=True):
            if done < start + course.stage.num_steps:
                self._learn(course, digest, start, max(done - start, 0))

    def _learn(self, course: Course, digest: str, start: int, first: int) -> None:
        losses: list[float] = []
        num_steps = course.stage.num_steps
        steps = itertools.islice(course.steps(), first, num_steps)
        for number, parts in enumerate(steps, first + 1):
            losses.append(self._step(parts, course.stage.rate(number - 1)))
            is_last = number == num_steps
            if number % 50 == 0 or is_last:
                loss = sum(losses[-50:]) / len(losses[-50:])
                minutes = (time.perf_counter() - self._started) / 60
                self._say(f"{course.name} {number}/{num_steps}: {loss:.4f} nats per token, {minutes:.1f} min")
                if is_last and loss > course.worst_loss:
                    raise ValueError(
                        f"{course.name} were not learned: {loss:.2f} nats per token; try another seed"
                    )
            if number % SAVE_EVERY == 0 or is_last:
                tensors = {**self._policy.state(), **self._optimizer.tensors()}
                checkpoint.save(self._folder, start + number, tensors, {"digest": digest})
                checkpoint.prune(self._folder, 1, best=start)

    def _step(self, parts: Sequence[Part], rate: float) -> float:
        """One optimizer step, in which later parts have half weight; returns the loss of the first part."""
        first = 0.0
        for number, (batch, is_shared) in enumerate(parts):
            scores = self._policy.score(batch, is_shared=is_shared, with_entropy=False).brought()
            loss = cross_entropy(scores.logprobs_BT, scores.mask_BT, num_own_tokens(batch))
            self._optimizer.learn(loss * 0.5 if number else loss)
            first = first if number else float(loss.detach())
        self._optimizer.step(self._optimizer.norms(), policy_rate=rate)
        return first

    def _resume(self, courses: Sequence[Course], digests: Sequence[str], starts: Sequence[int]) -> int:
        """Load the last checkpoint that belongs to this build; returns the number of its steps, or 0."""
        of_digest = dict(zip(digests, zip(courses, starts, strict=True), strict=True))
        for found in checkpoint.readable(self._folder):
            if found.facts["digest"] not in of_digest:
                continue  # from another plan, or from a stage that has changed
            course, start = of_digest[found.facts["digest"]]
            state = self._policy.learning
            self._policy.load_state({name: found.tensors[name] for name in state})
            moments = {name: tensor for name, tensor in found.tensors.items() if name not in state}
            self._optimizer.restore(moments)
            self._say(f"resuming after {course.name} {found.step - start}/{course.stage.num_steps}")
            return found.step
        return 0


def digest_of(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _facts(courses: Sequence[Course]) -> list[tuple[str, Stage]]:
    return [(course.name, course.stage) for course in courses]
