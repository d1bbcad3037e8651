"""A run finds its sizes once, says and stores them, and is refused if a GPU cannot hold the smallest."""

from pathlib import Path
from typing import Any

import pytest
from transformers import BloomConfig

from tests.run.stage import recipe
from tests.setup.resolved import resolved
from turnwise.config import DEFAULT_SIZES, Recipe
from turnwise.models.device_memory import Memory
from turnwise.setup import sizes as memory_sizes
from turnwise.system.ranks import ALONE

GIB = 2**30


def sized(
    settings: Recipe, monkeypatch: pytest.MonkeyPatch, gibibytes: float, ranks: Any = ALONE
) -> tuple[Recipe, str]:
    """The recipe as a machine with this memory resolves it, and what is said about it."""
    memory = Memory(int(gibibytes * GIB), int(gibibytes * GIB))
    monkeypatch.setattr(memory_sizes, "memory_for", lambda *_: memory)
    least = memory_sizes.least_memory(settings, ranks)
    run = memory_sizes.with_sizes(resolved(settings), least)
    return run.recipe, run.sizes_note


def test_the_sizes_are_said_and_kept_when_the_machine_has_less_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = recipe(tmp_path, model={"device": "cpu"}, engine={"max_batch": 7})
    found, said = sized(settings, monkeypatch, 64)
    assert said.startswith(
        "memory: 16,384 tokens per micro-batch, recomputation off, 64 episodes at a time, "
    )
    assert "of 64.0 GiB planned" in said
    assert found.engine.max_batch == 7
    assert not found.lacks_sizes
    assert sized(found, monkeypatch, 0.01) == (found, "")


class SmallerRank:
    """Two ranks, of which the other has less memory."""

    number, count = 0, 2

    def exchange(self, value: Memory) -> list[Memory]:
        return [value, Memory(GIB // 64, GIB // 64)]


def test_all_ranks_find_the_sizes_of_the_smallest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = recipe(tmp_path, model={"device": "cpu"})
    found, said = sized(settings, monkeypatch, 64, SmallerRank())
    assert found.sizes.tokens_per_microbatch < DEFAULT_SIZES.tokens_per_microbatch
    assert "of 0.0 GiB planned" in said


def test_an_unsupported_architecture_has_the_defaults_and_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BloomConfig(vocab_size=500, hidden_size=64, n_layer=2, n_head=4).save_pretrained(tmp_path / "bloom")
    settings = recipe(tmp_path, model={"path": str(tmp_path / "bloom")}, policy={"tuning": "full"})
    found, said = sized(settings, monkeypatch, 64)
    assert found.sizes == DEFAULT_SIZES
    assert "the memory of a BloomForCausalLM is not planned" in said
    assert "defaults: 16,384 tokens per micro-batch" in said


def test_a_gpu_too_small_for_the_smallest_sizes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = recipe(tmp_path, model={"device": "cuda"})
    with pytest.raises(ValueError, match=r"memory: [\d.]+ GB are needed and 0\.1 GB are free; largest is"):
        sized(settings, monkeypatch, 0.1)
