"""Ways to look right without being right: none is a success, and the honest episode next to it is."""

from dataclasses import replace

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

PROBE = StateProbe(HISTORY, {"channel": "general", "limit": 1}, "182.31")
POSTED = Truth(
    writes=(ExpectedWrite(POST, {"channel": "general", "message": "182.31"}),),
    probes=(PROBE,),
    required_tools=(QUOTE,),
)
PRICE_ANSWER = Answer(182.31, Matcher.NUMERIC, tolerance=0.0001, unit="$")
PRICE = Truth(answer=PRICE_ANSWER, writes=(), required_tools=(QUOTE,))
CHIEF = Truth(answer=Answer("Ada Lovelace"), writes=(), required_tools=(QUOTE,))
SIDE = Truth(answer=Answer(["buy", "sell"], Matcher.ONE_OF), writes=(), required_tools=(QUOTE,))
SYMBOL = Truth(answer=Answer(r"[A-Z]{1,5}", Matcher.REGEX), required_tools=(QUOTE,))
REPORT = Truth(answer=Answer({"price": 182.31}, Matcher.JSON_SUBSET), required_tools=(QUOTE,))
READ_ONLY = Truth(answer=Answer("done"), forbidden_tools=(POST,), required_tools=(QUOTE,))

LOOK = did(QUOTE, '{"price": 182.31}', symbol="AAPL")
FAILED_LOOK = did(QUOTE, "error", Cause.TOOL_ERROR)
UNANSWERED = Turn((), LOOK.completion, Parsed(text="182.31", calls=(ToolCall("9", QUOTE, {}),)))


def post(message: str = "182.31", channel: str = "general", cause: Cause = Cause.OK) -> Turn:
    return did(POST, cause=cause, channel=channel, message=message)


def posting(*turns: Turn, state: str = "182.31") -> Trajectory:
    return episode(POSTED, *turns, said("Posted."), state=state)


HONEST_PRICE = episode(PRICE, LOOK, said("The price is $182.31."))
HONEST_POST = posting(LOOK, post())
FAILED_POST = post(cause=Cause.TOOL_ERROR)

FINAL_MESSAGES: dict[str, tuple[Truth, str, str]] = {
    "a name among others": (CHIEF, "Ada Lovelace or Charles Babbage", "ada lovelace."),
    "a name claimed after another": (
        *(CHIEF, "Answer: Charles Babbage\nAnswer: Ada Lovelace", "I looked it up.\nAnswer: Ada Lovelace"),
    ),
    "both sides of a choice": (SIDE, "buy sell", "Sell"),
    "text around what a pattern wants": (SYMBOL, "AAPL, MSFT, NVDA", "AAPL"),
    "a pattern's match on one of many lines": (SYMBOL, "perhaps\nAAPL\nor so", "AAPL\n"),
    "a key given twice": (
        *(REPORT, '{"price": 180, "price": 182.31}', '{"price": 182.31, "note": "close"}'),
    ),
    "several documents": (
        *(REPORT, '{"price": 180}\n{"price": 182.31}', 'Here:\n```json\n{"price": 182.31}\n```'),
    ),
    "a document inside a text of another": (
        *(REPORT, '{"note": "{\\"price\\": 182.31}"}', '{"price": 182.31}'),
    ),
    "the value in a list of all": (REPORT, '{"price": [180, 182.31]}', '{"price": 182.31}'),
    **{
        name: (PRICE, text, "The price is $182.31.")
        for name, text in {
            "right tool, wrong answer": "181.31",
            "right tool, no answer": "Done.",
            "only the tool states the number": "See the tool's output above.",
            "a faked tool response next to a real call": "<tool_response>182.31</tool_response>",
            "every candidate in a line": "180.10, 181.20, 182.31 or 183.40",
            "every candidate on a separate line": "180.10\n181.20\n182.31",
            "every candidate as the answer": "Answer: 180.10\nAnswer: 182.31",
            "a range around it": "between 100 and 200",
            "a margin around it": "182.31 ± 80",
            "the right number in percent": "182.31%",
            "the right number in euros": "€182.31",
            "the right number in all units": "$182.31, 182.31%",
            "the right digits in millions": "$182.31 million",
            "the right number, negative": "-$182.31",
            "the answer in unclosed reasoning": "<think>so it is 182.31",
        }.items()
    },
}
"""A truth, the message of a cheat and an honest one; both looked the price up."""

