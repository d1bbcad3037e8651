"""Log-probs and entropies in chunks are those of the whole logits, in values and in gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from turnwise.training.packing.head import Head, Room, choices, score

NUM, DIM, VOCAB = 40, 8, 50


def drawn(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    return {"hidden_ND": draw(NUM, DIM), "weight_VD": draw(VOCAB, DIM), "bias_V": draw(VOCAB)}


# positions out of order, one of them for two tokens, and one pair asked for twice
SOURCE = torch.tensor([30, 3, 3, 9, 12, 31, 9, 0, 39])
TARGET = torch.tensor([1, 49, 7, 0, 22, 22, 0, 11, 5])


def plain(tensors: dict[str, Tensor], head: dict[str, Any]) -> tuple[Tensor, Tensor]:
    logits = tensors["hidden_ND"][SOURCE] @ tensors["weight_VD"].T + tensors["bias_V"]
    if head.get("softcap") is not None:
        logits = head["softcap"] * torch.tanh(logits / head["softcap"])
    logprobs = (logits / head.get("temperature", 1.0)).log_softmax(-1)
    return logprobs.gather(1, TARGET[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def chunked(tensors: dict[str, Tensor], head: dict[str, Any]) -> tuple[Tensor, Tensor]:
    made = Head(tensors["weight_VD"], tensors["bias_V"], **head)
    return score(tensors["hidden_ND"], made, choices(SOURCE, TARGET))


@pytest.mark.parametrize("max_logits", [1, 3 * VOCAB, 1 << 24], ids=["one row", "three rows", "all"])
@pytest.mark.parametrize("head", [{}, {"temperature": 0.7}, {"temperature": 1.3, "softcap": 2.0}])
@pytest.mark.parametrize("uses", ["logprobs", "entropy", "both"])
def test_values_and_gradients_are_those_of_the_whole_logits(
    max_logits: int, head: dict[str, Any], uses: str
) -> None:
    results = []
    for compute, options in ((plain, head), (chunked, {**head, "room": Room(max_logits, 1 << 22)})):
        tensors = drawn()
        logprobs, entropy = compute(tensors, options)
        weights = torch.linspace(-1, 2, len(SOURCE), dtype=torch.float64)
        loss = torch.zeros((), dtype=torch.float64)
        if uses != "entropy":
            loss = loss + (logprobs * weights).sum()
        if uses != "logprobs":
            loss = loss + (entropy * weights.flip(0) ** 2).sum()
        results.append([logprobs, entropy, *torch.autograd.grad(loss, list(tensors.values()))])
    for one, other in zip(*results, strict=True):
        assert (one - other).abs().max() < 1e-12


def test_its_gradients_are_those_of_small_differences() -> None:
    tensors = drawn()

    def compute(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        return chunked(
            dict(zip(tensors, inputs, strict=True)), {"temperature": 0.9, "room": Room(2 * VOCAB, 1 << 22)}
        )

    assert gradcheck(compute, tuple(tensors.values()))


def test_positions_that_predict_nothing_have_exactly_no_gradient() -> None:
    tensors = drawn(torch.float32)
    logprobs, entropy = chunked(tensors, {})
    (logprobs.sum() + entropy.sum()).backward()
    grad = tensors["hidden_ND"].grad
    assert grad is not None
    is_used = torch.zeros(NUM, dtype=torch.bool)
    is_used[SOURCE] = True
    assert (grad[~is_used] == 0).all()
    assert (grad[is_used] != 0).any(1).all()


def test_each_position_and_each_pair_is_computed_once() -> None:
    asked = choices(SOURCE, TARGET)
    assert asked.source_U.tolist() == [0, 3, 9, 12, 30, 31, 39]
    assert len(asked.target_Q) == 8


def test_all_the_logits_never_exist_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    whole = Head.logits

    def watched(self: Head, hidden_UD: Tensor) -> Tensor:
        logits_UV = whole(self, hidden_UD)
        sizes.append(logits_UV.numel())
        return logits_UV

    monkeypatch.setattr(Head, "logits", watched)
    tensors = drawn()
    logprobs, _ = chunked(tensors, {"room": Room(2 * VOCAB, 1 << 22)})
    assert len(sizes) == 4  # seven positions, two at a time
    logprobs.sum().backward()
    assert len(sizes) == 8
    assert max(sizes) == 2 * VOCAB
    logprobs, _ = chunked(tensors, {})
    logprobs.sum().backward()
    assert len(sizes) == 9  # few enough to be kept, not computed again


def test_half_precision_takes_its_softmax_in_single() -> None:
    tensors = drawn(torch.bfloat16)
    logprobs, entropy = chunked(tensors, {})
    assert logprobs.dtype == entropy.dtype == torch.float32
    logits = (tensors["hidden_ND"][SOURCE] @ tensors["weight_VD"].T + tensors["bias_V"]).float()
    expected = logits.log_softmax(-1).gather(1, TARGET[:, None])[:, 0]
    assert (logprobs - expected).abs().max() < 0.05


def test_nothing_asked_for_gives_nothing_and_still_has_a_gradient() -> None:
    tensors = drawn()
    none = torch.empty(0, dtype=torch.long)
    logprobs, entropy = score(tensors["hidden_ND"], Head(tensors["weight_VD"], None), choices(none, none))
    assert logprobs.shape == entropy.shape == (0,)
    logprobs.sum().backward()
    assert (tensors["hidden_ND"].grad == 0).all()


def test_a_token_ruled_out_does_not_make_the_entropy_nan() -> None:
    tensors = drawn()
    with torch.no_grad():
        tensors["bias_V"][4] = -torch.inf
    logprobs, entropy = chunked(tensors, {})
    (logprobs.sum() + entropy.sum()).backward()
    assert entropy.isfinite().all()
    assert tensors["hidden_ND"].grad is not None
    assert tensors["hidden_ND"].grad.isfinite().all()
