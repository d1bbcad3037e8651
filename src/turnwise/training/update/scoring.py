"""Scores of any number of samples, in micro-batches within a token budget.

With several ranks, each runs its share of the micro-batches. Passes over a whole batch give every rank the
scores of all samples.
"""

import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from turnwise.system.ranks import ALONE, Ranks
from turnwise.training.packing.batch import Batch, widened
from turnwise.training.packing.layout import common_prefix
from turnwise.training.packing.microbatches import are_one, microbatches
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import POLICY, Carried, Policy, Scores
from turnwise.training.policy.reference import Reference

MIN_CARRIED = 64
"""A shorter common prefix is computed in every micro-batch: carrying it costs each sample one more token."""

SHORT_TOKENS = 4096
"""Launching a pass over at most this many tokens takes longer than a GPU needs to run it."""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Measured:
    """Scores of a whole batch, without gradients."""

    logprobs_BT: Tensor
    values_BT: Tensor | None
    bootstrap_B: Tensor | None


@dataclass(frozen=True, slots=True)
class Round:
    """One micro-batch of this rank; meanwhile every other rank runs one of its own."""

    rows: Sequence[int]
    is_counted: bool = True
    """False for a filler: with sharded weights, every rank must run the same number of rounds."""


class Pass:
    """A pass over samples in micro-batches; the weights must not change until it is over.

    If it pays, the samples' common prefix was run beforehand; its graph waits for their gradients.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        rounds: Sequence[Round],
        ask: Callable[[Sequence[Sample]], Scores],
        carried: Carried | None,
    ) -> None:
        self.rounds = rounds
        self.num_computed = 0 if carried is None else carried.num_tokens
        """Tokens that the model has computed so far, padding included."""
        self._samples = samples
        self._ask = ask
        self._carried = carried

    @property
    def parts(self) -> list[Sequence[int]]:
        """Row numbers of each micro-batch that counts."""
        return [one_round.rows for one_round in self.rounds if one_round.is_counted]

    def score(self, part: Sequence[int]) -> Scores:
        """Score one micro-batch and bring the scores to the CPU; gradients follow the context."""
        return self._begun(part).brought()

    def score_all(self) -> list[tuple[Round, Scores]]:
        """Score every micro-batch; wait for the GPU only after all of them are launched."""
        begun = [(one_round, self._begun(one_round.rows)) for one_round in self.rounds]
        return [(one_round, scores.brought()) for one_round, scores in begun]

    def _begun(self, part: Sequence[int]) -> Scores:
        scores = self._ask([self._samples[row] for row in part])
        self.num_computed += scores.num_tokens
        return scores

    def backward(self) -> None:
        """Run the carried prefix backward; call it after the last micro-batch's own backward pass."""
        if self._carried is not None:
            self._carried.backward()


