"""The engine server refuses nonsensical weights and requests, says why, and keeps its state."""

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import torch

from tests.engines.models import qwen3, refused, running, some_ids, worst_gap
from tests.engines.served import Serving, adapter, asking, model_recipe, serving
from turnwise.engines.adapter_checks import check_adapter
from turnwise.engines.continuous.adapter_layers import AdapterLayers
from turnwise.engines.wire import content_digest, digest_of, pack
from turnwise.types import Sampling
from turnwise.types.protocols import Adapter

PROMPT = some_ids(random.Random(7), 20)
MODULE = "model.layers.0.self_attn.o_proj"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(model_recipe(tmp_path_factory.mktemp("nonsense"))) as started:
        yield started


def changed(**tensors: Any) -> Adapter:
    """A sound adapter with some of its tensors replaced, by `lora_A` or `lora_B`, or left out by None."""
    sound = adapter(1)
    found = dict(sound.tensors)
    for part, tensor in tensors.items():
        del found[f"{MODULE}.{part}"]
        if tensor is not None:
            found[f"{MODULE}.{part}"] = tensor
    return Adapter(found, sound.rank, sound.alpha)


def ranked(rank: int = 4, alpha: float = 8.0) -> Adapter:
    return Adapter(adapter(1).tensors, rank, alpha)


SHAPES: dict[str, tuple[Adapter, str]] = {
    "no tensors": (Adapter({}, 4, 8.0), "no tensors"),
    "another rank": (ranked(rank=8), r"has shape \(4, 64\), and the adapter's rank is 8"),
    "rank 0": (ranked(rank=0), "rank must be at least 1, not 0"),
    "alpha NaN": (ranked(alpha=math.nan), "alpha must be a number above 0, not nan"),
    "alpha infinite": (ranked(alpha=math.inf), "alpha must be a number above 0, not inf"),
    "B missing": (changed(lora_B=None), "lora_B' is missing"),
    "A missing": (changed(lora_A=None), "lora_A' is missing"),
    "A too wide": (changed(lora_A=torch.ones(4, 65)), r"of shape \(64, 65\), the model's is \(64, 64\)"),
    "B too tall": (changed(lora_B=torch.ones(65, 4)), r"of shape \(65, 64\), the model's is \(64, 64\)"),
    "B of one row": (changed(lora_B=torch.ones(1, 4)), r"of shape \(1, 64\)"),
    "A without a second axis": (changed(lora_A=torch.ones(4)), r"has shape \(4,\)"),
    "whole numbers": (changed(lora_A=torch.ones(4, 64, dtype=torch.int64)), "int64"),
    "another module": (
        Adapter({"model.x.lora_A": torch.ones(4, 64), "model.x.lora_B": torch.ones(64, 4)}, 4, 8.0),
        "changes 'model.x.weight', which the model does not have",
    ),
    "a tensor of no adapter": (Adapter({MODULE: torch.ones(4, 64)}, 4, 8.0), "is no tensor of an adapter"),
}

NUMBERS: dict[str, tuple[Adapter, str]] = {
    "NaN": (changed(lora_A=torch.full((4, 64), math.nan)), f"'{MODULE}.lora_A' holds NaN or infinity"),
    "infinity": (changed(lora_B=torch.full((64, 4), -math.inf)), f"'{MODULE}.lora_B' holds NaN or infinity"),
    "overflow": (
        changed(lora_A=torch.full((4, 64), 1e30), lora_B=torch.full((64, 4), 1e30)),
        f"with the adapter, '{MODULE}.weight' is no longer finite",
    ),
}


async def test_a_server_refuses_a_nonsensical_adapter_and_keeps_its_version(server: Serving) -> None:
    async with asking(server.url) as engine:
        await engine.publish(qwen3(1).state_dict(), 1)
        await engine.publish(adapter(5), 2)
        before = await engine.complete(PROMPT, Sampling(max_tokens=4), 0)
        state = server.health()
        for nonsense, words in (SHAPES | NUMBERS).values():
            await refused(engine.publish(nonsense, 3), ValueError, words)
            assert server.health() == state
            assert await engine.complete(PROMPT, Sampling(max_tokens=4), 0) == before


async def test_a_server_refuses_whole_weights_that_are_not_numbers(server: Serving) -> None:
    async with asking(server.url) as engine:
        await engine.publish(qwen3(1).state_dict(), 1)
        state = server.health()
        norm = qwen3(2).state_dict()["model.norm.weight"]
        for broken, words in (
            (norm * math.nan, r"'model\.norm\.weight' holds NaN or infinity"),
            (norm * math.inf, r"'model\.norm\.weight' holds NaN or infinity"),
            (torch.full_like(norm, 1e300, dtype=torch.float64), r"too large for the model's torch\.float32"),
        ):
            weights = qwen3(2).state_dict() | {"model.norm.weight": broken}
            await refused(engine.publish(weights, 2), ValueError, words)
        assert server.health() == state


async def test_refused_whole_weights_leave_the_base_under_an_adapter_as_it_was() -> None:
    async with running(qwen3(1)) as engine:
        await engine.publish(adapter(5), 1)
        once = await engine.complete(PROMPT, Sampling(max_tokens=6), 0)
        broken = dict(qwen3(2).state_dict())
        del broken["model.norm.weight"]
        with pytest.raises(ValueError, match="is missing"):
            await engine.publish(broken, 2)
        await engine.publish(adapter(5), 3)
        again = await engine.complete(PROMPT, Sampling(max_tokens=6), 0)
        assert (again.token_ids, again.logprobs) == (once.token_ids, once.logprobs)


