"""The wordings of lessons: many per family, none of them used by validation or test tasks."""

from collections.abc import Mapping
from dataclasses import replace

from turnwise.worlds.market.families import FAMILIES
from turnwise.worlds.market.families.kit import Family

_VERBS = (
    *("surpass", "outstrip", "outdo", "beat", "top", "pass", "lead", "outrun", "overtake", "trump", "dwarf"),
    *("outweigh", "overshoot", "outrank", "clear", "outpace", "eclipse", "outreach", "better", "head"),
    *("overtop", "go beyond", "rise over", "stand above", "run ahead of", "come in over", "climb past"),
    "stay in front of",
)
"""Many verbs, so that the word between two tickers does not identify the question."""

WORDINGS: Mapping[str, tuple[str, ...]] = {
    "quote_figure": (
        "What {what} does FMP quote for {symbol}?",
        "Which {what} is in the FMP quote of {symbol}?",
        "{symbol}, {what}: what does FMP's quote say?",
        "For {symbol}, read the {what} from its quote on FMP.",
        "Tell me {symbol}'s {what} by the FMP quote.",
        "Show me the {what} of {symbol}. Use FMP's quote.",
        "Report the {what} that the quote of {symbol} on FMP shows.",
        "Fetch a quote: {symbol} on FMP. I want the {what}.",
        "The FMP quote has a {what} for {symbol}. Which one?",
        "Please look at FMP's quote for {symbol} and name its {what}.",
        "By the quote that FMP gives, how large is the {what} of {symbol}?",
        "{symbol} again: {what} from the FMP quote, please.",
        "Can you check the {what} of {symbol} in an FMP quote?",
        "Somebody wants the {what} of {symbol}. The FMP quote will show it.",
    ),
    "previous_bar": (
        "Which {what} did {symbol} have in the previous session, by Polygon's previous close?",
        "Report the {what} in the previous-close bar that Polygon has for {symbol}.",
        "{symbol}: what {what} does Polygon's previous close show?",
        "For {symbol}, read the {what} from the previous close on Polygon.",
        "Polygon's previous-close tool has a bar of {symbol}. Which {what} is part of it?",
        "Tell me the {what} of {symbol} by Polygon's previous close.",
        "Please check the previous close of {symbol} on Polygon and name the {what}.",
        "I want the {what} of the last session of {symbol}, as the previous-close tool of Polygon gives it.",
        "Fetch Polygon's previous close: {symbol}. Show me the {what}.",
        "By Polygon, how large was the {what} of {symbol} in the previous session? Use the previous close.",
        "Can you find out the {what} that Polygon reports with {symbol}'s previous close?",
        "Look at Polygon's previous-close data of {symbol}; which {what} does it report?",
        "{symbol}'s {what} in the previous session: ask the previous-close tool of Polygon.",
        "Somebody wants to know the {what} of {symbol} from the previous close that Polygon has.",
        "Which {what} stands in the previous close that Polygon has of {symbol}?",
        "Name the {what} that belongs to the previous close of {symbol} on Polygon.",
        "What {what} comes with the previous close of {symbol}, as Polygon tells it?",
        "The previous close of {symbol} on Polygon holds a {what}. How large is it?",
        "How large is the {what} in the previous close of {symbol}? Ask Polygon.",
        "Of the previous close of {symbol} on Polygon, I need only the {what}.",
        "Let Polygon show the previous close of {symbol}, and read its {what} to me.",
        "Besides other figures, Polygon's previous close of {symbol} has a {what}. Which?",
        "Please get me one figure of the previous close of {symbol}, its {what}, from Polygon.",
        "Polygon, previous close, {symbol}: the {what}, please.",
        "What number does the previous close of {symbol} on Polygon give for the {what}?",
        "Find the {what} among the figures of the previous close of {symbol} at Polygon.",
        "I look for the {what} of {symbol}; it is listed with the previous close at Polygon.",
    ),
    "figure_by_name": (
        "Find {name} on FMP. Which {what} is in its quote?",
        "Look up the company {name} and read the {what} from its FMP quote.",
        "Tell me the {what} of {name}; the FMP quote has it.",
        "{name}: what {what} does FMP quote?",
        "Please get the {what} of {name} from FMP's quote. I do not know the ticker.",
        "Which ticker {name} has I cannot say. Report the {what} in its FMP quote.",
        "Use FMP to find {name} and its quote, and show me the {what}.",
        "By FMP's quote, how large is the {what} of the company called {name}?",
        "For {name}, search the ticker, fetch the FMP quote and name the {what}.",
        "I want to know {name}'s {what} as quoted on FMP.",
        "Somebody asks for the {what} of {name}. Search for it on FMP, then read its quote.",
        "What does the FMP quote of {name} show as the {what}?",
        "Can you find the company {name} on FMP and tell me its {what}?",
        "The {what} of {name}, please: search FMP, then look at the quote.",
    ),
    "price_difference": (
        "Take the {what} of {first} and subtract the {what} of {second}. Both are in FMP quotes; calculate "
        "with execute_python.",
        "FMP quotes {first} and {second}. Use execute_python to get the difference of their {what} (first "
        "minus second).",
        "What is the {what} of {first} less that of {second}, by their FMP quotes? Compute it in "
        "execute_python.",
        "{first} minus {second}, {what}: take FMP quotes and let execute_python calculate.",
        "Find the gap between {first} and {second} in {what}, the former less the latter. Use two FMP quotes "
        "and execute_python.",
        "Please work out with execute_python how far the {what} of {first} is above the {what} of {second} "
        "(negative if below), by FMP's quotes.",
        "By how much does {first} differ from {second} in its {what}? Subtract with execute_python, first "
        "minus second, from the FMP quotes.",
        "I need {first}'s {what} minus {second}'s {what}. Read both FMP quotes, then use execute_python.",
        "Quotes of {first} and {second} are on FMP. How many dollars more is the {what} of the first "
        "(negative if less)? Compute with execute_python.",
        "Does {first} have a higher {what} than {second}, and by how much? Use the FMP quotes and "
        "execute_python; negative if it is lower.",
        "Let execute_python subtract: {what} of {first} in its FMP quote, minus {what} of {second} in its "
        "FMP quote.",
        "Tell me the difference in {what} of {first} and {second}, with a minus sign if the first is lower. "
        "FMP quotes, execute_python.",
        "How many dollars lie between the {what} of {first} and the {what} of {second}, in that order? Read "
        "their FMP quotes and subtract with execute_python.",
        "By what amount is the {what} of {first} above the {what} of {second} in the FMP quotes (negative if "
        "it is below)? Do the sum in execute_python.",
        "In FMP's quotes, how far does the {what} of {first} stand over the {what} of {second}? Use "
        "execute_python, and a minus sign if it stands under.",
        "Somebody holds {first} and wants to know how much more its {what} is than the {what} of {second}. "
        "FMP quotes, then execute_python (negative if it is less).",
        "Check two FMP quotes, {first} and then {second}. Subtract their {what} values in that order, in "
        "execute_python.",
        "From the {what} of {first} take away the {what} of {second}. The FMP quotes of both show it, "
        "execute_python does the rest.",
        "Does the {what} of {first} beat the {what} of {second} in their FMP quotes? Let execute_python "
        "tell by how much, with a minus sign if not.",
        "Give the lead of {first} over {second} in {what}, by FMP quotes; a negative number if it trails. "
        "Calculate in execute_python.",
        "Print in execute_python what you get for the {what} of {first} minus the {what} of {second}. The "
        "numbers are in the FMP quotes.",
        "For {first} and {second}, FMP quotes a {what} each. How much greater is the one of {first} "
        "(negative if smaller)? Use execute_python.",
        *(
            f"By what sum does the {{what}} of {{first}} {verb} the {{what}} of {{second}} in the FMP "
            "quotes? Negative if it does not; use execute_python."
            for verb in _VERBS[::2]
        ),
        *(
            f"Does the {{what}} of {{first}} {verb} the {{what}} of {{second}}, and by how much? Take FMP "
            "quotes, then calculate in execute_python (negative if not)."
            for verb in _VERBS[1::2]
        ),
        "{first} against {second}: subtract the second's {what} from the first's. Both come from FMP quotes, "
        "the result from execute_python.",
        "Work with the FMP quotes of {first} and {second}: how many dollars must be added to the {what} of "
        "the second to reach that of the first? Compute in execute_python.",
    ),
    "post_figure": (
        "Read the {what} of {symbol} in the FMP quote, then tell Slack's {channel} channel: `{message}` "
        "(N to two decimals).",
        "The {channel} channel needs one message on Slack, `{message}`. N is the {what} that FMP quotes for "
        "{symbol}, to two decimals.",
        "Write `{message}` to the {channel} channel on Slack, N being {symbol}'s {what} by the FMP quote, "
        "with two decimals.",
        "Please post the {what} of {symbol} to {channel} on Slack, as `{message}`. Take N from FMP's quote, "
        "with two decimals.",
        "People in Slack's {channel} channel ask for the {what} of {symbol}. Find it in its FMP quote and "
        "send `{message}`, N to two decimals.",
        "Look up {symbol} on FMP and report its {what} in the Slack channel {channel}: `{message}`, two "
        "decimals, once.",
        "Fetch the quote of {symbol} from FMP. Then message {channel} on Slack with `{message}`, where N is "
        "the {what} (two decimals).",
        "Announce the {what} in {symbol}'s FMP quote on Slack. Channel: {channel}. Message: `{message}`, N "
        "with two decimals and nothing else.",
        "Somebody in {channel} wants the {what} of {symbol} from its FMP quote. Post `{message}` to that "
        "Slack channel, N to two decimals.",
        "For the Slack channel {channel}: post `{message}` and nothing more. N stands for the {what} of "
        "{symbol} by FMP's quote (two decimals).",
        "Let the {channel} channel on Slack know which {what} FMP quotes for {symbol}; the message is "
        "`{message}`, N to two decimals.",
        "Take the {what} from the FMP quote of {symbol} and share it with {channel} on Slack by the message "
        "`{message}` (two decimals).",
    ),
    "web_answer": (
        "{question} Ask Tavily.",
        "Search with Tavily's QnA tool: {question}",
        "{question} Use the QnA search of Tavily for it.",
        "Please find out with Tavily QnA: {question}",
        "Let Tavily answer this on the web. {question}",
        "{question} Tavily's question answering will know.",
        "I want to know this from Tavily's QnA search: {question}",
        "{question} Please look at what Tavily's direct answer on the web says.",
        "Look on the web with the Tavily QnA tool. {question}",
        "Tavily can search the web for an answer: {question}",
        "{question} Find it by a QnA search with Tavily.",
        "Use Tavily, the QnA tool, and tell me: {question}",
    ),
}


def lesson_families() -> dict[str, Family]:
    """The families of the lessons, with the wordings above and those of training tasks."""
    return {
        name: replace(FAMILIES[name], phrasings=(*wordings, *FAMILIES[name].phrasings))
        for name, wordings in WORDINGS.items()
    }
