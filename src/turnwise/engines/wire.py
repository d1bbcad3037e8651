"""The bytes in which requests, completions and weights cross to an engine's server, and their checks.

Numbers cross exactly: a float as the shortest decimals that read back as the same float, tensors as they lie
in memory. What comes in is checked here, on both sides, and trusted from here on.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnwise.engines.request_check import check_sampling
from turnwise.protocols import Adapter, Ask, EngineDown
from turnwise.types import Completion, Finish, Sampling

PROTOCOL = 1
"""Both sides must speak the same."""
BEAT_SECONDS = 2.0
"""Between two signs of life, blank lines, while an answer is in the making."""
MAX_ASKS_BYTES = 64 * 2**20
"""Of one request; a million prompt ids are about 7 MB."""
MAX_LINE_BYTES = 16 * 2**20
"""Of one answer; a token and its log-prob are about 30."""

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_Id = Annotated[int, Field(ge=0, lt=2**31)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _WireRequest(BaseModel):
    """One ask as it crosses."""

    model_config = _STRICT

    prompt_ids: tuple[_Id, ...] = Field(strict=False)
    max_tokens: int
    temperature: _Number
    top_p: _Number
    stop_ids: tuple[_Id, ...] = Field(strict=False)
    seed: _Seed


class _Request(BaseModel):
    model_config = _STRICT

    holding: str
    asks: tuple[_WireRequest, ...] = Field(strict=False, min_length=1)


class AnswerLine(BaseModel):
    """One answer: a completion, that something is done, or in the place of them what went wrong."""

    model_config = _STRICT

    number: int = 0
    """Of the ask that this answers."""
    token_ids: tuple[_Id, ...] | None = Field(default=None, strict=False)
    logprobs: tuple[_Number, ...] = Field(default=(), strict=False)
    finish: Finish = Field(default=Finish.STOP, strict=False)
    policy_version: int = 0
    wrong: str = ""
    """The caller's mistake."""
    down: str = ""
    """The engine's fault."""

    def raise_fault(self) -> None:
        if self.wrong:
            raise ValueError(self.wrong[:1_000])
        if self.down:
            raise EngineDown(self.down[:1_000])

    def completion(self) -> Completion:
        """Raises what the engine raised."""
        self.raise_fault()
        if self.token_ids is None or len(self.token_ids) != len(self.logprobs):
            raise EngineDown("the engine's server answered with no completion")
        return Completion(self.token_ids, self.logprobs, self.finish, self.policy_version)


class ServerState(BaseModel):
    """What a server says of itself."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    protocol: int
    kind: str
    """Of the engine."""
    model: str
    holding: str
    """The digest of the publication that is sampled from; empty: the weights it was started with."""
    base: str
    """The same of the whole weights below, where that is an adapter."""
    version: int
    takes_batches: bool
    max_weights_bytes: int


# --- asks and answers --------------------------------------------------------------------------------------


def write_asks(asks: Sequence[Ask], holding: str) -> bytes:
    """`holding`: what the server must hold for them to be answered."""
    rows = [
        {
            "prompt_ids": list(ask.prompt_ids),
            "max_tokens": ask.sampling.max_tokens,
            "temperature": ask.sampling.temperature,
            "top_p": ask.sampling.top_p,
            "stop_ids": sorted(ask.sampling.stop_ids),
            "seed": ask.seed,
        }
        for ask in asks
    ]
    return json.dumps({"holding": holding, "asks": rows}, separators=(",", ":")).encode()


def read_asks(content: bytes) -> tuple[list[Ask], str]:
    """ValueError names what is not as it should be."""
    try:
        request = _Request.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(_first_mistake(error)) from None
    asks = []
    for number, asked in enumerate(request.asks):
        sampling = Sampling(asked.max_tokens, asked.temperature, asked.top_p, frozenset(asked.stop_ids))
        try:
            check_sampling(sampling)
        except ValueError as error:
            raise ValueError(f"asks.{number}.{error}") from None
        asks.append(Ask(asked.prompt_ids, sampling, asked.seed))
    return asks, request.holding


def write_line(line: AnswerLine) -> bytes:
    return json.dumps(line.model_dump(exclude_defaults=True), allow_nan=False).encode() + b"\n"


def completion_line(number: int, completion: Completion) -> AnswerLine:
    return AnswerLine(
        number=number,
        token_ids=completion.token_ids,
        logprobs=completion.logprobs,
        finish=completion.finish,
        policy_version=completion.policy_version,
    )


def read_line(content: bytes) -> AnswerLine:
    """EngineDown for what is no answer."""
    try:
        return AnswerLine.model_validate_json(content)
    except ValidationError as error:
        raise EngineDown(f"the engine's server answered nonsense: {_first_mistake(error)}") from None


def read_state(content: bytes) -> ServerState:
    """EngineDown for what is no server of ours."""
    try:
        state = ServerState.model_validate_json(content)
    except ValidationError as error:
        raise EngineDown(f"no engine of turnwise answers there: {_first_mistake(error)}") from None
    if state.protocol != PROTOCOL:
        raise EngineDown(f"the engine's server speaks protocol {state.protocol}, this side {PROTOCOL}")
    return state


def _first_mistake(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    got = "" if first["type"] in ("missing", "json_invalid") else f", got {first['input']!r:.80}"
    return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']:.300}{got}"


# --- weights -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """A publication as it crosses: the bytes of a safetensors file, and the digest both sides know it by."""

    content: bytes
    digest: str
    version: int


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The same at its receiver."""

    weights: Mapping[str, Any] | Adapter
    version: int
    over: str
    """For an adapter, the digest of the whole weights that it was learned over; empty: those started with."""