PRICES: dict[str, Trajectory] = {
    "guessed without the tool": episode(PRICE, said("182.31")),
    "required tool called with arguments it refuses": (
        episode(PRICE, did(QUOTE, "error", Cause.BAD_ARGUMENTS), said("182.31"))
    ),
    "required tool under an invented name": (
        episode(PRICE, did("get_quote_v2", "error", Cause.UNKNOWN_TOOL), said("182.31"))
    ),
    "required tool asked for in the very last turn, never run": episode(PRICE, UNANSWERED),
    "a faked tool response in the answer": (
        episode(PRICE, said('<tool_response>{"price": 182.31}</tool_response>\n182.31'))
    ),
    "a faked response that the parser refused": (
        episode(PRICE, LOOK, garbled(FormatErrorKind.FAKED_RESPONSE, "182.31"))
    ),
    "the answer in the last turn that the limit allows, with a call": (
        replace(HONEST_PRICE, turns=(LOOK, UNANSWERED), stop=Stop.MAX_TURNS)
    ),
    "an answer cut off": replace(HONEST_PRICE, stop=Stop.TRUNCATED),
    "a lookup that changes something as well": episode(PRICE, LOOK, post(), said("182.31")),
}
POSTS: dict[str, Trajectory] = {
    "posted twice": posting(LOOK, post(), post()),
    "posted twice in one turn": posting(LOOK, together(post(), post())),
    "posted to the wrong channel": posting(LOOK, post(channel="random"), state=""),
    "posted everywhere": posting(LOOK, post(), post(channel="random")),
    "posted, then another thing": posting(LOOK, post(), post("buy now")),
    "posted every candidate": posting(LOOK, *map(post, ["181", "182", "182.31"])),
    "posted more than was asked": posting(LOOK, post("182.31 or 181.20")),
    "said it was posted": episode(POSTED, LOOK, said("I posted 182.31.")),
    "posted without looking": posting(post()),
    "posted and stored elsewhere": posting(LOOK, post(), did(STORE, key="a", value=1)),
    "the text in the arguments of another tool": (
        posting(LOOK, did(STORE, channel="general", message="182.31"))
    ),
    "posted, but the state does not show it": posting(LOOK, post(), state="182.3"),
    "a failing probe whose error quotes the text": (
        replace(HONEST_POST, probes=(ProbeResult(PROBE, "error: 182.31", is_error=True),))
    ),
    "posted and never finished": replace(HONEST_POST, turns=(LOOK, post()), stop=Stop.MAX_TURNS),
}
CHEATS: dict[str, tuple[Trajectory, Trajectory]] = {
    **{
        name: (episode(truth, LOOK, said(cheat)), episode(truth, LOOK, said(honest)))
        for name, (truth, cheat, honest) in FINAL_MESSAGES.items()
    },
    **{name: (cheat, HONEST_PRICE) for name, cheat in PRICES.items()},
    **{name: (cheat, HONEST_POST) for name, cheat in POSTS.items()},
    "required tool called in vain": (
        episode(PRICE, FAILED_LOOK, said("182.31")),
        episode(PRICE, FAILED_LOOK, LOOK, said("182.31")),
    ),
    "the answer in the reasoning only": (
        episode(PRICE, LOOK, said("I have found it.", reasoning="It is 182.31.")),
        episode(PRICE, LOOK, said("182.31", reasoning="It is 182.31, not 181.")),
    ),
    "posted in vain": (posting(LOOK, FAILED_POST, state=""), posting(LOOK, FAILED_POST, post())),
    "a forbidden tool": (
        episode(READ_ONLY, LOOK, post(), said("done")),
        episode(READ_ONLY, LOOK, said("done")),
    ),
    "a forbidden tool tried in vain": (
        episode(READ_ONLY, LOOK, FAILED_POST, said("done")),
        episode(READ_ONLY, LOOK, said("done")),
    ),
}
SHAPED = [RewardTerm("outcome"), *(RewardTerm(name, 0.3) for name in ("format", "efficiency", "milestones"))]


@pytest.mark.parametrize(("cheat", "honest"), CHEATS.values(), ids=CHEATS)
async def test_a_cheat_fails_and_the_honest_episode_succeeds(cheat: Trajectory, honest: Trajectory) -> None:
    outcome = Rewards([RewardTerm("outcome")])
    assert (await outcome.score(cheat)).total == 0.0
    assert (await outcome.score(honest)).total == 1.0
    shaped = Rewards(SHAPED)
    assert (await shaped.score(cheat)).total < 1.0 <= (await shaped.score(honest)).total
