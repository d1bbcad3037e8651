"""Servers that ask for fewer calls, and remote servers."""

import pytest

from turnwise.explore.politeness import affordable, polite
from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.program import Program, Step
from turnwise.explore.survey.budget import Budget, Limits
from turnwise.explore.survey.rate_limits import asked_rest
from turnwise.explore.verdicts.acceptance import Accepted
from turnwise.mcp.spec import ServerOptions, ServerSpec

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


def test_a_long_rest_is_not_waited_for() -> None:
    budget = Budget(Limits())
    assert not budget.may_rest(3_600.0)
    assert budget.is_spent


def test_a_remote_server_gets_few_calls_at_once() -> None:
    options = polite(REMOTE).options
    assert options.max_concurrency <= 4
    assert options.rate_per_second == 5.0


def draft_for(server: str, number: int) -> Draft:
    return Draft(Program("look_up", (Step(server, "read", {"id": number}),)), ("?",), ())


def test_drafts_of_remote_and_limited_servers_are_not_all_verified() -> None:
    accepted = Accepted()
    drafts = [draft_for(server, number) for server in ("near", "far", "limited") for number in range(1_000)]
    chosen = [draft.servers[0] for draft in affordable(drafts, ["far"], ["limited"], accepted)]
    assert chosen.count("near") == 1_000
    assert 0 < chosen.count("far") < 1_000
    assert chosen.count("limited") == 0
    assert sum(accepted.rejections.values()) == 3_000 - len(chosen)