def digest_of(content: bytes | bytearray) -> str:
    return hashlib.sha256(content).hexdigest()


def content_digest(digest: str) -> str:
    """As RFC 9530 writes it."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(digest)).decode()}:"


def pack(weights: Mapping[str, Any] | Adapter, version: int, over: str = "") -> Packed:
    """A copy: what becomes of the tensors afterwards does not show in it."""
    from safetensors.torch import save

    facts = {"version": str(version)}
    tensors = weights
    if isinstance(weights, Adapter):
        facts |= {"rank": str(weights.rank), "alpha": repr(weights.alpha), "over": over}
        tensors = weights.tensors
    assert not isinstance(tensors, Adapter)
    content = save(_plain(tensors), facts)
    return Packed(content, digest_of(content), version)


def _plain(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """On the host, and what is tied once: its receiver has it tied, too."""
    import torch

    found, seen = {}, set()
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"weights: {name!r} is a {type(tensor).__name__}, not a tensor")
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        found[name] = tensor.detach().cpu().contiguous()
    return found


def unpack(content: bytes) -> Unpacked:
    """ValueError for what is no publication."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(content)
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype that torch does not have
        raise ValueError(f"weights: not safetensors: {error}") from None
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    facts = json.loads(header).get("__metadata__") or {}
    try:
        version = _whole_number(facts, "version")
        if "rank" not in facts:
            found = Unpacked(tensors, version, "")
        else:
            adapter = Adapter(tensors, _whole_number(facts, "rank"), float(facts["alpha"]))
            found = Unpacked(adapter, version, facts["over"])
    except KeyError as error:
        raise ValueError(f"weights: the header's __metadata__ has no {error}") from None
    except ValueError as error:
        raise ValueError(f"weights: the header's __metadata__: {error}") from None
    _check_finite(tensors)
    return found


def _whole_number(facts: Mapping[str, str], name: str) -> int:
    text = facts[name]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{name} must be a whole number below 10^18, not {text[:40]!r}")
    return int(text)


def _check_finite(tensors: Mapping[str, Any]) -> None:
    """ValueError for tensors that are no weights: of another kind of number, NaN or infinite."""
    import torch

    known = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    for name, tensor in tensors.items():
        if tensor.dtype not in known:
            raise ValueError(f"weights: {name!r} is of {tensor.dtype}, not of a floating point type in use")
        # A sum in fp64 is one pass without a copy, and shows every NaN and infinity.
        total = tensor.sum(dtype=torch.float64)
        if not total.isfinite() and not tensor.isfinite().all():
            raise ValueError(f"weights: {name!r} holds NaN or infinity")
