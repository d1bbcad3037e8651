"""The bytes in which requests, completions and weights cross to an engine's server, and their checks.

Numbers are exact: floats are written as the shortest decimals that read back as the same float, tensors as
their bytes. Both sides validate here what they receive; the rest of the code trusts it.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnwise.engines.request_check import check_sampling
from turnwise.types import Completion, Finish, Sampling
from turnwise.types.protocols import Adapter, Ask, EngineDown

PROTOCOL = 1
"""The protocol's version; client and server must have the same."""
BEAT_SECONDS = 2.0
"""Interval of the blank lines that are sent while an answer is computed."""
MAX_ASKS_BYTES = 64 * 2**20
"""Limit of one `/complete` request; a million prompt ids take about 7 MB."""
MAX_LINE_BYTES = 16 * 2**20
"""Limit of one answer line; a token and its log-prob take about 30 bytes."""

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_Id = Annotated[int, Field(ge=0, lt=2**31)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _WireRequest(BaseModel):
    """One ask, as JSON."""

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
    """One line of an answer: a completion, a confirmation (all defaults), or an error."""

    model_config = _STRICT

    number: int = 0
    """The index of the ask that this answers."""
    token_ids: tuple[_Id, ...] | None = Field(default=None, strict=False)
    logprobs: tuple[_Number, ...] = Field(default=(), strict=False)
    finish: Finish = Field(default=Finish.STOP, strict=False)
    policy_version: int = 0
    wrong: str = ""
    """The caller's error; raised as ValueError."""
    down: str = ""
    """The engine's error; raised as EngineDown."""

    def raise_fault(self) -> None:
        if self.wrong:
            raise ValueError(self.wrong[:1_000])
        if self.down:
            raise EngineDown(self.down[:1_000])

    def completion(self) -> Completion:
        """Return the completion, or raise the engine's error."""
        self.raise_fault()
        if self.token_ids is None or len(self.token_ids) != len(self.logprobs):
            raise EngineDown("the engine's server answered with no completion")
        return Completion(self.token_ids, self.logprobs, self.finish, self.policy_version)


class ServerState(BaseModel):
    """The server's reply to `GET /health`."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    protocol: int
    kind: str
    """The recipe's `engine.kind`."""
    model: str
    holding: str
    """The digest of the published weights in use; empty: those the server was started with."""
    base: str
    """The digest of the whole weights in use; differs from `holding` if an adapter is in use."""
    version: int
    takes_batches: bool
    max_weights_bytes: int


# --- asks and answers --------------------------------------------------------------------------------------


def write_asks(asks: Sequence[Ask], holding: str) -> bytes:
    """Serialise asks. `holding`: the digest of the weights that the server must hold."""
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
    """Parse asks and the digest they need; ValueError names the first invalid field."""
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
    """Parse one line of an answer; EngineDown if it is invalid."""
    try:
        return AnswerLine.model_validate_json(content)
    except ValidationError as error:
        raise EngineDown(f"the engine's server answered nonsense: {_first_mistake(error)}") from None


def read_state(content: bytes) -> ServerState:
    """Parse a server's state; EngineDown if it is invalid or the protocol differs."""
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
    """Weights to publish: the bytes of a safetensors file, and the digest that identifies them."""

    content: bytes
    digest: str
    version: int


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Published weights as the server has parsed them."""

    weights: Mapping[str, Any] | Adapter
    version: int
    over: str
    """For an adapter: the digest of its base weights; empty: those the server was started with."""


def digest_of(content: bytes | bytearray) -> str:
    return hashlib.sha256(content).hexdigest()


def content_digest(digest: str) -> str:
    """The value of a Content-Digest header (RFC 9530) for a hex SHA-256."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(digest)).decode()}:"


def pack(weights: Mapping[str, Any] | Adapter, version: int, over: str = "") -> Packed:
    """Serialise weights. The bytes are a copy: later changes to the tensors do not affect them."""
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
    """Return the tensors on the host. Tied ones appear once: they are tied in the receiver, too."""
    import torch

    plain, stored = {}, {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"weights: {name!r} is a {type(tensor).__name__}, not a tensor")
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and place in stored:
            continue
        stored[place] = tensor  # kept: a tensor made on reading would leave its place to the next one
        plain[name] = tensor.detach().cpu().contiguous()
    return plain


def unpack(content: bytes) -> Unpacked:
    """Parse published weights; ValueError if they are invalid."""
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
            unpacked = Unpacked(tensors, version, "")
        else:
            adapter = Adapter(tensors, _whole_number(facts, "rank"), float(facts["alpha"]))
            unpacked = Unpacked(adapter, version, facts["over"])
    except KeyError as error:
        raise ValueError(f"weights: the header's __metadata__ has no {error}") from None
    except ValueError as error:
        raise ValueError(f"weights: the header's __metadata__: {error}") from None
    _check_finite(tensors)
    return unpacked


def _whole_number(facts: Mapping[str, str], name: str) -> int:
    text = facts[name]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{name} must be a whole number below 10^18, not {text[:40]!r}")
    return int(text)


def _check_finite(tensors: Mapping[str, Any]) -> None:
    """Raise ValueError if a tensor has an unsupported dtype or holds NaN or infinity."""
    import torch

    known = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    for name, tensor in tensors.items():
        if tensor.dtype not in known:
            raise ValueError(f"weights: {name!r} is of {tensor.dtype}, not of a floating point type in use")
        # A sum in fp64 is one pass without a copy, and any NaN or infinity makes it non-finite.
        total = tensor.sum(dtype=torch.float64)
        if not total.isfinite() and not tensor.isfinite().all():
            raise ValueError(f"weights: {name!r} holds NaN or infinity")