@pytest.mark.parametrize("kind", SHAPES)
def test_an_adapter_kept_apart_from_its_base_is_checked_in_the_same_way(kind: str) -> None:
    nonsense, words = SHAPES[kind]
    with pytest.raises(ValueError, match=words):
        AdapterLayers(qwen3()).check(nonsense)


def test_a_sound_adapter_passes_every_check() -> None:
    check_adapter(adapter(1))
    AdapterLayers(qwen3()).check(adapter(1))


def with_header(content: bytes, **facts: str | None) -> bytes:
    """The same publication with some facts of its header changed, or left out by None."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] |= facts
    header["__metadata__"] = {name: fact for name, fact in header["__metadata__"].items() if fact is not None}
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + content[8 + size :]


def test_a_publication_with_a_wrong_header_or_of_another_format_is_refused(server: Serving) -> None:
    content = pack(adapter(1), 7).content
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    name = next(key for key in header if key != "__metadata__")
    larger = json.dumps(header | {name: header[name] | {"shape": [4, 65]}}).encode()
    lies = {
        "not safetensors": len(larger).to_bytes(8, "little") + larger + content[8 + size :],
        "rank must be a whole number below 10^18, not '-4'": with_header(content, rank="-4"),
        "version must be a whole number below 10^18, not '1e3'": with_header(content, version="1e3"),
        "has no 'version'": with_header(content, version=None),
        "has no 'alpha'": with_header(content, alpha=None),
        "an adapter over other whole weights": with_header(content, over="0" * 64),
    }
    files = (
        b"",
        b"{}",
        b"\x00" * 8,
        b"\xff" * 40,
        b"PK\x03\x04" + b"\x00" * 100,
        (2**40).to_bytes(8, "little"),
    )
    refusals = [*lies.items(), *(("weights: not safetensors", file) for file in files)]
    state = server.health()
    for words, lie in refusals:
        headers = {"Content-Digest": content_digest(digest_of(lie))}
        answer = httpx2.post(f"{server.url}/publish", content=lie, headers=headers, timeout=30)
        assert words in json.loads(answer.text)["wrong"]
    assert server.health() == state


MISTAKES = [
    ("temperature", 1e-320, "temperature must be 0 or from 0.01 to 100, not 1e-320"),
    ("temperature", 1e-7, "temperature must be 0 or from 0.01 to 100, not 1e-07"),
    ("temperature", -1.0, "temperature must be 0 or from 0.01 to 100, not -1.0"),
    ("temperature", 1e308, "temperature must be 0 or from 0.01 to 100, not 1e+308"),
    ("temperature", math.nan, "temperature: Input should be a finite number"),
    ("temperature", math.inf, "temperature: Input should be a finite number"),
    ("temperature", True, "temperature: Input should be a valid number, got True"),
    ("temperature", "1", "temperature: Input should be a valid number, got '1'"),
    ("top_p", 1e-320, "top_p must be from 1e-06 to 1, not 1e-320"),
    ("top_p", 0.0, "top_p must be from 1e-06 to 1, not 0.0"),
    ("top_p", 1.5, "top_p must be from 1e-06 to 1, not 1.5"),
    ("top_p", True, "top_p: Input should be a valid number, got True"),
    ("max_tokens", 0, "max_tokens must be at least 1, not 0"),
    ("max_tokens", -(2**70), "max_tokens must be at least 1"),
    ("max_tokens", True, "max_tokens: Input should be a valid integer, got True"),
    ("max_tokens", 1.5, "max_tokens: Input should be a valid integer"),
    ("seed", 2**63, "seed: Input should be less than 9223372036854775808"),
    ("seed", True, "seed: Input should be a valid integer, got True"),
    ("stop_ids", [-1], "stop_ids.0: Input should be greater than or equal to 0, got -1"),
    ("stop_ids", [True], "stop_ids.0: Input should be a valid integer, got True"),
    ("prompt_ids", [2**31], "prompt_ids.0: Input should be less than 2147483648"),
]


def test_a_sampling_parameter_out_of_range_is_status_400_with_field_and_value(server: Serving) -> None:
    ask = {"prompt_ids": [1], "max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "stop_ids": [], "seed": 0}
    for field, value, words in MISTAKES:
        body = {"holding": server.health()["holding"], "asks": [ask, ask | {field: value}]}
        answer = httpx2.post(f"{server.url}/complete", content=json.dumps(body), timeout=30)
        assert (answer.status_code, answer.text.startswith(f"asks.1.{words}")) == (400, True), answer.text


async def test_the_extreme_allowed_temperatures_and_top_p_can_be_sampled_at() -> None:
    async with running(qwen3()) as engine:
        for sampling in (Sampling(3, 0.01), Sampling(3, 100.0), Sampling(3, 1.0, 1e-6)):
            completion = await engine.complete(PROMPT, sampling, 0)
            assert all(map(math.isfinite, completion.logprobs))
        greedy = await engine.complete(PROMPT, Sampling(3, 0.0), 0)
        assert completion.token_ids == greedy.token_ids
        assert worst_gap(qwen3(), PROMPT, greedy) < 1e-4
