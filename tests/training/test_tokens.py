"""The figures per token of an update agree with its metrics, and are limited in number and digits."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from tests.training.updates import centred, new_trainer, recipe_of, some_samples
from turnwise.training.packing.samples import Sample
from turnwise.training.update import tokens as of_tokens
from turnwise.training.update import trainer
from turnwise.training.update.tokens import Column, TokenFigures, write_tokens
from turnwise.training.update.trainer import StepResult

TWICE = {"update": {"num_epochs": 2}, "optimizer": {"learning_rate": 1e-2}}


def result_of(samples: Sequence[Sample], **sections: Any) -> StepResult:
    return new_trainer(recipe_of(**sections)).update(samples, step=0)


def spread(column: Column, num: int) -> list[float]:
    values = column if isinstance(column, list) else [column] * num
    assert len(values) == num
    return [value for value in values if value is not None]


def all_of(found: Sequence[TokenFigures], name: str) -> list[float]:
    return [value for row in found for value in spread(getattr(row, name), row.num_tokens)]


@pytest.mark.parametrize("loss", ["clip", "gspo", "cispo"])
def test_the_figures_of_tokens_agree_with_the_metrics(loss: str) -> None:
    samples = some_samples()
    bounds = {"clip_low": 0.01, "clip_high": 0.02}
    result = result_of(samples, **TWICE, algorithm={"loss": loss, **bounds})
    found, metrics = result.tokens, result.metrics
    assert [row.row for row in found] == list(range(len(samples)))
    assert [row.num_tokens for row in found] == [sample.num_own_tokens for sample in samples]
    ratios = all_of(found, "ratios")
    assert fmean(ratios) == pytest.approx(metrics["ratio/mean"], abs=1e-4)
    assert max(ratios) == pytest.approx(metrics["ratio/max"], abs=1e-4)
    assert len(set(ratios)) > 3, "the ratios differ"
    advantages = all_of(found, "advantages")
    assert min(advantages) == pytest.approx(metrics["advantage/min"], abs=1e-4)
    assert max(advantages) == pytest.approx(metrics["advantage/max"], abs=1e-4)
    signs = "".join(row.clips for row in found)
    assert signs.count("l") / len(signs) == pytest.approx(metrics["clip/low_fraction"])
    assert signs.count("h") / len(signs) == pytest.approx(metrics["clip/high_fraction"])
    assert {"l", "h"} <= set(signs), "tokens are clipped on both sides"


def test_every_token_has_its_own_log_probs_ratio_and_advantage() -> None:
    samples = some_samples()
    found = result_of(samples, **TWICE).tokens
    for sample, row, advantage in zip(samples, found, centred(samples), strict=True):
        sampled = [value for value, is_own in zip(sample.logprobs, sample.loss_mask, strict=True) if is_own]
        old, new = spread(row.old_logprobs, len(sampled)), spread(row.logprobs, len(sampled))
        assert old == pytest.approx(sampled, abs=1e-3), "trained tokens are the sampled ones"
        ratios = spread(row.ratios, len(sampled))
        assert ratios == pytest.approx([math.exp(b - a) for a, b in zip(old, new, strict=True)], abs=1e-3)
        assert row.advantages == pytest.approx(advantage, abs=1e-4)


def test_equal_figures_of_a_row_are_written_once_and_different_ones_per_token() -> None:
    assert all(row.ratios == 1.0 for row in result_of(some_samples()).tokens)
    found = result_of(some_samples(), algorithm={"advantage": "gae", "lam": 0.9}).tokens
    assert any(isinstance(row.advantages, list) and len(set(row.advantages)) > 2 for row in found)


def test_a_token_dropped_by_a_ratio_bound_is_marked() -> None:
    samples = some_samples()
    result = result_of(samples, **TWICE, algorithm={"min_ratio": 0.8, "max_ratio": 1.2})
    signs = "".join(token.clips for token in result.tokens)
    assert 0 < signs.count("x") / len(signs) == pytest.approx(result.metrics["mask/dropped_fraction"])


@pytest.mark.parametrize("num", [0, 1, 2, 100])
def test_only_the_first_groups_are_kept(num: int, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = some_samples()
    monkeypatch.setattr(trainer, "NUM_TOKEN_GROUPS", num)
    found = result_of(samples).tokens
    groups = sorted({sample.group for sample in samples})
    assert {samples[row.row].group for row in found} == set(groups[:num])


def test_a_step_with_too_many_tokens_keeps_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = some_samples()
    limit = samples[0].num_own_tokens + samples[1].num_own_tokens
    monkeypatch.setattr(of_tokens, "MAX_TOKENS", limit)
    assert [token.row for token in result_of(samples).tokens] == [0, 1]


def test_samples_skipped_at_the_kl_cap_are_left_out() -> None:
    samples = some_samples()
    three = {"num_minibatches": 3}
    assert len(result_of(samples, update=three).tokens) == len(samples)
    result = result_of(samples, update=three, optimizer={"learning_rate": 1.0})
    assert result.metrics["skipped/kl_cap"] == 1
    assert 0 < len(result.tokens) < len(samples)
    assert all(value != 0.0 for value in all_of(result.tokens, "old_logprobs"))


def test_lines_are_valid_json_and_name_their_episodes(tmp_path: Path) -> None:
    nan = float("nan")
    found = [
        TokenFigures(1, 2, [-0.1234, None], -0.5, 1.0, 0.25, ".h"),
        TokenFigures(2, 0, [], [], [], [], ""),
    ]
    path = tmp_path / "tokens" / "step-000004.jsonl"
    write_tokens(path, 4, ["a", "b\ud800", "c"], found)
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert (first["step"], first["episode"], second["episode"]) == (4, "b\ud800", "c")
    assert first["old"] == [-0.1234, None]
    assert (first["new"], first["ratio"], first["advantage"], first["clip"]) == (-0.5, 1.0, 0.25, ".h")
    with pytest.raises(ValueError, match="JSON"):
        write_tokens(path, 4, ["a"], [TokenFigures(0, 1, nan, 0.0, 1.0, 0.0, ".")])
    assert len(path.read_text().splitlines()) == 2, "the file is unchanged"


def test_numbers_have_four_digits_and_others_become_none() -> None:
    values = torch.tensor([0.12344, float("inf"), -1e-6, float("nan")])
    assert of_tokens._column(values) == [0.1234, None, 0.0, None]
    assert str(of_tokens._column(torch.tensor([-1e-6, -1e-7]))) == "0.0"
    assert of_tokens._column(torch.tensor([float("nan")])) is None
