"""Slack's tools over a workspace that every episode sees as its own."""

import re
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from turnwise.mcp.serve import ToolError
from turnwise.worlds.market.data.sessions import CLOCK
from turnwise.worlds.market.tools.arguments import read_limit, read_text
from turnwise.worlds.market.tools.workspace import Channel, make_workspace, stamp
from turnwise.worlds.market.world import World

Row = Mapping[str, Any]

MAX_MESSAGES = 200
MAX_MESSAGE_CHARS = 40_000
"""Slack's own limit."""

MAX_POSTS = 1000
"""Posts per episode: far above any honest use, low enough that a loop cannot fill the memory."""

SCHEMA = """
CREATE TABLE message (
    episode TEXT,  -- NULL: the template, which every episode sees
    channel_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    text TEXT NOT NULL,
    ts TEXT NOT NULL
);
CREATE INDEX by_channel ON message (channel_id, episode, ts);
CREATE INDEX by_episode ON message (episode);
"""


class EmbeddedSlack:
    """Slack's tools; each method implements the tool of the same name.

    An episode is a layer of rows over the shared template. An episode that only reads costs nothing, and no
    other episode sees its posts. Calls that name no episode use the layer named "".
    """

    def __init__(self, world: World) -> None:
        self._workspace = make_workspace(world.market)
        self._channels = {channel.id: channel for channel in self._workspace.channels}
        self._by_name = {channel.name: channel for channel in self._workspace.channels}
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.executescript(SCHEMA)
        self._database.executemany(
            "INSERT INTO message VALUES (NULL, ?, ?, ?, ?)",
            (
                (message.channel_id, message.user_id, message.text, message.ts)
                for message in self._workspace.messages
            ),
        )

    async def list_slack_channels(self, episode: str) -> list[Row]:
        return [
            {
                "id": channel.id,
                "name": channel.name,
                "topic": channel.topic,
                "num_members": len(channel.member_ids),
            }
            for channel in self._workspace.channels
        ]

    async def send_slack_message(self, channel: object, message: object, episode: str) -> Row:
        target = self._channel(channel, "channel")
        text = read_text(message, "message", max_chars=MAX_MESSAGE_CHARS)
        layer = _layer(episode)
        posts: int = self._database.execute(
            "SELECT count(*) FROM message WHERE episode = ?", (layer,)
        ).fetchone()[0]
        if posts >= MAX_POSTS:
            raise ToolError(f"{MAX_POSTS} messages were posted already; no more are taken")
        # The clock is frozen, so each post of an episode is dated one second after the previous one.
        ts = stamp(CLOCK + timedelta(seconds=posts + 1), posts + 1)
        row = (layer, target.id, self._workspace.bot.id, text, ts)
        self._database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        return {"ok": True, "channel": target.id, "ts": ts}

    async def get_slack_channel_history(self, channel_id: object, limit: object, episode: str) -> list[Row]:
        target = self._channel(channel_id, "channel_id")
        rows = self._database.execute(
            "SELECT user_id, text, ts FROM message WHERE channel_id = ? AND (episode IS NULL OR episode = ?) "
            "ORDER BY ts DESC LIMIT ?",
            (target.id, _layer(episode), read_limit(limit, most=MAX_MESSAGES)),
        )
        return [{"user": user, "text": text, "ts": ts} for user, text, ts in rows]

    async def drop(self, episode: str) -> None:
        """Delete an episode's posts."""
        self._database.execute("DELETE FROM message WHERE episode = ?", (_layer(episode),))

    def _channel(self, value: object, name: str) -> Channel:
        text = read_text(value, name).strip()
        found = self._channels.get(text.upper()) or self._by_name.get(text.removeprefix("#").lower())
        if found is None:
            known = ", ".join(f"{channel.name} ({channel.id})" for channel in self._workspace.channels)
            raise ToolError(f"unknown channel {text[:40]!a}; the channels are {known}")
        return found


def _layer(episode: str) -> str:
    """Escape lone surrogates and NUL, which SQLite cannot store, so that episode ids stay distinct."""
    return re.sub(r"[\ud800-\udfff\x00]", lambda found: f"\\u{ord(found[0]):04x}", episode)
