"""Families over a state that grows or is restored in the course of a conversation."""

from turnwise.tasks.proof.answers import NUMBER, looked_up, plain
from turnwise.tasks.proof.case import Case, Conclusion, Exchange, PlanStep, Results
from turnwise.types import Answer, ExpectedWrite, StateProbe
from turnwise.worlds.market.families.changes import posted
from turnwise.worlds.market.families.kit import Draft, Material, SlackChannel
from turnwise.worlds.market.families.lookups import FIGURES, PRICES, figure_of, known_figure
from turnwise.worlds.market.families.searches import TICKER_ONLY
from turnwise.worlds.market.families.steps import read_quote, send, text_of

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
        turns=((read_quote(first.symbol),), (store(0),)),
        conclude=lambda results: _stored(key, results[0][field]),
        known=old,
        later=(
            Exchange(
                form=NUMBER,
                turns=((read_quote(second.symbol),), (store(2),)),
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


def _post(symbol: str, what: str, channel: SlackChannel, known: float, place: int) -> Exchange:
    """Return the exchange that looks up a figure and posts it; `place` is that of its first result."""

    def message(results: Results) -> str:
        return f"{symbol}: {results[place][FIGURES[what][0]]:.2f}"

    def conclude(results: Results) -> Conclusion:
        said = figure_of(results[place], what)
        return posted(said.answer, said.text, channel, message(results))

    return Exchange(
        form=NUMBER,
        turns=((read_quote(symbol),), (send(channel, message),)),
        conclude=conclude,
        known=known,
        required_tools=("fmp_get_quote", "send_slack_message"),
    )


def _newest(results: Results) -> Conclusion:
    """Return the text of the only message in the last result as the answer."""
    [message] = results[-1]
    return text_of(message["text"])


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
        turns=((send(channel, summary),),),
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


CHANGING_CONVERSATIONS: dict[str, Draft] = {
    "undone_change": _undone,
    "five_requests": _five_requests,
}