class Passes:
    """Forward passes over a whole batch without gradients, or over one micro-batch at a time with them."""

    def __init__(
        self,
        policy: Policy,
        *,
        tokens_per_microbatch: int,
        is_shared: bool = True,
        ranks: Ranks = ALONE,
        short_tokens: int | None = None,
    ) -> None:
        """short_tokens: the limit of `are_short`; by default it depends on the policy's device."""
        self._policy = policy
        by_device = SHORT_TOKENS if policy.device.type == "cuda" else 0
        self._short_tokens = by_device if short_tokens is None else short_tokens
        self._ranks = ranks
        self._tokens = tokens_per_microbatch
        self._is_lowered = False
        self._is_shared = is_shared and policy.can_share
        self._largest: Sequence[Sample] = ()
        """The samples of the last pass's largest micro-batch."""

    @property
    def lowered_tokens(self) -> int | None:
        """The budget after memory ran out; None if it never did."""
        return self._tokens if self._is_lowered else None

    def lower_to(self, tokens: int) -> None:
        """Lower the budget for good."""
        self._tokens, self._is_lowered = min(tokens, self._tokens), True

    def within_memory(self, run: Callable[[], Result], undo: Callable[[], None] = lambda: None) -> Result:
        """Call `run`; when memory runs out, call `undo`, lower the budget for good, and call it again.

        If it runs out on one rank, all ranks repeat the pass: they must agree on the micro-batches.
        """
        while True:
            done: list[Result] = []
            try:
                done.append(run())
            except torch.OutOfMemoryError as error:
                self._check_can_lower(error)
            # Only here, past the handler: the error's frames held the tensors of the failed attempt.
            if self._policy.is_sharded or all(self._ranks.exchange(bool(done))):
                return done[0]
            done.clear()
            self._lower_budget()
            undo()
            gc.collect()
            torch.cuda.empty_cache()

    def _check_can_lower(self, error: torch.OutOfMemoryError) -> None:
        """Raise the error again, with advice, if smaller micro-batches do not help or cannot be agreed on."""
        if self._policy.is_sharded:  # the other ranks wait inside a layer of this pass
            error.add_note(
                "a sharded pass cannot be repeated: resume the run with "
                f"--set update.tokens_per_microbatch={max(self._tokens // 2, 1)}"
            )
            raise error
        if len(self._largest) < 2:
            error.add_note("one sample alone does not fit: set policy.gradient_checkpointing = true")
            raise error

    def _lower_budget(self) -> None:
        """Halve the budget until the largest micro-batch is split."""
        tokens = self._tokens
        while are_one(self._largest, tokens, is_shared=self._is_shared):
            tokens //= 2
        logger.warning("out of memory: from now on %d tokens per micro-batch, not %d", tokens, self._tokens)
        self.lower_to(tokens)

    def are_short(self, samples: Sequence[Sample], rows: Sequence[int]) -> bool:
        """Return whether one pass over all rows is faster than two passes, each over some of them."""
        if not self._short_tokens or self._ranks.count > 1:
            return False
        tokens = min(self._short_tokens, self._tokens)
        chosen = [samples[row] for row in rows]
        return are_one(chosen, tokens, is_shared=self._is_shared)

    def begin(
        self,
        samples: Sequence[Sample],
        *row_sets: Sequence[int],
        adapter: str = POLICY,
        parameters: Mapping[str, Tensor] | None = None,
        with_values: bool = False,
        with_entropy: bool = True,
    ) -> Pass:
        """Begin a pass over all samples, or these rows; rows of two sets are never in one micro-batch.

        The order of micro-batches depends on the samples' tokens alone. Ranks must all pass the same samples.
        """
        row_sets = row_sets or (range(len(samples)),)
        prefix = self._to_carry([samples[row] for rows in row_sets for row in rows])
        part_sets = [self._parts(samples, rows, len(prefix)) for rows in row_sets]
        chosen = [[samples[row] for row in part] for parts in part_sets for part in parts]
        self._largest = max(
            chosen, key=lambda part: sum(len(sample.token_ids) for sample in part), default=()
        )
        num_rounds = [-(-len(parts) // self._ranks.count) for parts in part_sets]
        rounds = [
            one_round
            for parts, count in zip(part_sets, num_rounds, strict=True)
            for one_round in self._rounds(samples, parts, count)
        ]
        carried = None
        if prefix and sum(num_rounds) > 1:
            carried = self._policy.carry(
                prefix, adapter=adapter, parameters=parameters, with_values=with_values
            )
        ask = partial(
            self._policy.score,
            adapter=adapter,
            parameters=parameters,
            with_values=with_values,
            with_entropy=with_entropy,
            is_shared=self._is_shared,
            carried=carried,
        )
        return Pass(samples, rounds, ask, carried)

    def _rounds(
        self, samples: Sequence[Sample], parts: Sequence[Sequence[int]], num_rounds: int
    ) -> list[Round]:
        """Return this rank's share of the parts; with sharded weights, filled up to `num_rounds`."""
        own = [Round(part) for part in parts[self._ranks.number :: self._ranks.count]]
        if self._policy.is_sharded and len(own) < num_rounds:
            rows = [row for part in parts for row in part]
            shortest = min(rows, key=lambda row: (len(samples[row].token_ids), row))
            own += [Round([shortest], is_counted=False)] * (num_rounds - len(own))
        return own

    def _to_carry(self, samples: Sequence[Sample]) -> tuple[int, ...]:
        """Return the common prefix to run once for several micro-batches; empty if that does not pay."""
        if not samples or not self._is_shared or not self._policy.can_share:
            return ()
        prefix = common_prefix(samples)
        return prefix if len(prefix) >= MIN_CARRIED else ()

    def _parts(self, samples: Sequence[Sample], rows: Sequence[int], num_carried: int) -> list[list[int]]:
        chosen = [samples[row] for row in rows]
        places = microbatches(
            chosen,
            self._tokens,
            is_shared=self._is_shared,
            num_carried=num_carried,
            num_ranks=self._ranks.count,
        )
        return [[rows[place] for place in part] for part in places]

    def measure(self, batch: Batch, *, with_values: bool = False) -> Measured:
        """Score the whole batch with the current policy."""
        return self._score_rows(batch, range(batch.num_rows), with_values=with_values)

    def logprobs_of(self, batch: Batch, rows: Sequence[int]) -> Tensor:
        """Return the current policy's log-probs of these rows; 0 in all other rows."""
        logprobs_BT = torch.zeros_like(batch.sampler_logprobs_BT)
        logprobs_BT[list(rows)] = self._score_rows(batch, rows).logprobs_BT.to(logprobs_BT.dtype)
        return logprobs_BT

    def measure_reference(self, batch: Batch, reference: Reference) -> Tensor:
        rows, parameters = range(batch.num_rows), reference.parameters()
        if self._policy.is_sharded and parameters is not None:
            with self._policy.lending(parameters):
                return self._score_rows(batch, rows).logprobs_BT
        return self._score_rows(batch, rows, adapter=reference.adapter, parameters=parameters).logprobs_BT

    @torch.no_grad()
    def _score_rows(self, batch: Batch, rows: Sequence[int], **options: Any) -> Measured:
        """Score these rows, in their order; options are those of `begin`."""
        scored = self.within_memory(
            lambda: self.begin(batch.samples, rows, with_entropy=False, **options).score_all()
        )
        place = {row: number for number, row in enumerate(rows)}
        shape = (len(rows), batch.mask_BT.shape[1])
        logprobs_BT = torch.zeros(shape, dtype=self._policy.exact_dtype)
        values_BT, bootstrap_B = torch.zeros(shape), torch.zeros(len(rows))
        for one_round, scores in scored:
            if not one_round.is_counted:
                continue
            here = [place[row] for row in one_round.rows]
            logprobs_BT[here] = widened(scores.logprobs_BT, shape[1])
            if scores.values_BT is not None and scores.bootstrap_B is not None:
                values_BT[here] = widened(scores.values_BT, shape[1])
                bootstrap_B[here] = scores.bootstrap_B
        has_values = options.get("with_values", False)
        # every row was scored by one rank, and is 0 on the others
        self._ranks.add_up([logprobs_BT, values_BT, bootstrap_B] if has_values else [logprobs_BT])
        return Measured(logprobs_BT, values_BT if has_values else None, bootstrap_B if has_values else None)
