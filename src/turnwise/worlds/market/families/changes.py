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
from turnwise.types import Answer, Difficulty, ExpectedWrite, StateProbe
from turnwise.worlds.market.families.kit import HISTORY_LIMIT, Family, Material, SlackChannel
from turnwise.worlds.market.families.lookups import FIGURES, PRICES, figure_of, known_figure
from turnwise.worlds.market.families.searches import search, symbol_in

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
        return Conclusion(looked_up(price, unit="$"), plain(price))

    return Case(
        words={"channel": channel.name, "symbol": symbol},
        form=NUMBER,
        turns=_read(channel),
        conclude=conclude,
        known=said,
    )


CHANNEL_PRICE = Family(
    name="channel_price",
    difficulty=Difficulty.MEDIUM,
    servers=("slack",),
    required_tools=("get_slack_channel_history",),
    phrasings=(
        "Read the {channel} channel on Slack: which price does the latest message about {symbol} name?",
        "In Slack's {channel} channel, find the newest message that mentions {symbol}. What price is in it?",
        "What price did somebody last post for {symbol} in the {channel} channel?",
        "Go through the history of the Slack channel {channel} and tell me the most recent price given for "
        "{symbol}.",
        "The {channel} channel on Slack has a message on {symbol}. Which price does the last such message "
        "give?",
        "Which price stands in the last Slack message about {symbol} in {channel}?",
    ),
    draft=_lookup,
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
            (call("fmp_get_quote", symbol=company.symbol),),
            (PlanStep("send_slack_message", lambda r: {"channel": channel.name, "message": message(r)}),),
        ),
        conclude=conclude,
        known=known_figure(material.market.quote(company.symbol), what),
    )


POST_FIGURE = Family(
    name="post_figure",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp", "slack"),
    required_tools=("fmp_get_quote", "send_slack_message"),
    phrasings=(
        "Get the {what} of {symbol} from its FMP quote and post it once to the {channel} channel on Slack "
        "as exactly `{message}`, with N the number to two decimals.",
        "Post `{message}` to Slack's {channel} channel, where N is the {what} in {symbol}'s FMP quote with "
        "two decimals.",
        "Tell the {channel} channel on Slack the {what} of {symbol} (FMP quote). The message must read "
        "`{message}`, N with two decimals.",
        "From FMP's quote of {symbol} take the {what}, write `{message}` with N to two decimals, and send "
        "that to the Slack channel {channel}.",
        "Send one Slack message to {channel}: `{message}`. N stands for the {what} of {symbol} in the FMP "
        "quote, two decimals.",
        "Slack's {channel} channel wants to know the {what} of {symbol}. Take it from the FMP quote and "
        "post `{message}` (N to two decimals), nothing more.",
    ),
    draft=_post,
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
            (call("fmp_get_quote", symbol=company.symbol),),
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


STORED_FIGURE = Family(
    name="stored_figure",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp", "python"),
    required_tools=("fmp_get_quote", "store_execution_result", "get_execution_context"),
    phrasings=(
        "Store the {what} of {symbol} (FMP quote) as the execution result `{key}`, then read it back from "
        "the execution context.",
        "Look up {symbol}'s {what} in its FMP quote, keep it with store_execution_result under `{key}`, and "
        "check with get_execution_context that it is there.",
        "Save {symbol}'s {what} from the FMP quote under the context key `{key}`; then fetch that key again "
        "and tell me the value.",
        "Under `{key}`, store the {what} that FMP quotes for {symbol}. Read the execution context back to "
        "confirm the value.",
        "Keep the {what} in {symbol}'s FMP quote as `{key}` with store_execution_result, then report what "
        "get_execution_context gives for it.",
        "Take {symbol}'s {what} from FMP's quote, store it as `{key}`, get `{key}` from the execution "
        "context again and report it.",
    ),
    draft=_store,
)


def _report(material: Material) -> Case:
    market = material.market

    def implied(symbol: str) -> float:
        quote = market.quote(symbol)
        return quote.previous_close * (1 + quote.change_percent / 100)

    company = material.pick([company for company in material.companies if is_clear(implied(company.symbol))])
    channel = material.pick(material.channels)

    def code(results: Results) -> dict[str, str]:
        close, change = results[1]["c"], results[2]["changePercentage"]
        return {"code": f"print(f'{{{close} * (1 + {change} / 100):.2f}}')"}

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
                PlanStep("polygon_get_previous_close", lambda r: {"ticker": symbol_in(r[0], company.name)}),
                PlanStep("fmp_get_change_percent", lambda r: {"symbol": symbol_in(r[0], company.name)}),
            ),
            (PlanStep("execute_python", code),),
            (PlanStep("send_slack_message", lambda r: {"channel": channel.name, "message": message(r)}),),
        ),
        conclude=conclude,
        known=round(implied(company.symbol), 2),
    )


