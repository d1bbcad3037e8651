"""Every episode has the embedded Slack workspace to itself."""

import asyncio
import re
from typing import Any

import pytest

from turnwise.mcp.serve import ToolError
from turnwise.worlds.market.tools.slack import MAX_POSTS, EmbeddedSlack
from turnwise.worlds.market.world import World


@pytest.fixture
def slack(world: World) -> EmbeddedSlack:
    return EmbeddedSlack(world)


async def history(slack: EmbeddedSlack, channel: str, episode: str, limit: int = 200) -> list[Any]:
    return list(await slack.get_slack_channel_history(channel, limit, episode))


async def test_channels_have_ids_names_topics_and_members(slack: EmbeddedSlack) -> None:
    channels = await slack.list_slack_channels("a")
    assert {"general", "trading", "research", "random"} <= {channel["name"] for channel in channels}
    for channel in channels:
        assert set(channel) == {"id", "name", "topic", "num_members"}
        assert re.fullmatch(r"C0[0-9A-Z]{9}", channel["id"])
        assert 4 <= channel["num_members"] <= 12
        assert channel["topic"]
        messages = await history(slack, channel["id"], "a")
        assert len(messages) >= 10
        times = [message["ts"] for message in messages]
        assert times == sorted(set(times), reverse=True)
        assert all(re.fullmatch(r"U0[0-9A-Z]{9}", message["user"]) for message in messages)
        # Everybody who wrote there is a member.
        assert len({message["user"] for message in messages}) <= channel["num_members"]


async def test_a_post_is_seen_in_its_own_episode_only(slack: EmbeddedSlack) -> None:
    before = await history(slack, "general", "a")
    sent = await slack.send_slack_message("general", "hello", "a")
    after = await history(slack, "general", "a")
    assert (after[0]["text"], after[0]["ts"], after[1:]) == ("hello", sent["ts"], before)
    assert await history(slack, "general", "b") == await history(slack, "general", "") == before
    assert (await history(slack, "trading", "a"))[0]["text"] != "hello"
    await slack.send_slack_message("general", "outside of an episode", "")
    assert (await history(slack, "general", "", limit=1))[0]["text"] == "outside of an episode"
    assert await history(slack, "general", "a") == after


async def test_dropping_an_episode_forgets_its_posts_and_no_others(slack: EmbeddedSlack) -> None:
    before = await history(slack, "general", "c")
    await slack.send_slack_message("general", "mine", "a")
    await slack.send_slack_message("general", "yours", "b")
    await slack.drop("a")
    await slack.drop("never seen")
    assert await history(slack, "general", "a") == before
    assert (await history(slack, "general", "b"))[0]["text"] == "yours"


async def test_time_stamps_are_the_same_in_every_episode_and_increase_within_one(
    slack: EmbeddedSlack,
) -> None:
    channels = ("general", "random", "general")
    first, second = [
        [(await slack.send_slack_message(channel, "x", episode))["ts"] for channel in channels]
        for episode in ("a", "b")
    ]
    assert first == second == sorted(set(first))
    old = [message["ts"] for name in channels for message in await history(slack, name, "c")]
    assert first[0] > max(old)


@pytest.mark.parametrize("written", ["trading", "#trading", " Trading ", "ID"])
async def test_a_channel_is_found_by_name_or_id(slack: EmbeddedSlack, written: str) -> None:
    channels = await slack.list_slack_channels("a")
    wanted = next(channel["id"] for channel in channels if channel["name"] == "trading")
    target = wanted if written == "ID" else written
    sent = await slack.send_slack_message(target, "x", "a")
    assert sent == {"ok": True, "channel": wanted, "ts": "1782851401.000001"}
    newest = await history(slack, target, "a", limit=3)
    assert newest[0]["text"] == "x"
    assert newest == (await history(slack, target, "a"))[:3]


async def test_strange_episode_ids_are_kept_apart(slack: EmbeddedSlack) -> None:
    episodes = ("\ud800", "\ud801", "a\x00b", "a", "' OR 1=1 --", "%")
    for episode in episodes:
        await slack.send_slack_message("general", f"from {episode!a}", episode)
    for episode in episodes:
        texts = [message["text"] for message in await history(slack, "general", episode)]
        assert [text for text in texts if text.startswith("from ")] == [f"from {episode!a}"]


async def test_an_episode_cannot_post_without_end(slack: EmbeddedSlack) -> None:
    for _ in range(MAX_POSTS):
        await slack.send_slack_message("general", "x", "a")
    with pytest.raises(ToolError, match="no more are taken"):
        await slack.send_slack_message("general", "x", "a")
    assert (await slack.send_slack_message("general", "x", "b"))["ok"]


async def test_what_the_history_says_about_earnings_is_true(world: World, slack: EmbeddedSlack) -> None:
    messages = await history(slack, "earnings", "a")
    assert messages
    for message in messages:
        found = re.fullmatch(r"(\w+) Q1 2026: revenue \$([\d,]+), EPS (-?[\d.]+)\.", message["text"])
        assert found
        last = world.market.quarters(found[1])[0]
        assert (last.revenue, last.eps) == (int(found[2].replace(",", "")), float(found[3]))


async def test_concurrent_episodes_stay_apart(slack: EmbeddedSlack) -> None:
    async def play(name: str) -> list[str]:
        for number in range(5):
            await slack.send_slack_message("general", f"{name} {number}", name)
            await asyncio.sleep(0)
        return [message["text"] for message in await history(slack, "general", name, limit=5)]

    names = [f"e{number}" for number in range(64)]
    for name, seen in zip(names, await asyncio.gather(*map(play, names)), strict=True):
        assert seen == [f"{name} {count}" for count in (4, 3, 2, 1, 0)]
