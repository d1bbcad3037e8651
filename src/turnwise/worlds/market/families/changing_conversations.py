"""Families over a state that grows or is restored in the course of a conversation."""

from collections.abc import Callable

from turnwise.tasks.proof.answers import NUMBER, looked_up, plain
from turnwise.tasks.proof.case import Case, Conclusion, Exchange, PlanStep, Results, call
from turnwise.types import Answer, Difficulty, ExpectedWrite, StateProbe
from turnwise.worlds.market.families.changes import posted
from turnwise.worlds.market.families.kit import Family, Material, SlackChannel
from turnwise.worlds.market.families.lookups import FIGURES, PRICES, figure_of, known_figure
from turnwise.worlds.market.families.searches import TICKER_ONLY

_KEYS = ("reference_price", "watched_price", "report_price", "limit_price", "base_price")


def _stored(key: str, value: float) -> Conclusion:
    """Return a conclusion that expects this number, and nothing else, under the key."""
    return Conclusion(
        looked_up(value, unit="$"),
        plain(value),
        (ExpectedWrite("store_execution_result", {"context_key": key}),),
        # The closing brace excludes a list or an object that contains the number among others.
        (StateProbe("get_execution_context", {"context_key": key}, f'"{key}":{plain(value)}}}'),),
    )


def _undone(material: Material) -> Case:
    first, second = material.pick_two(material.companies)
    what, key = material.pick(PRICES), material.pick(_KEYS)
    field = FIGURES[what][0]
    old, new = (known_figure(material.market.quote(company.symbol), what) for company in (first, second))
    if old == new or old.is_integer() or new.is_integer():
        raise LookupError("the change would change nothing, or 30 and 30.0 could both be stored")

    def store(place: int) -> PlanStep:
        """Return the step that stores the figure of an earlier result."""
        return PlanStep(
            "store_execution_result", lambda r: {"context_key": key, "data": plain(r[place][field])}
        )

    return Case(
        words={"symbol": first.symbol, "other": second.symbol, "what": what, "key": key},
        form=NUMBER,
        turns=((call("fmp_get_quote", symbol=first.symbol),), (store(0),)),
        conclude=lambda results: _stored(key, results[0][field]),
        known=old,
        later=(
            Exchange(
                form=NUMBER,
                turns=((call("fmp_get_quote", symbol=second.symbol),), (store(2),)),
                conclude=lambda results: _stored(key, results[2][field]),
                known=new,
                required_tools=("fmp_get_quote", "store_execution_result"),
            ),
            Exchange(
                form=NUMBER,
                turns=((store(0),),),
                conclude=lambda results: _stored(key, results[0][field]),
                known=old,
                required_tools=("store_execution_result",),
            ),
        ),
    )


UNDONE_CHANGE = Family(
    name="undone_change",
    difficulty=Difficulty.HARD,
    servers=("fmp", "python"),
    required_tools=("fmp_get_quote", "store_execution_result"),
    phrasings=(
        "Store the {what} of {symbol} from its FMP quote as a plain number under `{key}`, with "
        "store_execution_result.",
        "Take the {what} in {symbol}'s FMP quote and keep the bare number under the context key `{key}` "
        "(store_execution_result).",
        "Please save {symbol}'s {what} from FMP's quote with store_execution_result: key `{key}`, just the "
        "number.",
        "I want `{key}` to hold the {what} that FMP quotes for {symbol}. Store the number alone with "
        "store_execution_result.",
        "With store_execution_result, set `{key}` to the {what} of {symbol} in its FMP quote. The number "
        "only, please.",
        "Get the {what} of {symbol} (FMP quote) and use store_execution_result to keep that single number "
        "as `{key}`.",
    ),
    follow_ups=(
        (
            "Now replace it with the {what} of {other}.",
            "Change `{key}` to the same figure of {other}, please.",
            "I would rather have {other} there. Please store its {what} under the same key.",
            "Switch that to {other}: same figure, same key.",
            "Please overwrite it with {other}'s {what}.",
            "Let us use {other} for this. Update `{key}` with its {what}.",
        ),
        (
            "That was a mistake. Please undo it, so that `{key}` is as it was before.",
            "Actually, undo that last change. Tell me the value that is back in place.",
            "Sorry, please put the earlier value back and tell me what it is.",
            "I changed my mind: restore what `{key}` held before the change, and report it.",
            "Please take the last change back. Which value does `{key}` have then?",
            "On second thought, `{key}` was right the first time. Revert it and tell me the value.",
        ),
    ),
    draft=_undone,
)


def _send(channel: SlackChannel, message: Callable[[Results], str]) -> PlanStep:
    return PlanStep("send_slack_message", lambda r: {"channel": channel.name, "message": message(r)})


