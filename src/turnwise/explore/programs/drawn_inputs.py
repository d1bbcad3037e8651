"""Inputs for tools that compute: proven arguments with other numbers, and other values that were accepted."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnwise.explore.programs.program import flat, put
from turnwise.explore.reading import is_cut
from turnwise.explore.records import Answer, Survey, ToolFacts
from turnwise.explore.survey.budget import Budget, Limits
from turnwise.explore.survey.refusals import without_echo
from turnwise.explore.survey.sessions import Session, SessionLost, Sessions
from turnwise.mcp.pool import Pool

_PER_SERVER = 240
_TRIAL, _LEAST = 8, 4
"""Draws of a tool, of which so many must be answered before more are made."""
_MOST_ALIKE = 2
"""Answers that differ only in the values of their own arguments."""
_MAX_ROWS = 2
_DIGITS = re.compile(r"\d+")


async def with_drawn_inputs(pool: Pool, survey: Survey, seed: int, deadline: float) -> Survey:
    """Return the survey with answers to drawn inputs of the tools that compute."""
    tools = dict(survey.tools)
    for server in dict.fromkeys(facts.tool.server for facts in tools.values()):
        computing = [facts for facts in survey.readers(server) if may_compute(facts, _keys(facts, survey))]
        if not computing:
            continue
        sessions = Sessions(pool, server, Budget(Limits(), deadline=deadline))
        try:
            async with sessions.fresh() as session:
                for facts in computing:
                    most = max(_TRIAL, _PER_SERVER // len(computing))
                    if answers := await _drawn(facts, survey, seed, most, session):
                        tools[facts.tool.name] = replace(facts, answers=tuple(answers), is_pure=True)
        except SessionLost:
            continue
    return replace(survey, tools=tools)


def may_compute(facts: ToolFacts, keys: Collection[str]) -> bool:
    """Return whether a tool gives few values, and takes a number that names no known thing."""
    rows = [relation.rows for answer in facts.answers for relation in answer.relations]
    has_numbers = any(
        _DIGITS.search(str(value)) and name not in keys
        for answer in facts.answers
        for name, value in flat(answer.call.arguments).items()
    )
    is_small = bool(rows) and all(len(some) <= _MAX_ROWS for some in rows)
    return has_numbers and is_small and not any(facts.preludes.values())


def _keys(facts: ToolFacts, survey: Survey) -> frozenset[str]:
    """Return the parameters of a tool that take known things."""
    own = [link for link in survey.links if link.tool == facts.tool.name and link.kind == "key"]
    return frozenset(link.parameter for link in own)


async def _drawn(facts: ToolFacts, survey: Survey, seed: int, most: int, session: Session) -> list[Answer]:
    """Return the answers to drawn inputs, or none if the tool does not compute."""
    rng = random.Random(f"{seed}/inputs/{facts.tool.name}")  # noqa: S311 (a draw of inputs, not a secret)
    pools, keys = _pools(facts, survey), _keys(facts, survey)
    found: dict[str, Answer] = {}
    texts: Counter[str] = Counter()
    for number in range(2 * most):
        if session.budget.is_spent or len(found) >= most or (number == _TRIAL and len(texts) < _LEAST):
            break
        base = rng.choice(facts.answers)
        known = {} if number < _TRIAL else pools  # first, only numbers are other ones
        call = replace(base.call, arguments=_changed(base.call.arguments, known, keys, rng))
        answer = await session.call(call)
        said = without_echo(answer.text, call.arguments)
        if answer.is_error or not answer.relations or is_cut(answer.text) or call.key in found:
            continue
        texts[said] += 1
        if texts[said] <= _MOST_ALIKE:  # else it says nothing of the input
            found[call.key] = answer
    return list(found.values()) if len(texts) >= max(_LEAST, len(found) // 2) else []


def _pools(facts: ToolFacts, survey: Survey) -> Mapping[str, list[Any]]:
    """Return, by parameter, the values that the tool accepted or, if it has had only one, that others did."""
    pools: dict[str, list[Any]] = defaultdict(list)
    others = [one for one in survey.readers(facts.tool.server) if one.tool.name != facts.tool.name]
    for one in (facts, *others):
        known = {
            name for name, values in pools.items() if one is not facts and len(set(map(str, values))) > 1
        }
        for answer in one.answers:
            for name, value in flat(answer.call.arguments).items():
                if name not in known:
                    pools[name].append(value)
    properties: Mapping[str, Any] = facts.tool.input_schema.get("properties", {})
    for name, schema in properties.items():
        pools[name] += schema.get("enum", [])
    return pools


def _changed(
    arguments: Mapping[str, Any],
    pools: Mapping[str, Sequence[Any]],
    keys: Collection[str],
    rng: random.Random,
) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name, value in flat(arguments).items():
        pool = pools.get(name, ())
        other = rng.choice(pool or [value]) if name in keys else _other(value, pool, rng)
        put(changed, name, other)
    return changed


def _other(value: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    """Return a value of the same form: numbers are drawn anew, words taken from what was accepted."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return rng.randint(2, max(20, 3 * abs(value)))
    if isinstance(value, float):
        return round(rng.uniform(1, max(20.0, 3 * abs(value))), 2)
    if isinstance(value, list):
        return [_other(item, (), rng) for item in value]
    if isinstance(value, str) and _DIGITS.search(value):
        return _DIGITS.sub(lambda match: _digits(match, rng), value)
    return rng.choice(pool) if pool else value


def _digits(match: re.Match[str], rng: random.Random) -> str:
    """Return other digits: of a date or a time such that it stays one, else a number of the same length."""
    text = match[0]
    around = (
        match.string[max(0, match.start() - 1) : match.start()] + match.string[match.end() : match.end() + 1]
    )
    if set(around) & set(":-/") and len(text) == 2:
        return f"{rng.randint(1, 12):02d}"
    if len(text) == 4 and set(around) & set("-/"):
        return text
    return str(rng.randint(10 ** (len(text) - 1) + (len(text) == 1), 10 ** len(text) - 1))
