"""Samples made from token ids, and their scores by a model's own forward pass."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.engines.models import VOCAB
from turnwise.training.packing.samples import Sample

OWN, GIVEN = 1, 0


def sample(*parts: tuple[int, Sequence[int]], reward: float = 0.0, **fields: Any) -> Sample:
    """A sample of parts, OWN or GIVEN, with their ids; the reward is paid on the last turn."""
    ids = tuple(token for _, part in parts for token in part)
    turns, turn = [], -1
    for is_own, part in parts:
        turn += is_own
        turns += [turn if is_own else -1] * len(part)
    given = {
        "logprobs": (0.0,) * len(ids),
        "group": 0,
        "turn_rewards": (0.0,) * turn + (reward,),
        "is_truncated": False,
        "policy_version": 0,
    } | fields
    return Sample(
        token_ids=ids,
        loss_mask=tuple(is_own for is_own, part in parts for _ in part),
        turns=tuple(turns),
        task_id=f"task {given['group']}",
        reward=reward,
        **given,
    )


def family(seed: int = 0, *, prefix: int = 60) -> list[Sample]:
    """Two groups with one system prompt: members of one and two turns, some equal up to their middle."""
    source = random.Random(seed)

    def some(count: int) -> list[int]:
        return [source.randrange(VOCAB) for _ in range(count)]

    system, found = some(prefix), []
    for group in range(2):
        prompt, alike = [*system, *some(7 + 20 * group)], some(30)
        found += [
            sample((GIVEN, prompt), (OWN, some(5)), group=group),
            sample((GIVEN, prompt), (OWN, some(20)), (GIVEN, some(11)), (OWN, some(3)), group=group),
            # the same own tokens after the same prompt: one position, gradients of both
            sample((GIVEN, prompt), (OWN, [*alike, *some(9)]), group=group),
            sample((GIVEN, prompt), (OWN, alike), (GIVEN, some(4)), (OWN, some(140)), group=group),
        ]
    found.append(sample((GIVEN, some(9)), (OWN, some(2)), group=2))  # nothing in common
    found.append(found[2])  # a duplicate
    return found


def plain_logprobs(model: Any, token_ids: Sequence[int]) -> Tensor:
    """The log-probs of every token but the first, given the tokens before it."""
    logits_NV = model(torch.tensor([token_ids])).logits[0].float()
    targets_N1 = torch.tensor(token_ids[1:])[:, None]
    return logits_NV[:-1].log_softmax(-1).gather(1, targets_N1)[:, 0]


def plain_rows(model: Any, samples: Sequence[Sample]) -> tuple[Tensor, ...]:
    """Log-probs and entropies of own tokens as [B, T], at the temperature of the row; 0 where no token is."""
    rows = []
    for one in samples:
        ids, own = torch.tensor(one.token_ids), torch.tensor(one.loss_mask).nonzero()[:, 0]
        logits = model(ids[None]).logits[0, own - 1]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logprobs = (logits / one.temperature).log_softmax(-1)
        entropy = -(logprobs.exp() * logprobs).sum(-1)
        rows.append((logprobs.gather(1, ids[own, None])[:, 0], entropy))
    pad = torch.nn.utils.rnn.pad_sequence
    return tuple(pad(list(column), batch_first=True) for column in zip(*rows, strict=True))
