"""An OpenAI-compatible endpoint as a model that plays episodes, for evaluation and demonstrations.

The API carries neither token ids nor the log-probs of sampled tokens, so an endpoint can be evaluated and
can give demonstrations, but can never be trained on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from turnwise.rollout.players.replies import EndpointReply, read_reply, tool_names
from turnwise.system.net.chat_endpoint import ChatEndpoint, EndpointAccount, EndpointPatience, Refused
from turnwise.system.net.retries import GaveUp
from turnwise.types import Tool, ToolCall
from turnwise.types.protocols import EngineDown

NOT_FOR_TRAINING = (
    "an OpenAI-compatible endpoint gives neither token ids nor their log-probs and takes no weights: "
    "it can be evaluated and can give demonstrations, never be trained"
)

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
    """One model behind `base_url` (`https://api.openai.com/v1`)."""

    def __init__(self, base_url: str, model: str, *, key: str = "", num_retries: int = 4) -> None:
        patience = EndpointPatience(
            num_retries + 1, attempt_seconds=120.0, total_seconds=600.0, backoff_seconds=0.5
        )
        account = EndpointAccount(base_url, model, key)
        self._endpoint = ChatEndpoint(account, patience, max_reply_bytes=MAX_REPLY_BYTES)

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
            "messages": [_message(message, names) for message in messages],
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
        }
        if tools:
            body["tools"] = [_tool(tool, names[tool.name]) for tool in tools]
        if seed is not None:
            body["seed"] = seed
        read = partial(read_reply, names={sent: name for name, sent in names.items()})
        try:
            return await self._endpoint.ask(body, read)
        except GaveUp as error:
            raise EngineDown(f"{self._endpoint.account.url} {error}") from None
        except Refused as refused:
            raise self._fault(refused) from None

    async def complete(self, prompt_ids: object, sampling: object, seed: object) -> NoReturn:
        raise ValueError(NOT_FOR_TRAINING)

    async def publish(self, weights: object, version: object) -> NoReturn:
        raise ValueError(NOT_FOR_TRAINING)

    async def close(self) -> None:
        await self._endpoint.close()

    def _fault(self, refused: Refused) -> EngineDown | ValueError:
        """Map a refusal to our exceptions."""
        account = self._endpoint.account
        if refused.status in (401, 403):
            # What the endpoint said is left out: some servers quote the key.
            state = "refused the key" if account.key else "asks for a key, and none was given"
            return EngineDown(f"{account.url} {state} (status {refused.status})")
        if 400 <= refused.status < 500:
            return ValueError(f"the request was refused: {account.url} {refused}")
        return EngineDown(f"{account.url} {refused}")


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
