"""A client for the chat completions of an OpenAI-compatible endpoint.

It is not the `openai` SDK. The SDK reads replies of any size, has no limit on a reply that arrives slowly,
and sends what OPENAI_CUSTOM_HEADERS, OPENAI_ORG_ID and OPENAI_PROJECT_ID hold to every host.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2

from turnwise.system.net.addresses import check_token
from turnwise.system.net.http_replies import TooLarge, error_message, exchange, parsed_or_text
from turnwise.system.net.retries import GaveUp, RetryPolicy, TemporaryFailure

RETRIED = frozenset({408, 409, 425, 429})
"""Statuses of temporary failures, besides those from 500 on."""

OF_THE_REQUEST = frozenset({400, 413, 422})
"""Statuses of a request that is too long or whose words a filter forbids, but also of a wrong setting."""

Reply = TypeVar("Reply")


class Refused(Exception):
    """The endpoint answered with a status that no retry changes; the text says which, and what it said."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def may_be_of_the_request(self) -> bool:
        """Whether another conversation might have been answered."""
        return self.status in OF_THE_REQUEST


@dataclass(frozen=True, slots=True)
class EndpointAccount:
    """An endpoint's base URL, the model there, and the API key (empty if the endpoint needs none)."""

    base_url: str
    model: str
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_token(self.key, "the endpoint's key")

    @property
    def url(self) -> str:
        return f"{self.base_url.rstrip('/')}/chat/completions"


@dataclass(frozen=True, slots=True)
class EndpointPatience:
    """How many attempts a request gets, and how long it may take, with all attempts and waits."""

    num_attempts: int
    attempt_seconds: float
    total_seconds: float
    backoff_seconds: float


class ChatEndpoint:
    """Chat completions of one account. The key is sent only in a header."""

    def __init__(self, account: EndpointAccount, patience: EndpointPatience, *, max_reply_bytes: int) -> None:
        self.account = account
        self._attempt_seconds = patience.attempt_seconds
        self._max_reply_bytes = max_reply_bytes
        self._policy = RetryPolicy(patience.num_attempts, patience.backoff_seconds, patience.total_seconds)
        headers = {"Authorization": f"Bearer {account.key}"} if account.key else {}
        # Redirects are not followed: the key must reach only the configured host.
        self._client = httpx2.AsyncClient(
            headers=headers, timeout=self._attempt_seconds, follow_redirects=False
        )

    async def ask(self, body: Mapping[str, Any], read: Callable[[bytes], Reply]) -> Reply:
        """Send the request and return `read(reply)`; a ValueError of `read` is a temporary failure.

        Raises Refused for a status that no retry changes, GaveUp if no attempt succeeds. A refusal that may
        be of the request is checked by sending it once more, since gateways also refuse by mistake.
        """

        async def attempt() -> Reply:
            reply = await self._send({"model": self.account.model, **body})
            try:
                return read(reply)
            except ValueError as error:
                raise TemporaryFailure(str(error), wait_seconds=0.0) from error

        try:
            return await self._policy.run(attempt)
        except Refused as error:
            if not error.may_be_of_the_request:
                raise
        return await self._policy.run(attempt)

    async def close(self) -> None:
        await self._client.aclose()

    async def _send(self, body: Mapping[str, Any]) -> bytes:
        """Make one attempt and return the reply's body."""
        request = self._client.build_request("POST", self.account.url, json=body)
        try:
            reply = await exchange(
                self._client, request, seconds=self._attempt_seconds, max_bytes=self._max_reply_bytes
            )
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise TemporaryFailure("did not answer in time") from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise TemporaryFailure(f"could not be reached ({type(error).__name__})") from error
        except TooLarge as error:
            raise TemporaryFailure(str(error)) from error
        except RuntimeError as error:  # the client is closed
            raise GaveUp(f"cannot be asked: {error}") from error
        if reply.status == httpx2.codes.OK:
            return reply.body
        message = error_message(parsed_or_text(reply.body), self.account.key)
        text = f"answered {reply.status}: {message}" if message else f"answered {reply.status}"
        if reply.status in RETRIED or reply.status >= 500:
            raise TemporaryFailure(text, reply.wait_seconds)
        raise Refused(reply.status, text)
