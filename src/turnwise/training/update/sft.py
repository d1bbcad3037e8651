"""Supervised fine-tuning of a policy on demonstrations."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from turnwise.config import Recipe, SftConfig
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update.imitation import cross_entropy, num_own_tokens
from turnwise.training.update.optimizer import Optimizer, learning_rate, scale_of
from turnwise.training.update.scoring import Passes

LOWEST_RATE = 0.1
"""The cosine schedule ends at this fraction of the peak."""
MAX_WARMUP_STEPS = 10
"""The learning rate rises over the first tenth of the steps, at most this many."""
_NUM_LINES = 20
"""Lines of progress."""


@dataclass(frozen=True, slots=True)
class SftStep:
    """The figures of one optimizer step."""

    step: int
    """Counted from 0."""
    num_steps: int
    """The total number of steps."""
    loss: float
    """Nats per own token, before the step."""
    gradient_norm: float
    """Before clipping."""
    learning_rate: float
    num_tokens: int
    """Own tokens only."""
    num_samples: int
    seconds: float

    @property
    def is_shown(self) -> bool:
        """Whether progress has a line for it: about twenty lines for any number of steps."""
        is_last = self.step + 1 == self.num_steps
        return is_last or self.step % -(-self.num_steps // _NUM_LINES) == 0


@dataclass(frozen=True, slots=True)
class SftPart:
    """A micro-batch of a step that is learned; on a slow machine one step takes minutes."""

    step: int
    """Counted from 0."""
    num_steps: int
    share_of_step: float
    seconds: float
    """Since the first step began."""

    @property
    def seconds_left(self) -> float:
        """By the pace so far."""
        done = (self.step + self.share_of_step) / self.num_steps
        return self.seconds * (1 - done) / done


def fine_tune(policy: Policy, samples: Sequence[Sample], recipe: Recipe) -> list[SftStep]:
    """Train on the samples for sft.num_epochs, as `fine_tuning` does."""
    return list(fine_tuning(policy, samples, recipe))


def fine_tuning(
    policy: Policy,
    samples: Sequence[Sample],
    recipe: Recipe,
    *,
    on_part: Callable[[SftPart], None] = lambda part: None,
) -> Iterator[SftStep]:
    """Yield each step once it is taken, for sft.num_epochs, in an order set by the seed.

    A step's loss is the mean over all own tokens of its samples, however they are laid out. Raises
    FloatingPointError, before the step is taken, if the gradient norm is not finite.
    """
    config, adamw, update = recipe.sft, recipe.optimizer, recipe.update
    taught = [sample for sample in samples if sample.num_own_tokens]
    if not taught:
        raise ValueError(f"samples: none of the {len(samples)} has a token to learn")
    passes = Passes(
        policy, tokens_per_microbatch=recipe.sizes.tokens_per_microbatch, is_shared=update.shared_prefix
    )
    optimizer = Optimizer(
        policy.trainable,
        {},
        max_gradient_norm=adamw.max_gradient_norm,
        weight_decay=adamw.weight_decay,
        betas=adamw.betas,
        epsilon=adamw.epsilon,
        scale=scale_of(policy.model.dtype),
        is_offloaded=recipe.sizes.offload,
    )
    num_steps = config.num_epochs * -(-len(taught) // config.samples_per_step)
    began = time.perf_counter()
    for number, chosen in enumerate(_draws(taught, config, recipe.seed)):
        rate = learning_rate(
            config.learning_rate,
            number,
            schedule="cosine",
            warmup_steps=min(MAX_WARMUP_STEPS, num_steps // 10),
            num_steps=num_steps,
            lowest=LOWEST_RATE,
        )
        started = time.perf_counter()

        def tell(share: float, number: int = number) -> None:
            on_part(SftPart(number, num_steps, share, time.perf_counter() - began))

        loss, norm = _step(passes, optimizer, chosen, rate, tell)
        seconds = time.perf_counter() - started
        yield SftStep(number, num_steps, loss, norm, rate, num_own_tokens(chosen), len(chosen), seconds)


def _draws(samples: Sequence[Sample], config: SftConfig, seed: int) -> Iterator[list[Sample]]:
    for epoch in range(config.num_epochs):
        order = list(samples)
        random.Random(f"{seed}/sft/{epoch}").shuffle(order)  # noqa: S311 (a shuffle, not a secret)
        for start in range(0, len(order), config.samples_per_step):
            yield order[start : start + config.samples_per_step]


def _step(
    passes: Passes,
    optimizer: Optimizer,
    samples: Sequence[Sample],
    rate: float,
    on_share: Callable[[float], None],
) -> tuple[float, float]:
    gather = partial(_gather, passes, optimizer, samples, on_share)
    loss = passes.within_memory(gather, undo=optimizer.clear)
    norms = optimizer.norms()
    if not norms.is_finite:
        optimizer.clear()
        raise FloatingPointError(f"loss {loss}, gradient norm {norms.policy}: lower sft.learning_rate")
    optimizer.step(norms, policy_rate=rate)
    return loss, norms.policy


def _gather(
    passes: Passes, optimizer: Optimizer, samples: Sequence[Sample], on_share: Callable[[float], None]
) -> float:
    """Run every micro-batch forward and backward; the optimizer then has the gradients of the loss."""
    num_tokens, loss = num_own_tokens(samples), 0.0
    run = passes.begin(samples)
    for number, part in enumerate(run.parts, start=1):
        live = run.score(part)
        share = cross_entropy(live.logprobs_BT, live.mask_BT, num_tokens)
        optimizer.learn(share)
        loss += float(share.detach())
        on_share(number / len(run.parts))
    optimizer.gather(run.backward)
    return loss
