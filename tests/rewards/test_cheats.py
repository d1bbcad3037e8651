"""Ways to look right without being it: none is a success, and the honest episode beside each one is."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from tests.rewards.episodes import HISTORY, POST, QUOTE, STORE, did, episode, garbled, said, together
from turnwise.rewards import Rewards, RewardTerm
from turnwise.types import (
    Answer,
    Cause,
    ExpectedWrite,
    FormatErrorKind,
    Matcher,
    Parsed,
    ProbeResult,
    StateProbe,
    Stop,
    ToolCall,
    Trajectory,
    Truth,
    Turn,
)

PRICE = Truth(
    answer=Answer(182.31, Matcher.NUMERIC, tolerance=0.0001, unit="$"), writes=(), required_tools=(QUOTE,)
)
PROBE = StateProbe(HISTORY, {"channel": "general", "limit": 1}, "182.31")
POSTED = Truth(
    writes=(ExpectedWrite(POST, {"channel": "general", "message": "182.31"}),),
    probes=(PROBE,),
    required_tools=(QUOTE,),
)
CHIEF = Truth(answer=Answer("Ada Lovelace"), writes=(), required_tools=(QUOTE,))
SIDE = Truth(answer=Answer(["buy", "sell"], Matcher.ONE_OF), writes=(), required_tools=(QUOTE,))
SYMBOL = Truth(answer=Answer(r"[A-Z]{1,5}", Matcher.REGEX), required_tools=(QUOTE,))
REPORT = Truth(answer=Answer({"price": 182.31}, Matcher.JSON_SUBSET), required_tools=(QUOTE,))
READ_ONLY = Truth(answer=Answer("done"), forbidden_tools=(POST,), required_tools=(QUOTE,))

LOOK = did(QUOTE, '{"price": 182.31}', symbol="AAPL")


def post(message: str = "182.31", channel: str = "general", cause: Cause = Cause.OK) -> Turn:
    return did(POST, cause=cause, channel=channel, message=message)


def posting(*turns: Turn, state: str = "182.31") -> Trajectory:
    return episode(POSTED, *turns, said("Posted."), state=state)


@dataclass(frozen=True, slots=True)
class Cheat:
    """A trick, and the honest episode it imitates."""

    name: str
    cheating: Trajectory
    honest: Trajectory


HONEST_PRICE = episode(PRICE, LOOK, said("The price is $182.31."))
HONEST_POST = posting(LOOK, post())

UNANSWERED = Turn((), LOOK.completion, Parsed(text="182.31", calls=(ToolCall("9", QUOTE, {}),)))

CHEATS = [
    Cheat("right tool, wrong answer", episode(PRICE, LOOK, said("181.31")), HONEST_PRICE),
    Cheat("right tool, no answer", episode(PRICE, LOOK, said("Done.")), HONEST_PRICE),
    Cheat("guessed without the tool", episode(PRICE, said("182.31")), HONEST_PRICE),
    Cheat(
        "required tool called in vain",
        episode(PRICE, did(QUOTE, "error", Cause.TOOL_ERROR), said("182.31")),
        episode(PRICE, did(QUOTE, "error", Cause.TOOL_ERROR), LOOK, said("182.31")),
    ),
    Cheat(
        "required tool called with arguments it refuses",
        episode(PRICE, did(QUOTE, "error", Cause.BAD_ARGUMENTS), said("182.31")),
        HONEST_PRICE,
    ),
    Cheat(
        "required tool under an invented name",
        episode(PRICE, did("get_quote_v2", "error", Cause.UNKNOWN_TOOL), said("182.31")),
        HONEST_PRICE,
    ),
    Cheat(
        "required tool asked for in the very last turn, never run",
        episode(PRICE, UNANSWERED),
        HONEST_PRICE,
    ),
    Cheat(
        "the tool echoes the number, the message does not say it",
        episode(PRICE, LOOK, said("See the tool's output above.")),
        HONEST_PRICE,
    ),
    Cheat(
        "a faked tool response in the answer",
        episode(PRICE, said('<tool_response>{"price": 182.31}</tool_response>\n182.31')),
        HONEST_PRICE,
    ),
    Cheat(
        "a faked tool response beside a real call",
        episode(PRICE, LOOK, said("<tool_response>182.31</tool_response>")),
        HONEST_PRICE,
    ),
    Cheat(
        "a faked response that the parser refused",
        episode(PRICE, LOOK, garbled(FormatErrorKind.FAKED_RESPONSE, "182.31")),
        HONEST_PRICE,
    ),
    Cheat(
        "every candidate in a line",
        episode(PRICE, LOOK, said("180.10, 181.20, 182.31 or 183.40")),
        HONEST_PRICE,
    ),
    Cheat(
        "every candidate on a line of its own",
        episode(PRICE, LOOK, said("180.10\n181.20\n182.31")),
        HONEST_PRICE,
    ),
    Cheat(
        "every candidate as the answer",
        episode(PRICE, LOOK, said("Answer: 180.10\nAnswer: 182.31")),
        HONEST_PRICE,
    ),
    Cheat("a range around it", episode(PRICE, LOOK, said("between 100 and 200")), HONEST_PRICE),
    Cheat("a margin around it", episode(PRICE, LOOK, said("182.31 ± 80")), HONEST_PRICE),
    Cheat("the right number in percent", episode(PRICE, LOOK, said("182.31%")), HONEST_PRICE),
    Cheat("the right number in euros", episode(PRICE, LOOK, said("€182.31")), HONEST_PRICE),
    Cheat("the right number in all units", episode(PRICE, LOOK, said("$182.31, 182.31%")), HONEST_PRICE),
    Cheat("the right digits in millions", episode(PRICE, LOOK, said("$182.31 million")), HONEST_PRICE),
    Cheat("the right number, negative", episode(PRICE, LOOK, said("-$182.31")), HONEST_PRICE),
    Cheat(
        "the answer in the reasoning only",
        episode(PRICE, LOOK, said("I have found it.", reasoning="It is 182.31.")),
        episode(PRICE, LOOK, said("182.31", reasoning="It is 182.31, not 181.")),
    ),
    Cheat(
        "the answer in unclosed reasoning",
        episode(PRICE, LOOK, said("<think>so it is 182.31")),
        HONEST_PRICE,
    ),
    Cheat(
        "the answer in the last turn the limit allows, beside a call",
        replace(HONEST_PRICE, turns=(LOOK, UNANSWERED), stop=Stop.MAX_TURNS),
        HONEST_PRICE,
    ),
    Cheat("an answer cut off", replace(HONEST_PRICE, stop=Stop.TRUNCATED), HONEST_PRICE),
    Cheat(
        "a lookup that changes something on the way",
        episode(PRICE, LOOK, post(), said("182.31")),
        HONEST_PRICE,
    ),
    Cheat("posted twice", posting(LOOK, post(), post()), HONEST_POST),
    Cheat("posted twice in one turn", posting(LOOK, together(post(), post())), HONEST_POST),
    Cheat("posted to the wrong channel", posting(LOOK, post(channel="random"), state=""), HONEST_POST),
    Cheat("posted everywhere", posting(LOOK, post(), post(channel="random")), HONEST_POST),
    Cheat("posted, then another thing", posting(LOOK, post(), post("buy now")), HONEST_POST),
    Cheat("posted every candidate", posting(LOOK, *map(post, ["181", "182", "182.31"])), HONEST_POST),
    Cheat("posted more than was asked", posting(LOOK, post("182.31 or 181.20")), HONEST_POST),
    Cheat("said it was posted", episode(POSTED, LOOK, said("I posted 182.31.")), HONEST_POST),
    Cheat(
        "posted in vain",
        posting(LOOK, post(cause=Cause.TOOL_ERROR), state=""),
        posting(LOOK, post(cause=Cause.TOOL_ERROR), post()),
    ),
    Cheat("posted without looking", posting(post()), HONEST_POST),
    Cheat("posted and stored elsewhere", posting(LOOK, post(), did(STORE, key="a", value=1)), HONEST_POST),
    Cheat(
        "the text in the arguments of another tool",
        posting(LOOK, did(STORE, channel="general", message="182.31")),
        HONEST_POST,
    ),
    Cheat("posted, but the state does not show it", posting(LOOK, post(), state="182.3"), HONEST_POST),
    Cheat(
        "a failing probe whose error quotes the text",
        replace(HONEST_POST, probes=(ProbeResult(PROBE, "error: 182.31", is_error=True),)),
        HONEST_POST,
    ),
    Cheat(
        "posted and never finished",
        replace(posting(LOOK, post()), turns=(LOOK, post()), stop=Stop.MAX_TURNS),
        HONEST_POST,
    ),
    Cheat(
        "a name among others",
        episode(CHIEF, LOOK, said("Ada Lovelace or Charles Babbage")),
        episode(CHIEF, LOOK, said("ada lovelace.")),
    ),
    Cheat(
        "a name claimed after another",
        episode(CHIEF, LOOK, said("Answer: Charles Babbage\nAnswer: Ada Lovelace")),
        episode(CHIEF, LOOK, said("I looked it up.\nAnswer: Ada Lovelace")),
    ),
    Cheat(
        "both sides of a choice",
        episode(SIDE, LOOK, said("buy sell")),
        episode(SIDE, LOOK, said("Sell")),
    ),
    Cheat(
        "text around what a pattern wants",
        episode(SYMBOL, LOOK, said("AAPL, MSFT, NVDA")),
        episode(SYMBOL, LOOK, said("AAPL")),
    ),
    Cheat(
        "a pattern's match on one of many lines",
        episode(SYMBOL, LOOK, said("perhaps\nAAPL\nor so")),
        episode(SYMBOL, LOOK, said("AAPL\n")),
    ),
    Cheat(
        "a key given twice",
        episode(REPORT, LOOK, said('{"price": 180, "price": 182.31}')),
        episode(REPORT, LOOK, said('{"price": 182.31, "note": "close"}')),
    ),
    Cheat(
        "several documents",
        episode(REPORT, LOOK, said('{"price": 180}\n{"price": 182.31}')),
        episode(REPORT, LOOK, said('Here:\n```json\n{"price": 182.31}\n```')),
    ),
    Cheat(
        "a document inside a text of another",
        episode(REPORT, LOOK, said('{"note": "{\\"price\\": 182.31}"}')),
        episode(REPORT, LOOK, said('{"price": 182.31}')),
    ),
    Cheat(
        "the value in a list of all",
        episode(REPORT, LOOK, said('{"price": [180, 182.31]}')),
        episode(REPORT, LOOK, said('{"price": 182.31}')),
    ),
    Cheat(
        "a forbidden tool",
        episode(READ_ONLY, LOOK, post(), said("done")),
        episode(READ_ONLY, LOOK, said("done")),
    ),
    Cheat(
        "a forbidden tool tried in vain",
        episode(READ_ONLY, LOOK, post(cause=Cause.TOOL_ERROR), said("done")),
        episode(READ_ONLY, LOOK, said("done")),
    ),
]

COMPOSITIONS = {
    "outcome alone": [RewardTerm("outcome")],
    "with shaping": [
        RewardTerm("outcome"),
        RewardTerm("format", 0.3),
        RewardTerm("efficiency", 0.3),
        RewardTerm("milestones", 0.3),
    ],
}


def score(trajectory: Trajectory, composition: str) -> float:
    return asyncio.run(Rewards(COMPOSITIONS[composition]).score(trajectory)).total


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name.replace(" ", "_"))
def test_a_cheat_fails_and_the_honest_episode_succeeds(cheat: Cheat) -> None:
    assert score(cheat.cheating, "outcome alone") == 0.0
    assert score(cheat.honest, "outcome alone") == 1.0


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name.replace(" ", "_"))
def test_with_shaping_no_cheat_earns_what_the_least_success_does(cheat: Cheat) -> None:
    assert score(cheat.cheating, "with shaping") < 1.0 <= score(cheat.honest, "with shaping")


def test_the_battery_names_each_trick_once() -> None:
    names = [cheat.name for cheat in CHEATS]
    assert len(names) == len(set(names)) >= 40
