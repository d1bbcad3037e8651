"""Log-probs and entropies in chunks equal those of the whole logits, in values and in gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor

from turnwise.training.packing.head import Head, Room, choices, score

NUM, DIM, VOCAB = 40, 8, 50
# positions out of order, one of them for two tokens, and one pair twice
SOURCE = torch.tensor([30, 3, 3, 9, 12, 31, 9, 0, 39])
TARGET = torch.tensor([1, 49, 7, 0, 22, 22, 0, 11, 5])
ALIKE = torch.full((len(SOURCE),), 0.75)
# the pair that is there twice, and the position with two tokens, have two temperatures
MIXED = torch.tensor([1.0, 1.5, 0.75, 1.25, 1.0, 1.0, 1.5, 1.25, 1.0])


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states [N, D], the head's weight [V, D] and its bias [V]."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((NUM, DIM), (VOCAB, DIM), (VOCAB,))
    hidden, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in shapes
    )
    return hidden, weight, bias


def plain(hidden: Tensor, weight: Tensor, bias: Tensor, **head: Any) -> tuple[Tensor, Tensor]:
    logits = (hidden[SOURCE] @ weight.T + bias).to(torch.promote_types(hidden.dtype, torch.float32))
    if head.get("softcap") is not None:
        logits = head["softcap"] * torch.tanh(logits / head["softcap"])
    logprobs = (logits / head.get("temperature", torch.ones(len(SOURCE)))[:, None]).log_softmax(-1)
    return logprobs.gather(1, TARGET[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def chunked(
    hidden: Tensor, weight: Tensor, bias: Tensor, *, temperature: Tensor | None = None, **head: Any
) -> tuple[Tensor, Tensor]:
    return score(hidden, Head(weight, bias, **head), choices(SOURCE, TARGET, temperature))


@pytest.mark.parametrize("max_logits", [1, 3 * VOCAB, 1 << 24], ids=["one row", "three rows", "all"])
@pytest.mark.parametrize(
    "head",
    [{}, {"temperature": ALIKE}, {"temperature": MIXED}, {"temperature": MIXED, "softcap": 2.0}],
    ids=["plain", "one temperature", "several", "several, capped"],
)
def test_values_and_gradients_are_those_of_the_whole_logits(max_logits: int, head: dict[str, Any]) -> None:
    weights = torch.linspace(-1, 2, len(SOURCE), dtype=torch.float64)
    for weight_logprobs, weight_entropy in ((1, 0), (0, 1), (1, 1)):
        results = []
        for compute, more in ((plain, {}), (chunked, {"room": Room(max_logits, 1 << 22)})):
            tensors = drawn()
            logprobs, entropy = compute(*tensors, **head, **more)
            loss = weight_logprobs * (logprobs * weights).sum()
            loss = loss + weight_entropy * (entropy * weights.flip(0) ** 2).sum()
            results.append([logprobs, entropy, *torch.autograd.grad(loss, tensors)])
        for one, other in zip(*results, strict=True):
            assert (one - other).abs().max() < 1e-12


def test_positions_that_predict_nothing_have_exactly_no_gradient() -> None:
    hidden, *rest = drawn(torch.float32)
    logprobs, entropy = chunked(hidden, *rest)
    (logprobs.sum() + entropy.sum()).backward()
    assert hidden.grad is not None
    is_used = torch.zeros(NUM, dtype=torch.bool)
    is_used[SOURCE] = True
    assert (hidden.grad[~is_used] == 0).all()
    assert (hidden.grad[is_used] != 0).any(1).all()


def test_every_position_and_every_pair_is_computed_once() -> None:
    asked = choices(SOURCE, TARGET)
    assert asked.source_U.tolist() == [0, 3, 9, 12, 30, 31, 39]
    assert len(asked.target_Q) == 8
    assert asked.temperature_U is None


def test_a_position_is_computed_once_for_each_temperature_at_which_it_is_read() -> None:
    asked = choices(SOURCE, TARGET, MIXED)
    assert asked.temperature_U is not None
    places = list(zip(asked.source_U.tolist(), asked.temperature_U.tolist(), strict=True))
    assert places == [
        (0, 1.25), (3, 0.75), (3, 1.5), (9, 1.25), (9, 1.5), (12, 1.0), (30, 1.0), (31, 1.0), (39, 1.0)
    ]  # fmt: skip
    assert asked.source_P.tolist() == SOURCE.tolist()


def test_all_the_logits_never_exist_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    whole = Head.logits

    def watched(self: Head, hidden_UD: Tensor) -> Tensor:
        logits_UV = whole(self, hidden_UD)
        sizes.append(logits_UV.numel())
        return logits_UV

    monkeypatch.setattr(Head, "logits", watched)
    logprobs, _ = chunked(*drawn(), room=Room(2 * VOCAB, 1 << 22))
    assert len(sizes) == 4  # seven positions, two at a time
    logprobs.sum().backward()
    assert len(sizes) == 8
    assert max(sizes) == 2 * VOCAB
    logprobs, _ = chunked(*drawn())
    logprobs.sum().backward()
    assert len(sizes) == 9  # few enough to be kept, not computed again


def test_half_precision_takes_its_softmax_in_single_precision() -> None:
    found = chunked(*drawn(torch.bfloat16))
    for ours, theirs in zip(found, plain(*drawn(torch.bfloat16)), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).abs().max() < 0.05


def test_no_choices_give_no_scores_and_a_gradient_of_zero() -> None:
    hidden, weight, _ = drawn()
    none = torch.empty(0, dtype=torch.long)
    logprobs, entropy = score(hidden, Head(weight, None), choices(none, none))
    assert logprobs.shape == entropy.shape == (0,)
    logprobs.sum().backward()
    assert (hidden.grad == 0).all()


def test_an_impossible_token_does_not_make_the_entropy_nan() -> None:
    hidden, weight, bias = drawn()
    with torch.no_grad():
        bias[4] = -torch.inf
    logprobs, entropy = chunked(hidden, weight, bias)
    (logprobs.sum() + entropy.sum()).backward()
    assert entropy.isfinite().all()
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()
