"""A small policy in the sizes of a large model: the same distribution, and nothing on tokens it lacks."""

import sys
from pathlib import Path

import pytest
import torch

from turnwise.config import ModelConfig
from turnwise.setup.bench import load_model

RACE = Path(__file__).parents[2] / "benchmarks" / "race"


@pytest.mark.parametrize(("num_heads", "is_tied"), [(16, True), (32, False)])
def test_a_grown_model_has_the_distribution_of_the_small_one(num_heads: int, is_tied: bool) -> None:
    sys.path.insert(0, str(RACE))
    try:
        from grown import grown
    finally:
        sys.path.remove(str(RACE))
    small = load_model(ModelConfig(path="embedded", dtype="float32"))
    sizes = {"vocab_size": 3000, "hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 6}
    sizes |= {"num_attention_heads": num_heads, "num_key_value_heads": 16, "head_dim": 128}
    large = grown(small, {**sizes, "tie_word_embeddings": is_tied})
    ids = torch.randint(0, small.config.vocab_size, (2, 100), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before, after = (model(ids).logits.log_softmax(-1) for model in (small, large))
    known = after[..., : small.config.vocab_size]
    assert (before.exp() * (before - known)).sum(-1).abs().max() < 1e-4
    assert after[..., small.config.vocab_size :].max() < -50
