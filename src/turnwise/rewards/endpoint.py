"""The judge's client: chat completions of an OpenAI-compatible endpoint, with retries."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from turnwise.protocols import RewardDown
from turnwise.runtime.environment import environment
from turnwise.runtime.retry_after import retry_after_seconds

OPENAI = "https://api.openai.com/v1"

MAX_REPLY_BYTES = 1_000_000
"""The longest reply that is read; a verdict is one line."""

_MAX_REASON_CHARS = 200


Verdict = TypeVar("Verdict")


class Unanswered(Exception):
    """One attempt failed and a retry may succeed; `wait_seconds` is the delay the endpoint asked for."""

    def __init__(self, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds


@dataclass(frozen=True, slots=True)
class JudgeAccount:
    """The judge's endpoint, its model, and the API key (empty if the endpoint needs none)."""

    base_url: str
    model: str
    key: str = field(default="", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


def open_account(base_url: str, model: str, key_variable: str) -> JudgeAccount:
    """Return the account with its key from the environment or `.env`; ValueError if it cannot work."""
    key = environment().get(key_variable, "").strip()
    # With a stray newline, the HTTP library raises an error that shows the whole header, key included.
    if not all("!" <= character <= "~" for character in key):
        raise ValueError(f"{key_variable} has characters that no HTTP header can carry")
    url = httpx.URL(base_url)
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo:
        raise ValueError("the judge's base_url must begin with http:// or https:// and hold no password")
    if not key and url.host == httpx.URL(OPENAI).host:
        raise ValueError(f"the judge needs a key: set {key_variable}, or base_url to an endpoint without one")
    return JudgeAccount(base_url.rstrip("/"), model, key)


@dataclass(frozen=True, slots=True)
class JudgePatience:
    """How many attempts one judgement gets, and how long it may take, with all attempts and waits."""

    num_attempts: int = 4
    attempt_seconds: float = 60.0
    total_seconds: float = 180.0
    backoff_seconds: float = 1.0


PATIENCE = JudgePatience()


class Endpoint:
    """Chat completions of one account, retried if a retry can help."""

    def __init__(self, account: JudgeAccount, patience: JudgePatience, *, max_concurrency: int) -> None:
        self.account = account
        self._patience = patience
        self._gate = asyncio.Semaphore(max_concurrency)
        self._client: httpx.AsyncClient | None = None

    async def ask(self, messages: Sequence[Mapping[str, str]], read: Callable[[str], Verdict]) -> Verdict:
        """Return `read(reply)`, asking again if it raises ValueError; RewardDown if no attempt succeeds."""
        started = time.monotonic()
        async with self._gate:
            for attempt in range(1, self._patience.num_attempts + 1):
                try:
                    return read(await self._reply(messages))
                except Unanswered as error:
                    failure, wait_seconds = str(error), error.wait_seconds
                except ValueError as error:
                    failure, wait_seconds = f"gave no verdict: {error}", 0.0
                if wait_seconds is None:
                    wait_seconds = self._patience.backoff_seconds * 2 ** (attempt - 1)
                wait_seconds *= random.uniform(1.0, 1.25)  # noqa: S311 - spreads retries, no secret
                is_late = time.monotonic() - started + wait_seconds > self._patience.total_seconds
                if attempt == self._patience.num_attempts or is_late:
                    break
                await asyncio.sleep(wait_seconds)
        raise RewardDown(f"the judge {self._place} {failure} (after {attempt} tries)")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    @property
    def _place(self) -> str:
        return f"{self.account.model} at {self.account.base_url}"

    async def _reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        body = {"model": self.account.model, "messages": list(messages), "temperature": 0}
        try:
            async with asyncio.timeout(self._patience.attempt_seconds):
                status, headers, raw = await self._post(body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Unanswered("did not answer in time") from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise Unanswered(f"could not be reached ({type(error).__name__})") from error
        if status == 429 or status >= 500:
            raise Unanswered(
                f"answered {status}{self._said(raw)}", retry_after_seconds(headers.get("retry-after"))
            )
        if status != 200:
            raise RewardDown(f"the judge {self._place} answered {status}{self._said(raw)}")
        return _content(raw)

    async def _post(self, body: Mapping[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self.account.headers, timeout=self._patience.attempt_seconds
            )
        url = f"{self.account.base_url}/chat/completions"
        async with self._client.stream("POST", url, json=body) as response:
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > MAX_REPLY_BYTES:
                    raise Unanswered(f"sent more than {MAX_REPLY_BYTES} bytes")
        return response.status_code, response.headers, bytes(raw)

    def _said(self, raw: bytes) -> str:
        """Return an error body's message as one short line, with the key removed."""
        payload = _parsed(raw)
        error = payload.get("error") if isinstance(payload, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        if not isinstance(message, str):
            return ""
        if self.account.key:
            message = message.replace(self.account.key, "***")
        line = " ".join("".join(char if char.isprintable() else " " for char in message).split())
        return f": {line[:_MAX_REASON_CHARS]}"


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _content(raw: bytes) -> str:
    match _parsed(raw):
        case {"choices": [{"message": {"content": str(content)}}, *_]}:
            return content
    raise ValueError("the reply is not a chat completion")
