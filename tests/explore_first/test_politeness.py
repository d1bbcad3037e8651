"""Servers that ask for fewer calls, remote servers, and servers with too many tools."""

from pathlib import Path

import pytest

from tests.explore_first.exploring import explored, specs_of
from turnwise.explore.first.acceptance import Accepted
from turnwise.explore.first.caller import ServerCaller
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.politeness import affordable, limits_for, polite
from turnwise.explore.survey.budget import Budget, Limits
from turnwise.explore.survey.rate_limits import asked_rest
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerOptions, ServerSpec
from turnwise.tasks.proof.case import Case, Conclusion
from turnwise.types import Answer, Difficulty

REMOTE = ServerSpec(name="far", url="https://example.org/mcp", options=ServerOptions(rate_per_second=50))


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ("Error 429: slow down. Retry-After: 7", 7.0),
        ("rate limit exceeded, try again in 1.5 seconds", 1.5),
        ("Too many requests", 2.0),
        ("API quota for today exceeded", 2.0),
        ("no fruit 'rates'", None),
        ("order 4290 is unknown", None),
        ("rate limit " + "x" * 3_000, None),
    ],
)
def test_an_error_about_the_rate_of_calls_says_how_long_to_rest(error: str, seconds: float | None) -> None:
    assert asked_rest(error) == seconds


async def test_a_server_that_goes_on_asking_for_fewer_calls_is_left_alone(tmp_path: Path) -> None:
    [spec] = specs_of(tmp_path, "limited")
    async with Pool([spec]) as pool:
        await pool.connect()
        [tool] = [tool for tool in pool.tools if tool.server_tool == "list_fruit"]
        caller = ServerCaller(pool, "limited", Budget(Limits()))
        async with caller.session() as session:
            for _ in range(3):
                assert (await session.call(tool, {})).document is not None
            assert (await session.call(tool, {})).document is None
    assert caller.budget.is_limited
    assert caller.budget.num_calls == 3 + 1 + Limits().num_rests
    assert caller.budget.why_spent.startswith("it limits the rate of calls")


def test_a_long_rest_is_not_waited_for() -> None:
    budget = Budget(Limits())
    assert not budget.may_rest(3_600.0)
    assert budget.is_spent


def test_a_remote_server_gets_few_calls_at_once_and_in_all() -> None:
    options = polite(REMOTE).options
    assert options.max_concurrency <= 4
    assert options.rate_per_second == 5.0
    assert limits_for(REMOTE, 60.0).num_calls < Limits().num_calls / 4


def draft_for(server: str, number: int) -> Draft:
    case = Case({}, "", (), lambda _: Conclusion(Answer(number), str(number)))
    return Draft("look_up", case, ("?",), ("read",), (server,), (), Difficulty.EASY, f"{server}/{number}")


def test_drafts_of_remote_and_limited_servers_are_not_all_verified() -> None:
    accepted = Accepted()
    drafts = [draft_for(server, number) for server in ("near", "far", "limited") for number in range(1_000)]
    chosen = [draft.servers[0] for draft in affordable(drafts, ["far"], ["limited"], accepted)]
    assert chosen.count("near") == 1_000
    assert 0 < chosen.count("far") < 1_000
    assert chosen.count("limited") == 0
    assert sum(accepted.rejections.values()) == 3_000 - len(chosen)


async def test_ten_thousand_tools_cost_no_more_than_the_first_thousand(tmp_path: Path) -> None:
    found = await explored(tmp_path, "ten_thousand", num_tasks=4, minutes=0.1)
    [server] = found.servers
    assert len(server.tools) == 1_000
    assert all(tool.num_tasks or tool.why_not for tool in server.tools)
