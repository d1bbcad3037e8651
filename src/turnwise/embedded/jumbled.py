"""Takes a lesson's task, gives it with the words of its question in another order.

Some twenty wordings are too few to learn what in a question matters, and a new one then leads to the wrong
ticker first. In a jumble only the words themselves are left to go by, and the order of the tickers, which is
the order in which they are asked about.
"""

import random
import re
from dataclasses import replace

from turnwise.tasks.families.lookups import BAR_KEYS, FIGURES
from turnwise.types import Task

FAMILIES = ("quote_figure", "previous_bar", "price_difference")
"""Whose questions are tickers, a figure, and words around them."""

_FIGURES = "|".join(sorted({*FIGURES, *BAR_KEYS}, key=len, reverse=True))
_WORDS = re.compile(rf"(?:{_FIGURES})\S*|\S+")
_ANSWER = " Answer with "
"""Where a question ends and the form of its answer begins."""


def jumbled(task: Task, chance: random.Random) -> Task:
    """Figures stay whole, tickers stay in their order, everything else goes anywhere."""
    [message] = task.prompt
    question, answer, form = message.content.partition(_ANSWER)
    tickers = {str(value) for call in task.demonstration[0].calls for value in call.arguments.values()}
    words = _WORDS.findall(question)
    named = [word for word in words if any(ticker in word for ticker in tickers)]
    others = [word for word in words if word not in named]
    chance.shuffle(others)
    for place, word in zip(sorted(chance.sample(range(len(words)), len(named))), named, strict=True):
        others.insert(place, word)
    return replace(task, prompt=(replace(message, content=" ".join(others) + answer + form),))
