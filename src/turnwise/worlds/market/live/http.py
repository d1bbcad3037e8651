"""A provider's JSON API over HTTP, with retries; failures become `ToolError` or `Unavailable`."""

import functools
import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2

from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.system.net.addresses import check_token
from turnwise.system.net.http_replies import HttpReply, TooLarge, error_message, exchange
from turnwise.system.net.retries import Clock, GaveUp, RetryPolicy, TemporaryFailure
from turnwise.version import __version__

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Enough for the most that one Polygon page can hold: 50,000 minute bars, about 6 MB."""

NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""Failures before the request left this machine: repeating it is safe even for a write."""

PLAN_LIMITS = frozenset({402, 432, 433})
"""402 is FMP's "not in your plan"; 432 and 433 are Tavily's plan and pay-as-you-go limits."""

Query = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class ProviderAccount:
    """A provider's label, base URL and key; `key_header` is the header that carries the key."""

    label: str
    base_url: str
    key_variable: str
    key: str = field(repr=False)
    key_header: str = "Authorization"

    def __post_init__(self) -> None:
        check_token(self.key, self.key_variable)
        url = httpx2.URL(self.base_url)
        if url.scheme not in {"http", "https"} or not url.host:
            raise ValueError(f"the base URL of {self.label} must begin with http:// or https://")

    @property
    def headers(self) -> dict[str, str]:
        """The key is sent in a header, never in the URL: URLs are logged, by us and by others."""
        value = f"Bearer {self.key}" if self.key_header == "Authorization" else self.key
        return {self.key_header: value, "User-Agent": f"turnwise/{__version__}"}


@dataclass(frozen=True, slots=True)
class ProviderPatience:
    """How long a tool call may take, and how often a request is tried."""

    connect_seconds: float = 5.0
    read_seconds: float = 20.0
    call_seconds: float = 20.0
    num_attempts: int = 4
    backoff_seconds: float = 0.5


class Provider:
    """One provider's API; `call()` starts the requests of one tool call."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        account: ProviderAccount,
        *,
        patience: ProviderPatience,
        clock: Clock,
    ) -> None:
        self.client = client
        self.account = account
        self.patience = patience
        self.clock = clock

    def call(self) -> "ProviderCall":
        """Start the requests of one tool call, which share one deadline."""
        return ProviderCall(self, deadline=self.clock.monotonic() + self.patience.call_seconds)


class ProviderCall:
    """The requests of one tool call; all attempts and waits together stay under `call_seconds`.

    `subject` names what the model asked about ("symbol 'ZZZZ'"). With it, a 400, 404 or 422 is the model's
    mistake. Without it, nothing in the request came from the model, so these are the provider's fault.
    """

    def __init__(self, provider: Provider, *, deadline: float) -> None:
        self._provider = provider
        self._deadline = deadline

    async def get(
        self, path: str, params: Query | None = None, *, subject: str = "", absent: Collection[int] = ()
    ) -> Any:
        """Return the JSON at a path; None if the status is one of `absent`."""
        build = functools.partial(self._provider.client.build_request, "GET", path, params=params)
        reply = await self._send(build, is_repeatable=True)
        return None if reply.status in absent else _payload(reply, self._provider.account, subject)

    async def post(
        self, path: str, body: Mapping[str, Any], *, subject: str = "", is_repeatable: bool
    ) -> Any:
        """Return the JSON that answers a POST; a write is repeated only if it provably was not processed."""
        build = functools.partial(self._provider.client.build_request, "POST", path, json=dict(body))
        reply = await self._send(build, is_repeatable=is_repeatable)
        return _payload(reply, self._provider.account, subject)

    async def _send(self, build: Callable[[], httpx2.Request], *, is_repeatable: bool) -> HttpReply:
        patience, clock = self._provider.patience, self._provider.clock
        seconds = self._deadline - clock.monotonic()
        policy = RetryPolicy(patience.num_attempts, patience.backoff_seconds, seconds, clock)
        try:
            return await policy.run(lambda: self._attempt(build(), is_repeatable=is_repeatable))
        except GaveUp as error:
            raise Unavailable(f"{self._provider.account.label} {error}") from error

    async def _attempt(self, request: httpx2.Request, *, is_repeatable: bool) -> HttpReply:
        provider, label = self._provider, self._provider.account.label
        seconds = max(0.0, self._deadline - provider.clock.monotonic())
        read, connect = provider.patience.read_seconds, provider.patience.connect_seconds
        request.extensions["timeout"] = httpx2.Timeout(read, connect=connect, pool=seconds).as_dict()
        try:
            reply = await exchange(
                provider.client, request, seconds=seconds, max_bytes=MAX_BODY_BYTES, now=provider.clock.now()
            )
        except NEVER_SENT as error:
            raise TemporaryFailure(f"could not be reached ({type(error).__name__})") from error
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise Unavailable(f"{label} did not answer in time") from error
        except httpx2.TransportError as error:
            failure = f"dropped the connection ({type(error).__name__})"
            fault = TemporaryFailure(failure) if is_repeatable else Unavailable(f"{label} {failure}")
            raise fault from error
        except httpx2.DecodingError as error:
            raise Unavailable(f"{label} sent a body that cannot be decompressed") from error
        except TooLarge as error:
            raise Unavailable(f"{label} {error}") from error
        # A 429 was rejected before it was processed, so even a write may be sent again.
        if reply.status == 429 or (reply.status >= 500 and is_repeatable):
            raise TemporaryFailure(f"answered {reply.status}", reply.wait_seconds)
        return reply


def path_part(value: str) -> str:
    """Quote a value as one segment of a URL path: slashes and question marks are escaped."""
    return quote(value, safe=":")


def _payload(reply: HttpReply, account: ProviderAccount, subject: str) -> Any:
    """Return the parsed body of a success; map any other status to ToolError or Unavailable."""
    label, status = account.label, reply.status
    payload, is_json = _parse(reply.body)
    if 200 <= status < 300:
        if not is_json:
            raise Unavailable(f"{label} sent a body that is not JSON")
        return payload
    reason = error_message(payload, account.key)
    because = f": {reason}" if reason else ""
    if status in {401, 403}:
        raise Unavailable(f"{label} refused the key in {account.key_variable} ({status}){because}")
    if status in PLAN_LIMITS:
        raise Unavailable(f"the {label} plan does not allow this ({status}){because}")
    # A page that is not JSON did not come from the API: the base URL is wrong, not the model's request.
    if status in {400, 404, 422} and subject and is_json and "api key" not in reason.lower():
        raise ToolError(f"{label} does not accept {subject}{because}")
    raise Unavailable(f"{label} answered {status}{because}")


def _parse(body: bytes) -> tuple[Any, bool]:
    try:
        return json.loads(body, parse_float=_finite, parse_constant=_finite), True
    except (ValueError, RecursionError):
        return None, False


def _finite(written: str) -> float:
    # Python parses NaN, Infinity and 1e999, but would write them as invalid JSON.
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(written)
    return number