def _post(symbol: str, what: str, channel: SlackChannel, known: float, place: int) -> Exchange:
    """Return the exchange that looks up a figure and posts it; `place` is that of its first result."""

    def message(results: Results) -> str:
        return f"{symbol}: {results[place][FIGURES[what][0]]:.2f}"

    def conclude(results: Results) -> Conclusion:
        said = figure_of(results[place], what)
        return posted(said.answer, said.text, channel, message(results))

    return Exchange(
        form=NUMBER,
        turns=((call("fmp_get_quote", symbol=symbol),), (_send(channel, message),)),
        conclude=conclude,
        known=known,
        required_tools=("fmp_get_quote", "send_slack_message"),
    )


def _newest(results: Results) -> Conclusion:
    """Return the text of the only message in the last result as the answer."""
    [message] = results[-1]
    return Conclusion(Answer(message["text"]), message["text"])


def _five_requests(material: Material) -> Case:
    first, second = material.pick_two(material.companies)
    third = material.pick([company for company in material.companies if company not in (first, second)])
    what, channel = material.pick(PRICES), material.pick(material.channels)
    symbols = [company.symbol for company in (first, second, third)]
    prices = {symbol: known_figure(material.market.quote(symbol), what) for symbol in symbols}
    if len(set(prices.values())) < len(prices):
        raise LookupError("two are equal")

    def highest(results: Results) -> str:
        quotes = (results[0], results[2], results[4])
        symbol: str = max(quotes, key=lambda quote: quote[FIGURES[what][0]])["symbol"]
        return symbol

    def summary(results: Results) -> str:
        return f"{highest(results)} is highest"

    start, *others = [
        _post(symbol, what, channel, prices[symbol], 2 * number) for number, symbol in enumerate(symbols)
    ]
    compare = Exchange(
        form=TICKER_ONLY,
        turns=((_send(channel, summary),),),
        conclude=lambda r: posted(Answer(highest(r)), highest(r), channel, summary(r)),
        known=max(prices, key=lambda symbol: prices[symbol]),
        required_tools=("send_slack_message",),
    )
    newest = PlanStep("get_slack_channel_history", lambda r: {"channel_id": r[6]["channel"], "limit": 1})
    read_back = Exchange(
        form="Answer with the text of that message only.",
        turns=((newest,),),
        conclude=_newest,
        required_tools=("get_slack_channel_history",),
    )
    words = dict(zip(("first", "second", "third"), symbols, strict=True))
    return Case(
        words={**words, "channel": channel.name, "what": what},
        form=start.form,
        turns=start.turns,
        conclude=start.conclude,
        known=start.known,
        later=(*others, compare, read_back),
    )


FIVE_REQUESTS = Family(
    name="five_requests",
    difficulty=Difficulty.HARD,
    servers=("fmp", "slack"),
    required_tools=("fmp_get_quote", "send_slack_message"),
    phrasings=(
        "Post the {what} of {first} from its FMP quote to the {channel} channel on Slack as exactly "
        "`{first}: N`, N with two decimals.",
        "Please send `{first}: N` to Slack's {channel} channel. N is the {what} in {first}'s FMP quote, with "
        "two decimals.",
        "The {channel} channel on Slack wants the {what} of {first}. Take it from the FMP quote and post "
        "`{first}: N`, N to two decimals.",
        "Look up {first} on FMP and post the {what} from its quote to Slack's {channel} channel: `{first}: "
        "N`, two decimals.",
        "Write `{first}: N` in the Slack channel {channel}, where N is {first}'s {what} in FMP's quote with "
        "two decimals.",
        "In Slack's {channel} channel, please post `{first}: N` with the {what} that FMP quotes for {first}, "
        "to two decimals.",
    ),
    follow_ups=(
        (
            "The same for {second}, please.",
            "Now {second}.",
            "And {second}, in the same way.",
            "Do that for {second} too.",
            "Next one: {second}.",
            "Please post {second} like that as well.",
        ),
        (
            "And {third}.",
            "The last one is {third}.",
            "Now the same for {third}.",
            "{third} too, please.",
            "One more: {third}.",
            "Then {third}, please.",
        ),
        (
            "Which of the three is highest? Post it there as `TICKER is highest`.",
            "Now post `TICKER is highest` there, for the highest of the three.",
            "Please tell the channel which one is highest: `TICKER is highest`.",
            "Add one message to the channel, `TICKER is highest`, with the right one of the three.",
            "Compare the three and post `TICKER is highest` to the same channel.",
            "Finish the list with `TICKER is highest`, for whichever of the three it is.",
        ),
        (
            "Read the channel's history: what is its newest message?",
            "Let us check. What is the newest message in that channel's history?",
            "Please fetch the history of the channel and tell me its latest message.",
            "Did it work? Look at the channel's history for the last message.",
            "Get the channel's history, please. What does the most recent message say?",
            "To be sure, read the last message in the history of that channel.",
        ),
    ),
    draft=_five_requests,
)

CHANGING_CONVERSATIONS = (UNDONE_CHANGE, FIVE_REQUESTS)