REPORT_TO_CHANNEL = Family(
    name="report_to_channel",
    difficulty=Difficulty.HARD,
    servers=("fmp", "polygon", "python", "slack"),
    # Not the change-percent tool: FMP's quote has the same change, and most phrasings allow either.
    required_tools=("polygon_get_previous_close", "execute_python", "send_slack_message"),
    phrasings=(
        "Find the ticker of {name}. Take its previous close from Polygon and its percentage change from "
        "FMP's change-percent tool, and with execute_python compute the price these imply, close * (1 + "
        "change / 100). Post `TICKER implied price: N` (N to two decimals) to the {channel} channel.",
        "For {name}: Polygon's previous close times one plus FMP's change percent gives an implied price. "
        "Compute it in execute_python and post it once to Slack's {channel} channel as `TICKER implied "
        "price: N`, N with two decimals.",
        "Work out {name}'s implied price in execute_python from Polygon's previous close and FMP's change "
        "percent (close * (1 + percent / 100)), then tell the {channel} channel: `TICKER implied price: N`, "
        "N to two decimals.",
        "The {channel} channel needs one message, `TICKER implied price: N`, about {name}. N is the "
        "previous close (Polygon) raised by the change percent (FMP), computed with execute_python, to two "
        "decimals.",
        "Look up {name}, get the previous close on Polygon and the change percent on FMP, apply the change "
        "to the close with execute_python, and send `TICKER implied price: N` with N to two decimals to the "
        "{channel} channel.",
        "Raise {name}'s previous close (from Polygon) by its change percent (from FMP) using "
        "execute_python. Announce it in Slack's {channel} channel as `TICKER implied price: N`, two "
        "decimals, once.",
    ),
    draft=_report,
)


def _followup(material: Material) -> Case:
    def moved(symbol: str, said: float) -> float:
        return (material.market.quote(symbol).price - said) / said * 100

    mentions = _mentions(material)
    channel, symbol, said = material.pick([mention for mention in mentions if is_clear(moved(*mention[1:]))])

    def code(results: Results) -> dict[str, str]:
        then, now = _latest_price([row["text"] for row in results[1]], symbol), results[2]["price"]
        return {"code": f"print(f'{{({now} - {then}) / {then} * 100:.2f}}')"}

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
            (call("fmp_get_quote", symbol=symbol),),
            (PlanStep("execute_python", code),),
            (PlanStep("send_slack_message", lambda r: {"channel": channel.name, "message": message(r)}),),
        ),
        conclude=conclude,
        known=round(moved(symbol, said), 2),
    )


CHANNEL_FOLLOWUP = Family(
    name="channel_followup",
    difficulty=Difficulty.HARD,
    servers=("fmp", "python", "slack"),
    required_tools=(
        *("get_slack_channel_history", "fmp_get_quote"),
        *("execute_python", "send_slack_message"),
    ),
    phrasings=(
        "Somebody named a price for {symbol} in Slack's {channel} channel; take the latest such message. "
        "With execute_python, compute the change in per cent from that price to the one in the FMP quote, "
        "and post `{message}` (N to two decimals) to the same channel.",
        "Find the last price of {symbol} mentioned in the {channel} channel, compare it with the FMP "
        "quote's price using execute_python, and answer there with `{message}`, N being the percentage "
        "change with two decimals.",
        "Follow up on the newest {symbol} message in the Slack channel {channel}: how many per cent has the "
        "price in FMP's quote moved from the price in the message? Compute with execute_python and post "
        "`{message}`, two decimals, once.",
        "Read {channel} on Slack for the most recent price of {symbol}, get the current one from an FMP "
        "quote, let execute_python work out the percentage change, and post `{message}` with N to two "
        "decimals into {channel}.",
        "Update the {channel} channel on {symbol}: `{message}`, where N is the percentage change (two "
        "decimals, execute_python) from the price last mentioned there to the FMP quote's price.",
        "How has {symbol} moved since it was last mentioned with a price in Slack's {channel} channel? Use "
        "the FMP quote and execute_python, and post `{message}` there, N in per cent with two decimals.",
    ),
    draft=_followup,
)

CHANGES = (CHANNEL_PRICE, POST_FIGURE, STORED_FIGURE, REPORT_TO_CHANNEL, CHANNEL_FOLLOWUP)
