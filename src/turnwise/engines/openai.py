"""An OpenAI-compatible endpoint as a model that plays episodes, for evaluation and demonstrations.

The API carries neither token ids nor the log-probs of sampled tokens, so an endpoint can be evaluated and
can give demonstrations, but can never be trained on.
"""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import httpx

from turnwise.engines.replies import EndpointReply, read_reply, tool_names
from turnwise.protocols import EngineDown
from turnwise.runtime.retry_after import retry_after_seconds
from turnwise.types import Tool, ToolCall

NOT_FOR_TRAINING = (
    "an OpenAI-compatible endpoint gives neither token ids nor their log-probs and takes no weights: "
    "it can be evaluated and can give demonstrations, never be trained"
)

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
"""Statuses of temporary failures: the request is sent again."""

MAX_REPLY_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation: text, tool calls, or the result of a call."""

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """For role `tool`: the id of the call that this message answers."""


class OpenAIEndpoint:
    """One model behind `base_url` (`https://api.openai.com/v1`). The key is sent only in a header."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key: str = "",
        timeout_seconds: float = 120.0,
        num_retries: int = 4,
        max_wait_seconds: float = 60.0,
    ) -> None:
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._model = model
        self._key = key
        self._num_retries = num_retries
        self._max_wait_seconds = max_wait_seconds
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Redirects are not followed: the key must reach only the configured host.
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout_seconds)

    async def chat(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool] = (),
        *,
        max_tokens: int = 512,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> EndpointReply:
        """Sample one turn.

        Raises EngineDown if the endpoint fails or refuses the key, ValueError if it refuses the request.
        """
        names = tool_names(tools)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_message(message, names) for message in messages],
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
        }
        if tools:
            body["tools"] = [_tool(tool, names[tool.name]) for tool in tools]
        if seed is not None:
            body["seed"] = seed
        return read_reply(await self._post(body), {sent: name for name, sent in names.items()})

    async def complete(self, prompt_ids: object, sampling: object, seed: object) -> NoReturn:
        raise ValueError(NOT_FOR_TRAINING)

    async def publish(self, weights: object, version: object) -> NoReturn:
        raise ValueError(NOT_FOR_TRAINING)

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, body: Mapping[str, Any]) -> bytes:
        problem = ""
        for attempt in range(self._num_retries + 1):
            try:
                status, headers, content = await self._exchange(body)
            except httpx.TransportError as error:
                problem, headers = f"{type(error).__name__}: {error}", httpx.Headers()
            except RuntimeError as error:  # httpx raises this if the client is closed
                raise EngineDown(f"the endpoint's client cannot be used: {error}") from None
            else:
                if status == httpx.codes.OK:
                    return content
                self._refuse_for_good(status, content)
                problem = f"status {status}"
            if attempt < self._num_retries:
                await asyncio.sleep(self._wait_seconds(attempt, headers, problem))
        raise EngineDown(
            f"{self._url} failed {self._num_retries + 1} times, last with {self._clean(problem)}"
        )

    async def _exchange(self, body: Mapping[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        async with self._client.stream("POST", self._url, json=body) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_REPLY_BYTES:
                    raise EngineDown(f"{self._url} answered with more than {MAX_REPLY_BYTES} bytes")
            return response.status_code, response.headers, bytes(content)

    def _refuse_for_good(self, status: int, content: bytes) -> None:
        """Raise for every status that is not retried."""
        if status in RETRIED:
            return
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            # The response body is left out: some servers quote the key.
            state = "refused the key" if self._key else "asks for a key, and none was given"
            raise EngineDown(f"{self._url} {state} (status {status})")
        text = self._clean(content[:500].decode(errors="replace"))
        if 400 <= status < 500:
            raise ValueError(f"{self._url} refused the request (status {status}): {text}")
        raise EngineDown(f"{self._url} answered with status {status}: {text}")

    def _wait_seconds(self, attempt: int, headers: httpx.Headers, problem: str) -> float:
        asked = retry_after_seconds(headers.get("retry-after"))
        if asked is None:
            return min(self._max_wait_seconds, 0.5 * 2.0**attempt) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        if asked > self._max_wait_seconds:
            raise EngineDown(f"{self._url} asks to wait {asked:.0f} s ({self._clean(problem)})")
        return asked

    def _clean(self, text: str) -> str:
        return text.replace(self._key, "<key>") if self._key else text


def _message(message: ChatMessage, names: Mapping[str, str]) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.call_id:
        sent["tool_call_id"] = message.call_id
    if message.calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": names.get(call.name, call.name),
                    "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
                },
            }
            for call in message.calls
        ]
    return sent


def _tool(tool: Tool, name: str) -> dict[str, Any]:
    function = {"name": name, "description": tool.description, "parameters": dict(tool.input_schema)}
    return {"type": "function", "function": function}
