"""Each episode has the embedded Slack workspace to itself."""

import asyncio
import re
from typing import Any

import pytest

from turnwise.mcp.serve import ToolError
from turnwise.servers.contract import service_of
from turnwise.servers.embedded.slack import MAX_POSTS, EmbeddedSlack
from turnwise.servers.embedded.world import World, open_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return open_world(0, cache_dir=tmp_path_factory.getbasetemp() / "worlds" / "turnwise")


@pytest.fixture
def slack(world: World) -> EmbeddedSlack:
    return EmbeddedSlack(world)


def history(slack: EmbeddedSlack, channel: str, episode: str, limit: int = 200) -> list[Any]:
    return list(asyncio.run(slack.get_slack_channel_history(channel, limit, episode)))


def post(slack: EmbeddedSlack, channel: str, message: str, episode: str) -> Any:
    return asyncio.run(slack.send_slack_message(channel, message, episode))


def test_channels_have_ids_names_topics_and_members(slack: EmbeddedSlack) -> None:
    channels = asyncio.run(slack.list_slack_channels("a"))
    assert {"general", "trading", "research", "random"} <= {channel["name"] for channel in channels}
    for channel in channels:
        assert set(channel) == {"id", "name", "topic", "num_members"}
        assert re.fullmatch(r"C0[0-9A-Z]{9}", channel["id"])
        assert 4 <= channel["num_members"] <= 12
        assert channel["topic"]
        messages = history(slack, channel["id"], "a")
        assert len(messages) >= 10
        times = [message["ts"] for message in messages]
        assert times == sorted(set(times), reverse=True)
        assert all(re.fullmatch(r"U0[0-9A-Z]{9}", message["user"]) for message in messages)
        # Everybody who wrote there is a member.
        assert len({message["user"] for message in messages}) <= channel["num_members"]


def test_a_post_is_seen_in_its_own_episode_only(slack: EmbeddedSlack) -> None:
    before = {episode: history(slack, "general", episode) for episode in ("a", "b", "")}
    assert before["a"] == before["b"] == before[""]
    sent = post(slack, "general", "hello", "a")
    newest = history(slack, "general", "a")
    assert newest[0]["text"] == "hello"
    assert newest[0]["ts"] == sent["ts"]
    assert newest[1:] == before["a"]
    assert history(slack, "general", "b") == before["b"]
    assert history(slack, "general", "") == before[""]
    assert history(slack, "trading", "a")[0]["text"] != "hello"


def test_a_post_without_an_episode_is_not_seen_by_episodes(slack: EmbeddedSlack) -> None:
    post(slack, "general", "from nobody", "")
    assert history(slack, "general", "", limit=1)[0]["text"] == "from nobody"
    assert history(slack, "general", "a", limit=1)[0]["text"] != "from nobody"


def test_dropping_an_episode_forgets_its_posts_and_no_others(slack: EmbeddedSlack) -> None:
    template = history(slack, "general", "c")
    post(slack, "general", "mine", "a")
    post(slack, "general", "yours", "b")
    asyncio.run(slack.drop("a"))
    asyncio.run(slack.drop("never seen"))
    assert history(slack, "general", "a") == template
    assert history(slack, "general", "b")[0]["text"] == "yours"


def test_time_stamps_are_the_same_in_every_episode_and_increase_within_one(slack: EmbeddedSlack) -> None:
    stamps = {
        episode: [post(slack, channel, "x", episode)["ts"] for channel in ("general", "random", "general")]
        for episode in ("a", "b")
    }
    assert stamps["a"] == stamps["b"]
    assert stamps["a"] == sorted(set(stamps["a"]))
    assert stamps["a"][0] > max(
        message["ts"] for name in ("general", "random") for message in history(slack, name, "c")
    )


@pytest.mark.parametrize("written", ["trading", "#trading", " Trading ", "ID"])
def test_a_channel_is_found_by_name_or_id(slack: EmbeddedSlack, written: str) -> None:
    channels = asyncio.run(slack.list_slack_channels("a"))
    wanted = next(channel["id"] for channel in channels if channel["name"] == "trading")
    target = wanted if written == "ID" else written
    assert post(slack, target, "x", "a") == {"ok": True, "channel": wanted, "ts": "1782851401.000001"}
    assert history(slack, target, "a", limit=1)[0]["text"] == "x"


def test_the_limit_keeps_the_newest_messages(slack: EmbeddedSlack) -> None:
    everything = history(slack, "general", "a")
    assert history(slack, "general", "a", limit=3) == everything[:3]


def test_strange_episode_ids_are_kept_apart(slack: EmbeddedSlack) -> None:
    for episode in ("\ud800", "\ud801", "a\x00b", "a", "' OR 1=1 --", "%"):
        post(slack, "general", f"from {episode!a}", episode)
    for episode in ("\ud800", "\ud801", "a\x00b", "a", "' OR 1=1 --", "%"):
        posts = [
            message for message in history(slack, "general", episode) if message["text"].startswith("from ")
        ]
        assert [post["text"] for post in posts] == [f"from {episode!a}"]


def test_an_episode_cannot_post_without_end(slack: EmbeddedSlack) -> None:
    async def flood() -> None:
        for _ in range(MAX_POSTS + 1):
            await slack.send_slack_message("general", "x", "a")

    with pytest.raises(ToolError, match="no more are taken"):
        asyncio.run(flood())
    assert post(slack, "general", "x", "b")["ok"]


def test_what_the_history_says_about_earnings_is_true(world: World, slack: EmbeddedSlack) -> None:
    messages = history(slack, "earnings", "a")
    assert messages
    for message in messages:
        found = re.fullmatch(r"(\w+) Q1 2026: revenue \$([\d,]+), EPS (-?[\d.]+)\.", message["text"])
        assert found
        last = world.market.quarters(found[1])[0]
        assert (last.revenue, last.eps) == (int(found[2].replace(",", "")), float(found[3]))


async def test_concurrent_episodes_through_the_service_stay_apart(slack: EmbeddedSlack) -> None:
    handlers = {tool.name: tool.handler for tool in service_of("slack", slack, drop=slack.drop).tools}

    async def episode(name: str) -> list[str]:
        for number in range(5):
            await handlers["send_slack_message"]({"channel": "general", "message": f"{name} {number}"}, name)
            await asyncio.sleep(0)
        seen = await handlers["get_slack_channel_history"]({"channel_id": "general", "limit": 5}, name)
        return [message["text"] for message in seen]

    async def play() -> list[list[str]]:
        return await asyncio.gather(*(episode(f"e{number}") for number in range(64)))

    for number, seen in enumerate(await play()):
        assert seen == [f"e{number} {count}" for count in (4, 3, 2, 1, 0)]
