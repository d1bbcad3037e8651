"""Two ways to sample what a simulated user says: an OpenAI-compatible endpoint, or an engine of our own."""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from typing import Protocol

from turnwise.models.chat import RenderedChat
from turnwise.system.net.chat_endpoint import ChatEndpoint, EndpointAccount, EndpointPatience, Refused
from turnwise.system.net.http_replies import parsed_or_text
from turnwise.system.net.retries import GaveUp
from turnwise.types import END_WORD, Completion, Message, Sampling
from turnwise.types.protocols import BatchEngine, Engine, EngineDown, UserDown

MAX_TOKENS = 256
"""The longest reply; a longer one is cut."""
TEMPERATURE = 0.7
"""Below 1: small models lose the thread at 1. Above 0: the members of a group meet different users."""
PATIENCE = EndpointPatience(num_attempts=4, attempt_seconds=60.0, total_seconds=180.0, backoff_seconds=0.5)

_MAX_REPLY_BYTES = 1_000_000
_NUM_PARALLEL = 64
"""Requests to the endpoint at the same time; others wait without a time limit."""
_NUM_DRAWS = 3
"""Draws of our own engine, each with its own seed, until one says something."""
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class UserSampler(Protocol):
    """Samples a user's next message."""

    @property
    def name(self) -> str:
        """Which model it is; part of the key that a reply is cached under."""
        ...

    async def sample(self, messages: Sequence[Message], seed: int) -> str:
        """Return the next message, which is never empty. Raises UserDown.

        A user that says nothing, also when asked again, ends the conversation, and so does a conversation
        that the user's model refuses, as too long or for its words. Both can come from what the policy says.
        As faults, they would let it discard episodes that it fails.
        """
        ...


class EndpointSampler:
    """Samples from an OpenAI-compatible endpoint; every retry sends the same request and seed."""

    def __init__(self, account: EndpointAccount, patience: EndpointPatience = PATIENCE) -> None:
        self._endpoint = ChatEndpoint(account, patience, max_reply_bytes=_MAX_REPLY_BYTES)
        self._num_attempts = patience.num_attempts
        self._slots = asyncio.Semaphore(_NUM_PARALLEL)
        self.name = f"{account.model} at {account.base_url}"

    async def sample(self, messages: Sequence[Message], seed: int) -> str:
        try:
            return await self._asked(messages, seed)
        except Refused as error:
            if not error.may_be_of_the_request:
                raise self._down(error) from None
        await self._check_without_policy(messages)
        return END_WORD

    async def _check_without_policy(self, messages: Sequence[Message]) -> None:
        """Raise UserDown if the endpoint also refuses the conversation without what the policy said."""
        role_greeting_and_prompt = messages[:3]
        try:
            await self._asked([*role_greeting_and_prompt, Message("user", "I see.")], 0)
        except Refused as error:
            raise self._down(error) from None

    def _down(self, error: Refused) -> UserDown:
        # With a wrong key, some servers quote it in what they say.
        text = f"refused the key (status {error.status})" if error.status in (401, 403) else str(error)
        return UserDown(f"the user's model {self.name} {text}")

    async def _asked(self, messages: Sequence[Message], seed: int) -> str:
        """Return the reply. Raises UserDown, and Refused for a status that no retry changes."""
        body = {
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": MAX_TOKENS,
            "temperature": TEMPERATURE,
            "seed": seed % 2**31,
        }
        num_silent = 0

        def read(reply: bytes) -> str:
            nonlocal num_silent
            text = _reply_in(reply)
            if not text:
                num_silent += 1
                raise ValueError("gave an empty reply")
            return text

        try:
            async with self._slots:
                return await self._endpoint.ask(body, read)
        except GaveUp as error:
            if num_silent == self._num_attempts:
                return END_WORD
            raise UserDown(f"the user's model {self.name} {error}") from None

    async def close(self) -> None:
        await self._endpoint.close()


class EngineSampler:
    """Samples from an engine of our own.

    With `is_exact`, requests are sampled one at a time and without a cache: the last bits of a log-prob
    depend on the other rows of a batch, and a reply must not depend on timing.
    """

    def __init__(self, engine: Engine, chat: RenderedChat, name: str, *, is_exact: bool) -> None:
        self._engine = engine
        self._chat = chat
        self._is_exact = is_exact
        self._turn = asyncio.Lock()
        self.name = name

    async def sample(self, messages: Sequence[Message], seed: int) -> str:
        ids = self._chat.open(messages, ())
        for draw in range(_NUM_DRAWS):
            try:
                completion = await self._complete(ids, seed_of(seed, "draw", draw))
            except ValueError:  # the conversation is too long for it
                return END_WORD
            except EngineDown as error:
                raise UserDown(f"the user's model {self.name}: {error}") from None
            if text := self._text(ids, completion):
                return text
        return END_WORD

    async def _complete(self, ids: Sequence[int], seed: int) -> Completion:
        sampling = Sampling(MAX_TOKENS, TEMPERATURE, stop_ids=self._chat.stop_ids)
        if not self._is_exact:
            return await self._engine.complete(ids, sampling, seed)
        assert isinstance(self._engine, BatchEngine), "lockstep has checked that"
        async with self._turn:
            await self._engine.forget()
            return await self._engine.complete(ids, sampling, seed)

    def _text(self, prompt_ids: Sequence[int], completion: Completion) -> str:
        """Return the words without thoughts; what looks like a call is text like any other."""
        ids = completion.token_ids
        parsed = self._chat.parse(ids, prompt_ids, is_cut=False)
        if parsed.error is None and not parsed.calls:
            return parsed.text.strip()
        ended = ids[:-1] if ids and ids[-1] in self._chat.stop_ids else ids
        return self._chat.decode(ended).strip()


def seed_of(seed: int, stream: str, number: int) -> int:
    """Return the seed of one reply or draw; each has its own random stream."""
    digest = hashlib.blake2b(f"{seed}/{stream}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _reply_in(reply: bytes) -> str:
    """Return the text of a chat completion, which may be empty; ValueError if it has none."""
    match parsed_or_text(reply):
        case {"choices": [{"message": {"content": str(content)}}, *_]}:
            return _THOUGHT.sub("", content).strip()
    raise ValueError("gave no reply: it is not a chat completion")
