"""Samples drawn at random, with shared prefixes, and tiny models whose scores they are held against."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from tests.engines.models import VOCAB, llama, qwen3
from turnwise.training.packing.samples import Sample

OWN, GIVEN = 1, 0


def gpt_neox() -> Any:
    """Biases, partial rotary positions, parallel residual, one key head a query head."""
    torch.manual_seed(2)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = GPTNeoXConfig(
        vocab_size=VOCAB, max_position_embeddings=1024, initializer_range=0.2, bos_token_id=None, **sizes
    )
    return GPTNeoXForCausalLM(config).eval()


MODELS = {"qwen3": qwen3, "llama": llama, "gpt_neox": gpt_neox}


def sample(*parts: tuple[int, Sequence[int]], group: int = 0, reward: float = 0.0) -> Sample:
    """(is own, ids) one after the other."""
    ids = tuple(token for _, part in parts for token in part)
    mask = tuple(is_own for is_own, part in parts for _ in part)
    turns, turn = [], -1
    for is_own, part in parts:
        turn += is_own
        turns += [turn if is_own else -1] * len(part)
    return Sample(
        token_ids=ids,
        loss_mask=mask,
        logprobs=(0.0,) * len(ids),
        turns=tuple(turns),
        group=group,
        task_id=f"task {group}",
        reward=reward,
        turn_rewards=(0.0,) * turn + (reward,),
        is_truncated=False,
        policy_version=0,
    )


def family(seed: int = 0, *, prefix: int = 60) -> list[Sample]:
    """Two groups with one system prompt: members of one and two turns, some alike up to their middle."""
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
    found.append(found[2])  # twice the same
    return found


def plain_scores(
    model: Any, one: Sample, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probs, entropies and source hidden states of one sample's own tokens, by the whole model alone."""
    ids = torch.tensor([one.token_ids])
    output = model(ids, output_hidden_states=True)
    own = torch.tensor([place for place, is_own in enumerate(one.loss_mask) if is_own])
    logprobs = (
        output.logits[0, own - 1].to(torch.promote_types(output.logits.dtype, torch.float32)) / temperature
    )
    logprobs = logprobs.log_softmax(-1)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    chosen = logprobs.gather(1, ids[0, own, None])[:, 0]
    return chosen, entropy, output.hidden_states[-1][0, own - 1]


def plain_rows(model: Any, samples: Sequence[Sample], temperature: float = 1.0) -> tuple[torch.Tensor, ...]:
    """The same for all, as [B, T], zero where there is no token."""
    scores = [plain_scores(model, one, temperature)[:2] for one in samples]
    return tuple(
        torch.nn.utils.rnn.pad_sequence(list(column), batch_first=True)
        for column in zip(*scores, strict=True)
    )
