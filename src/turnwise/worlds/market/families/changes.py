"""Families over state: channels read, messages posted, values kept; what must change is part of the truth."""

import re

from turnwise.tasks.proof.answers import (
    NUMBER,
    TWO_DECIMALS,
    computed,
    found,
    is_clear,
    looked_up,
    plain,
    printed,
    row_where,
)
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results, call
from turnwise.types import Answer, ExpectedWrite, StateProbe
from turnwise.worlds.market.families.kit import HISTORY_LIMIT, Draft, Material, SlackChannel
from turnwise.worlds.market.families.lookups import FIGURES, PRICES, figure_of, known_figure
from turnwise.worlds.market.families.steps import number_of, of_company, read_quote, run_python, search, send

_PRICE = r"\$([\d,]+\.\d{2})"


def _read(channel: SlackChannel) -> tuple[tuple[PlanStep, ...], ...]:
    """Return the turns that look up a channel's id and then read its messages."""
    return (
        (call("list_slack_channels"),),
        (
            PlanStep(
                "get_slack_channel_history",
                lambda r: {
                    "channel_id": row_where(r[0], "name", channel.name)["id"],
                    "limit": HISTORY_LIMIT,
                },
            ),
        ),
    )


def _latest_price(texts: list[str], symbol: str) -> str:
    """Return the price in the first (newest) message that names the symbol and a price."""
    for text in texts:
        if re.search(rf"\b{symbol}\b", text) and re.search(_PRICE, text):
            return found(_PRICE, text).replace(",", "")
    raise LookupError(f"no message names {symbol} and a price")


def _mentions(material: Material) -> list[tuple[SlackChannel, str, float]]:
    """Return (channel, symbol, latest price named there) for the companies of this split."""
    own = {company.symbol for company in material.companies}
    latest: dict[tuple[str, str], tuple[SlackChannel, str, float]] = {}
    for channel in material.channels:
        for text in channel.texts:
            prices = re.findall(_PRICE, text)
            for symbol in re.findall(r"\b[A-Z]+\b", text) if prices else ():
                if symbol in own:
                    said = (channel, symbol, float(prices[0].replace(",", "")))
                    latest.setdefault((channel.id, symbol), said)
    return list(latest.values())


def posted(answer: Answer, text: str, channel: SlackChannel, message: str) -> Conclusion:
    """Return a conclusion that expects the message to be posted once, and no other change.

    The channel is checked by the probe. It is not an expected argument, because a post by id and one by name
    are the same change.
    """
    write = ExpectedWrite("send_slack_message", {"message": message})
    history = {"channel_id": channel.id, "limit": 5}
    return Conclusion(answer, text, (write,), (StateProbe("get_slack_channel_history", history, message),))


def _lookup(material: Material) -> Case:
    channel, symbol, said = material.pick(_mentions(material))

    def conclude(results: Results) -> Conclusion:
        price = float(_latest_price([row["text"] for row in results[1]], symbol))
        return number_of(price, unit="$")

    return Case(
        words={"channel": channel.name, "symbol": symbol},
        form=NUMBER,
        turns=_read(channel),
        conclude=conclude,
        known=said,
    )


def _post(material: Material) -> Case:
    company, channel = material.pick(material.companies), material.pick(material.channels)
    what = material.pick(PRICES)

    def message(results: Results) -> str:
        return f"{company.symbol} {what}: {results[0][FIGURES[what][0]]:.2f}"

    def conclude(results: Results) -> Conclusion:
        said = figure_of(results[0], what)
        return posted(said.answer, said.text, channel, message(results))

    return Case(
        words={
            "symbol": company.symbol,
            "channel": channel.name,
            "what": what,
            "message": f"{company.symbol} {what}: N",
        },
        form=NUMBER,
        turns=(
            (read_quote(company.symbol),),
            (send(channel, message),),
        ),
        conclude=conclude,
        known=known_figure(material.market.quote(company.symbol), what),
    )


def _store(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(PRICES)
    key = f"{company.symbol.lower()}_{what.replace(' ', '_')}"

    def conclude(results: Results) -> Conclusion:
        value = results[2][key]
        return Conclusion(
            looked_up(value, unit="$"),
            plain(value),
            # `data` is left out: 12.3, 12.30 and {"price": 12.3} all store the value; the probe checks it.
            (ExpectedWrite("store_execution_result", {"context_key": key}),),
            (StateProbe("get_execution_context", {"context_key": key}, plain(value)),),
        )

    return Case(
        words={"symbol": company.symbol, "what": what, "key": key},
        form=NUMBER,
        turns=(
            (read_quote(company.symbol),),
            (
                PlanStep(
                    "store_execution_result",
                    lambda r: {"context_key": key, "data": plain(r[0][FIGURES[what][0]])},
                ),
            ),
            (call("get_execution_context", context_key=key),),
        ),
        conclude=conclude,
        known=known_figure(material.market.quote(company.symbol), what),
    )


def _report(material: Material) -> Case:
    market = material.market

    def implied(symbol: str) -> float:
        quote = market.quote(symbol)
        return quote.previous_close * (1 + quote.change_percent / 100)

    company = material.pick([company for company in material.companies if is_clear(implied(company.symbol))])
    channel = material.pick(material.channels)

    def code(results: Results) -> str:
        close, change = results[1]["c"], results[2]["changePercentage"]
        return f"print(f'{{{close} * (1 + {change} / 100):.2f}}')"

    def message(results: Results) -> str:
        return f"{company.symbol} implied price: {printed(results[3])}"

    def conclude(results: Results) -> Conclusion:
        value = float(printed(results[3]))
        return posted(computed(value, unit="$"), printed(results[3]), channel, message(results))

    return Case(
        words={
            "name": company.name,
            "channel": channel.name,
        },
        form=TWO_DECIMALS,
        turns=(
            (search(company.name),),
            (
                of_company("polygon_get_previous_close", company.name, key="ticker"),
                of_company("fmp_get_change_percent", company.name),
            ),
            (run_python(code),),
            (send(channel, message),),
        ),
        conclude=conclude,
        known=round(implied(company.symbol), 2),
    )


def _followup(material: Material) -> Case:
    def moved(symbol: str, said: float) -> float:
        return (material.market.quote(symbol).price - said) / said * 100

    mentions = _mentions(material)
    channel, symbol, said = material.pick([mention for mention in mentions if is_clear(moved(*mention[1:]))])

    def code(results: Results) -> str:
        then, now = _latest_price([row["text"] for row in results[1]], symbol), results[2]["price"]
        return f"print(f'{{({now} - {then}) / {then} * 100:.2f}}')"

    def message(results: Results) -> str:
        return f"{symbol} since then: {printed(results[3])}%"

    def conclude(results: Results) -> Conclusion:
        value = float(printed(results[3]))
        return posted(computed(value, unit="%"), printed(results[3]), channel, message(results))

    return Case(
        words={"symbol": symbol, "channel": channel.name, "message": f"{symbol} since then: N%"},
        form=TWO_DECIMALS,
        turns=(
            *_read(channel),
            (read_quote(symbol),),
            (run_python(code),),
            (send(channel, message),),
        ),
        conclude=conclude,
        known=round(moved(symbol, said), 2),
    )


CHANGES: dict[str, Draft] = {
    "channel_price": _lookup,
    "post_figure": _post,
    "stored_figure": _store,
    "report_to_channel": _report,
    "channel_followup": _followup,
}
