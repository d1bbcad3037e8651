"""Log-probs under a grammar: renormalised over the allowed tokens, 0 where only one is allowed."""

import math

import pytest
import torch

from turnwise.algorithms.constrained import constrain

LOGITS = torch.tensor([[[0.7, 0.2, 0.1]]], dtype=torch.float64).log()


def test_the_allowed_part_is_renormalised() -> None:
    found = constrain(LOGITS, torch.tensor([[[True, True, False]]]))
    # the allowed mass is .9: .7/.9 and .2/.9
    assert found.logprobs_BTV[0, 0, :2].exp().tolist() == pytest.approx([0.7 / 0.9, 0.2 / 0.9], abs=1e-12)
    assert found.logprobs_BTV[0, 0, :2].exp().tolist() == pytest.approx([0.7778, 0.2222], abs=1e-4)
    assert found.logprobs_BTV[0, 0, 2] == -math.inf
    assert not found.is_forced_BT.any()


def test_one_allowed_token_is_forced_and_its_log_prob_is_0() -> None:
    found = constrain(LOGITS, torch.tensor([[[False, False, True]]]))
    assert found.logprobs_BTV[0, 0, 2] == 0.0
    assert found.is_forced_BT.all()


def test_disallowed_and_forced_tokens_have_no_gradient() -> None:
    logits = LOGITS.clone().repeat(1, 2, 1).requires_grad_(True)
    allowed = torch.tensor([[[True, True, False], [False, True, False]]])
    constrain(logits, allowed).logprobs_BTV[0, :, 1].sum().backward()
    assert logits.grad is not None
    assert logits.grad[0, 0].tolist() == pytest.approx([-0.7 / 0.9, 1 - 0.2 / 0.9, 0.0], abs=1e-12)
    assert logits.grad[0, 1].tolist() == [0.0, 0.0, 0.0]


def test_a_grammar_that_allows_everything_changes_nothing() -> None:
    found = constrain(LOGITS, torch.ones(1, 1, 3, dtype=torch.bool))
    assert found.logprobs_BTV.equal(LOGITS.log_softmax(dim=-1))


def test_a_grammar_that_allows_no_token_is_rejected() -> None:
    with pytest.raises(ValueError, match="allows no token"):
        constrain(LOGITS, torch.zeros(1, 1, 3, dtype=torch.bool))
