"""Slack's tools over its Web API, in a real workspace."""

import html
import re
from typing import Any

from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.worlds.market.live import arguments
from turnwise.worlds.market.live.http import Provider, ProviderCall
from turnwise.worlds.market.live.shapes import Record, pick, record, records, scalar

SOURCE = "Slack"
PAGE_SIZE = 200
MAX_PAGES = 25
"""5,000 channels. Slack allows about twenty listings a minute, so more pages would exceed its rate limit."""

MAX_MESSAGES = 200
MAX_MESSAGE_CHARS = 40_000
"""Slack truncates longer messages."""

CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{7,20}")
"""Channel ids only: D and U ids would let a model read and write people's direct messages."""

MISTAKES = {
    "channel_not_found": "no such channel; list_slack_channels shows them all",
    "not_in_channel": "the bot is not a member of that channel; choose another or have it invited",
    "is_archived": "that channel is archived; choose another",
    "msg_too_long": "the message is too long; shorten it",
    "no_text": "the message has no text",
}
"""Errors that the model can correct. Any other error is about the token, the workspace or Slack itself."""


class LiveSlack:
    """One method per slack tool; the only state is a cache of channel ids by name.

    The workspace is real and shared, so `episode` isolates nothing: posts stay.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._ids: dict[str, str] = {}

    async def list_slack_channels(self, episode: str = "") -> list[Record]:
        return await self._channels(self._provider.call())

    async def send_slack_message(self, channel: str, message: str, episode: str = "") -> Record:
        text = arguments.text(message, name="message", most=MAX_MESSAGE_CHARS)
        call = self._provider.call()
        channel_id = await self._channel_id(call, channel, name="channel")
        # Escaped as Slack requires for plain text, so that a model cannot ping everyone with <!channel>.
        body = {"channel": channel_id, "text": html.escape(text, quote=False)}
        payload = await call.post("chat.postMessage", body, is_repeatable=False)
        return pick(
            self._checked(payload), ("ok", "channel", "ts"), source=SOURCE, required=("channel", "ts")
        )

    async def get_slack_channel_history(
        self, channel_id: str, limit: int = 10, episode: str = ""
    ) -> list[Record]:
        num = arguments.count(limit, name="limit", most=MAX_MESSAGES)
        call = self._provider.call()
        channel = await self._channel_id(call, channel_id, name="channel_id")
        payload = self._checked(await call.get("conversations.history", {"channel": channel, "limit": num}))
        messages = [_message(row) for row in records(payload.get("messages"), source=SOURCE)]
        return messages[:num]

    async def _channel_id(self, call: ProviderCall, channel: str, *, name: str) -> str:
        """Return an id unchanged; look a name up, and list the channels only if it is not yet known."""
        wanted = arguments.text(channel, name=name, most=100).strip()
        if CHANNEL_ID.fullmatch(wanted):
            return wanted
        wanted = wanted.removeprefix("#").lower()
        if wanted not in self._ids:
            await self._channels(call)
        if wanted not in self._ids:
            raise ToolError(f"Slack: {wanted!a}: {MISTAKES['channel_not_found']}")
        return self._ids[wanted]

    async def _channels(self, call: ProviderCall) -> list[Record]:
        params: dict[str, str | int] = {
            "types": "public_channel",
            "exclude_archived": "true",
            "limit": PAGE_SIZE,
        }
        channels: list[Record] = []
        for _ in range(MAX_PAGES):
            payload = self._checked(await call.get("conversations.list", params))
            channels += [_channel(row) for row in records(payload.get("channels"), source=SOURCE)]
            cursor = record(payload.get("response_metadata") or {}, source=SOURCE).get("next_cursor")
            if not cursor:
                break
            params["cursor"] = str(scalar(cursor, source=SOURCE))
        self._ids = {str(channel["name"]): str(channel["id"]) for channel in channels}
        return channels

    def _checked(self, payload: Any) -> Record:
        """Return a success or raise: Slack answers 200 to nearly everything and sets `ok` and `error`."""
        answer = record(payload, source=SOURCE)
        if answer.get("ok") is True:
            return answer
        error = re.sub(r"[^a-z0-9_]", "", str(answer.get("error") or ""))[:60] or "no reason given"
        if error in MISTAKES:
            raise ToolError(f"Slack: {MISTAKES[error]} ({error})")
        needed = re.sub(r"[^a-z:,._]", "", str(answer.get("needed") or ""))[:100]
        hint = f"; the token in {self._provider.account.key_variable} needs {needed}" if needed else ""
        raise Unavailable(f"Slack refused: {error}{hint}")


def _channel(row: Record) -> Record:
    channel = pick(row, ("id", "name"), source=SOURCE, required=("id", "name"))
    topic = record(row.get("topic") or {}, source=SOURCE)
    channel["topic"] = scalar(topic.get("value"), source=SOURCE) or ""
    return channel | pick(row, ("num_members",), source=SOURCE)


def _message(row: Record) -> Record:
    """Return a message with its text as typed; a bot has no user, so `user` is its name or id."""
    author = row.get("user") or row.get("username") or row.get("bot_id")
    text = str(scalar(row.get("text"), source=SOURCE) or "")
    plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return {"user": scalar(author, source=SOURCE), "text": plain} | pick(
        row, ("ts",), source=SOURCE, required=("ts",)
    )
