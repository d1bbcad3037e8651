"""Generated worlds as servers: equal for a seed, different for a number, and they keep episodes apart."""

import json

import pytest

from tests.worlds.generated.playing import called
from turnwise.mcp.calls.schemas import Schema
from turnwise.mcp.pool import Pool
from turnwise.types import ToolCall
from turnwise.worlds.generated.world import World, make_world, named_world, server_of

WORLDS = [make_world(0, number) for number in range(60)]


def listing(world: World) -> str:
    return json.dumps([[tool.name, tool.description, tool.input_schema] for tool in world.tools])


def test_a_seed_always_makes_the_same_world() -> None:
    for world in WORLDS[:10]:
        again = make_world(0, int(world.name.rsplit("-", 1)[1]))
        assert listing(again) == listing(world)
        assert json.dumps(again.start.tables) == json.dumps(world.start.tables)


def test_worlds_differ_in_their_tools_and_rows() -> None:
    assert len({listing(world) for world in WORLDS}) == len(WORLDS)
    assert len({json.dumps(world.start.tables) for world in WORLDS}) == len(WORLDS)


def test_worlds_of_one_domain_differ_in_structure() -> None:
    first, second = make_world(0, 0), make_world(0, 40)
    assert first.domain.theme == second.domain.theme
    assert listing(first) != listing(second)


def test_tools_have_names_of_their_own_and_valid_schemas() -> None:
    for world in WORLDS:
        names = [tool.name for tool in world.tools]
        assert len(set(names)) == len(names), world.name
        assert not [why for tool in world.tools if (why := Schema(tool.name, tool.input_schema).why_invalid)]


def test_rows_agree_with_themselves() -> None:
    for world in WORLDS:
        for row in world.start.rows("record"):
            assert row["start"] < row["end"]
        for row in world.start.rows("person"):
            assert row["address"]["postcode"][:2].isalpha()


@pytest.mark.parametrize("world", WORLDS[:6], ids=lambda world: world.name)
async def test_every_read_without_arguments_answers(world: World) -> None:
    reads = [
        tool for tool in world.tools if tool.operation.is_read_only and "required" not in tool.input_schema
    ]
    results = await called(world, *((tool.name, {}) for tool in reads))
    assert reads
    assert not [result.content for result in results if result.is_error]


async def test_an_episode_sees_its_own_changes_only() -> None:
    world = WORLDS[3]
    person = next(iter(world.start.rows("person")))
    change = world.tool("set", "person", "address")
    show = world.tool("get", "person")
    address = {"street": "1 Test Lane", "city": "Porto", "postcode": "PT-1"}
    sent = world.translator.styled(change, world.start, {"ref": person["id"], "address": address})
    asked = world.translator.styled(show, world.start, {"ref": person["id"]})
    async with Pool([server_of(world)]) as pool:
        async with pool.lease([world.name], "one") as one, pool.lease([world.name], "two") as two:
            if world.domain.rules.needs_session:
                await one.call([ToolCall("0", world.tool("open_session").name, {})])
            [changed] = await one.call([ToolCall("1", change.name, sent)])
            [mine] = await one.call([ToolCall("2", show.name, asked)])
            [other] = await two.call([ToolCall("1", show.name, asked)])
        async with pool.lease([world.name], "one") as later:
            [fresh] = await later.call([ToolCall("1", show.name, asked)])
    assert not changed.is_error, changed.content
    assert "1 Test Lane" in mine.content
    assert "1 Test Lane" not in other.content
    assert "1 Test Lane" not in fresh.content


async def test_equal_tool_names_of_two_worlds_do_not_collide() -> None:
    pairs: dict[str, list[World]] = {}
    for world in WORLDS:
        for tool in world.tools:
            pairs.setdefault(tool.name, []).append(world)
    name, (first, second, *_) = next(item for item in pairs.items() if len(item[1]) > 1)
    async with Pool([server_of(first), server_of(second)]) as pool:
        async with pool.lease([first.name], "one") as one:
            assert name in [tool.name for tool in one.tools]
        with pytest.raises(ValueError, match="name it alone"):
            async with pool.lease([first.name, second.name], "both"):
                pass


@pytest.mark.parametrize("name", ["world-0", "world-0-x", "worlds-0-1", "fmp", "world-0-1-2"])
def test_other_names_are_no_worlds(name: str) -> None:
    with pytest.raises(ValueError, match="world-SEED-NUMBER"):
        named_world(name)
