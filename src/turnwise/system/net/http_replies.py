"""Receive an HTTP reply that may be hostile, within a time and a size limit, and read what an error says."""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2

from turnwise.system.net.retry_after import retry_after_seconds

MAX_MESSAGE_CHARS = 200


class TooLarge(Exception):
    """The body is longer than allowed."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """One HTTP reply; `wait_seconds` is what its Retry-After header asks for."""

    status: int
    body: bytes
    wait_seconds: float | None


async def exchange(
    client: httpx2.AsyncClient,
    request: httpx2.Request,
    *,
    seconds: float,
    max_bytes: int,
    now: datetime | None = None,
) -> HttpReply:
    """Send a request and read the reply. TimeoutError, TooLarge or an error of httpx2 if that fails."""
    # The client's read timeout only bounds the gap between two chunks; this one stops a slow body.
    async with asyncio.timeout(seconds):
        response = await client.send(request, stream=True)
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > max_bytes:
                    raise TooLarge(f"sent more than {max_bytes} bytes")
        finally:
            await response.aclose()
    asked = retry_after_seconds(response.headers.get("retry-after"), now)
    return HttpReply(response.status_code, bytes(body), asked)


def error_message(payload: Any, key: str) -> str:
    """Return the message in a parsed error body as one short line, without the key; empty if there is none.

    FMP, Polygon, Tavily, Slack and OpenAI put the message in different places.
    """
    for _ in range(3):
        if isinstance(payload, list) and payload:
            payload = payload[0]
        if isinstance(payload, dict):
            names = ("Error Message", "error", "message", "detail", "msg")
            payload = next((payload[name] for name in names if payload.get(name)), None)
    text = payload if isinstance(payload, str) else ""
    text = (text.replace(key, "***") if key else text)[: 10 * MAX_MESSAGE_CHARS]
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line[:MAX_MESSAGE_CHARS]


def parsed_or_text(body: bytes) -> Any:
    """Parse a JSON body; anything else is returned as text."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")
