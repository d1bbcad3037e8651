"""Calculations: a tool that takes a formula and answers with its value."""

import math
import random

from turnwise.explore.first.caller import Session
from turnwise.explore.first.computing.answer_number import answer_path, form_of_number, number_in
from turnwise.explore.first.computing.computation import Computation
from turnwise.explore.first.computing.expressions import EXPRESSIONS, Expression, Numbers
from turnwise.explore.first.document import Document, Path
from turnwise.explore.first.value_formats import wanted_format
from turnwise.explore.survey.parameters import Parameter, parameters_of
from turnwise.types import Tool

MAX_OF_KIND = 45
"""Expressions of one kind."""
_TRIES = 2
"""Failures from which on a kind is left out: not every calculator knows sqrt."""
_KNOWN = ("12 * 7", 84)


def formula_parameter(tool: Tool) -> Parameter | None:
    """Return the parameter that takes a formula, if the tool needs nothing else."""
    required = [one for one in parameters_of(tool) if one.is_required]
    return required[0] if len(required) == 1 and wanted_format(required[0]) == "formula" else None


async def is_calculator(tool: Tool, parameter: Parameter, session: Session) -> bool:
    """Return whether the tool calculates what it is given."""
    reply = await session.call(tool, {parameter.name: _KNOWN[0]})
    answered = None if reply.document is None else _answer(reply.document)
    return answered is not None and answered[1] == _KNOWN[1]


async def calculations(
    tool: Tool, parameter: Parameter, session: Session, chance: random.Random, max_calls: int
) -> list[Computation]:
    """Calculate drawn expressions, and return those whose values can be asked for."""
    made: list[Computation] = []
    draw = Numbers(chance)
    for shape, drawn in EXPRESSIONS.items():
        num_failures = num_answers = 0
        for _ in range(min(MAX_OF_KIND, max_calls // len(EXPRESSIONS))):
            if session.is_spent or (num_failures >= _TRIES and not num_answers):
                break
            expression = drawn(draw)
            reply = await session.call(tool, {parameter.name: expression.formula})
            answered = None if reply.document is None else _answer(reply.document)
            if answered is None or not math.isclose(answered[1], expression.value, rel_tol=1e-9):
                num_failures += 1
                continue
            num_answers += 1
            form = form_of_number(answered[1])
            if form is not None:
                made.append(
                    Computation(
                        shape,
                        tool,
                        ({parameter.name: expression.formula},),
                        answered[0],
                        form,
                        wordings(tool, expression),
                        expression.formula,
                        expression.difficulty,
                    )
                )
    return made


def _answer(document: Document) -> tuple[Path, float] | None:
    path = answer_path(document, ())
    number = None if path is None else number_in(document.field(path))
    return None if path is None or number is None else (path, number)


def wordings(tool: Tool, expression: Expression) -> tuple[str, ...]:
    """Return wordings with the formula and in words, the first two with the tool's name."""
    name, formula, words = f"`{tool.name}`", expression.formula, expression.words
    if expression.asked:
        asked = expression.asked
        return (
            f"{asked} Use {name}.",
            f"Use {name} for this: {asked}",
            asked,
            f"Please work this out: {asked}",
            f"{asked} Please calculate it.",
            f"Here is a small problem. {asked}",
            f"Can you help me with this? {asked}",
            f"I have a question. {asked}",
        )
    return (
        f"Use {name} to calculate {formula}.",
        f"What is {words}? Use {name}.",
        f"What is {words}?",
        f"Calculate {formula}.",
        f"Please work out {words}.",
        f"What is {formula}?",
        f"How much is {words}?",
        f"Can you calculate {words}?",
    )
