"""The model that plays the users of tasks, opened from a recipe; its replies are cached and recorded."""

import contextlib
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from turnwise.config import Recipe, UserConfig
from turnwise.mcp.calls.cassette import CallKey, Cassette, Mode, NotRecorded, Recorded, canonical
from turnwise.mcp.calls.results import Sanitiser
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.rollout.users.simulated_user import user_messages
from turnwise.rollout.users.user_samplers import EndpointSampler, EngineSampler, UserSampler, seed_of
from turnwise.system.environment import environment, user_folder
from turnwise.system.files.text_cache import TextCache
from turnwise.system.net.addresses import check_token
from turnwise.system.net.chat_endpoint import EndpointAccount
from turnwise.system.redaction import Redaction
from turnwise.types import END_WORD, Cause, Message, Task, Turn
from turnwise.types.protocols import Engine, UserDown, UserModel

MAX_REPLY_CHARS = 4_000
"""The longest reply that reaches the policy; a longer one is cut. 256 tokens are about 1,000 characters."""


class SimulatedUser:
    """Plays users with a sampler; see `protocols.UserModel`. Without a sampler it only replays a cassette."""

    def __init__(
        self,
        sampler: UserSampler | None,
        clean: Callable[[str], str],
        *,
        cache: TextCache | None = None,
        cassette: Cassette | None = None,
    ) -> None:
        """clean: removes control characters, template tags and secrets, from what either side says."""
        self._sampler = sampler
        self._clean = clean
        self._cache = cache
        self._cassette = cassette

    async def reply(self, task: Task, turns: Sequence[Turn], *, episode_id: str, seed: int) -> str:
        messages = user_messages(task, turns, self._clean)
        own_seed = seed_of(seed, "user", len(turns))
        request = [own_seed, [[message.role, message.content] for message in messages]]
        key = CallKey(episode_id, "user", "reply", canonical({"request": _digest(request)}), state="")
        cassette = self._cassette
        if cassette is not None and cassette.mode is not Mode.RECORD:
            try:
                return cassette.find(key).content
            except NotRecorded as error:
                if cassette.mode is Mode.REPLAY:
                    raise UserDown(str(error)) from None
        started = time.perf_counter()
        text = await self._sampled(messages, own_seed)
        if cassette is not None:
            cassette.record(key, len(turns), Recorded(text, Cause.OK, time.perf_counter() - started))
        return text

    async def _sampled(self, messages: Sequence[Message], seed: int) -> str:
        assert self._sampler is not None, "only a replay has no sampler"
        asked = [[message.role, message.content] for message in messages]
        key = _digest([self._sampler.name, seed, asked])
        text = None if self._cache is None else self._cache.find(key)
        if not text:
            said = self._clean(await self._sampler.sample(messages, seed))[:MAX_REPLY_CHARS].strip()
            text = said or END_WORD  # nothing that can be shown: see UserSampler
            if self._cache is not None:
                self._cache.keep(key, text)
        return text


async def open_user_model(
    recipe: Recipe,
    exits: contextlib.AsyncExitStack,
    open_engine: Callable[[Recipe, contextlib.AsyncExitStack], Awaitable[Engine]],
    *,
    special_tokens: tuple[str, ...],
    cassette: Cassette | None = None,
    replies: Path | None = None,
) -> UserModel | None:
    """Return the model of [user], or None if the recipe has none; a cassette that is replayed needs none.

    `replies`: the folder of cached replies. Without one, those of an endpoint are kept in the user's cache;
    those of an engine are not, since its folder may hold another model the next time.
    """
    if cassette is not None and cassette.mode is Mode.REPLAY:
        return SimulatedUser(None, Sanitiser(special_tokens).clean, cassette=cassette)
    if not recipe.user.model:
        return None
    sampler: UserSampler
    redaction = Redaction()
    if recipe.user.url:
        account = account_of(recipe.user)
        redaction = Redaction([account.key])
        endpoint = EndpointSampler(account)
        exits.push_async_callback(endpoint.close)
        sampler = endpoint
        user_cache = user_folder("XDG_CACHE_HOME", "~/.cache")
        replies = replies or (None if user_cache is None else user_cache / "user")
    else:
        sampler = await _engine_sampler(recipe, exits, open_engine)
    return SimulatedUser(
        sampler,
        Sanitiser(special_tokens, redaction).clean,
        cache=None if replies is None else TextCache(replies, "reply of a user"),
        cassette=cassette,
    )


async def _engine_sampler(
    recipe: Recipe,
    exits: contextlib.AsyncExitStack,
    open_engine: Callable[[Recipe, contextlib.AsyncExitStack], Awaitable[Engine]],
) -> EngineSampler:
    name, own = recipe.user.model, recipe.of_users()
    assert own is not None, "an endpoint is asked instead"
    try:
        chat = open_chat(load_tokenizer(name), system_prompt="", enable_thinking=False)
        engine = await open_engine(own, exits)
    except (ValueError, OSError) as error:
        # What opens models calls the name model.path.
        raise ValueError(f"user.model: {str(error).removeprefix('model.path: ')}") from None
    return EngineSampler(engine, chat, name, is_exact=recipe.rollout.lockstep)


def account_of(user: UserConfig) -> EndpointAccount:
    """The account at user.url; ValueError if its key is missing or malformed."""
    key = environment().get(user.key_variable, "").strip()
    check_token(key, user.key_variable)
    if not key and urlsplit(user.url).hostname == "api.openai.com":
        raise ValueError(f"user.url is {user.url!r}, which needs a key: set {user.key_variable}")
    return EndpointAccount(user.url, user.model, key)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
