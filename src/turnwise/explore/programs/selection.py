"""Which programs are verified, and in which order: the most wanted of every kind by turns."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from turnwise.explore.programs.changing_programs import changes, severals, transfers
from turnwise.explore.programs.computing_programs import computations
from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.knowledge import Knowledge
from turnwise.explore.programs.reading_programs import (
    chains,
    comparisons,
    comparisons_within,
    look_ups,
)

_MOST = 6_000
"""Drafts that are considered."""
_PER_COMPUTATION = 240
_PER_TEMPLATE = 12
"""Drafts that differ in nothing but a value."""


def drafts_of(known: Knowledge, others: Sequence[Draft] = ()) -> list[Draft]:
    """Return the drafts, those to verify first at the front; no two ask the same question."""
    composed = (look_ups, chains, comparisons, comparisons_within, computations, changes, severals, transfers)
    found = [draft for compose in composed for draft in _some(compose(known), known, compose.__name__)]
    return in_turns(unlike([*found, *others]), known)


def _some(drafts: Iterable[Draft], known: Knowledge, name: str) -> list[Draft]:
    listed = list(drafts)
    known.rng(f"some/{name}").shuffle(listed)
    return sorted(listed, key=lambda draft: -draft.worth)[:_MOST]


def unlike(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts whose question no other draft asks with another program, and no program twice."""
    by_question: dict[str, Draft] = {}
    keys: set[str] = set()
    for draft in sorted(drafts, key=lambda draft: (len(draft.tools), -draft.worth)):
        if draft.key not in keys and draft.questions[0] not in by_question:
            by_question[draft.questions[0]] = draft
            keys.add(draft.key)
    return list(by_question.values())


def template(draft: Draft) -> tuple[str, ...]:
    """Return what drafts have in common that differ only in values."""
    program = draft.program
    asked = [
        (one.query.operation, one.query.column, one.query.by, one.query.function) for one in program.asked
    ]
    taken = [
        (one.query.operation, one.query.column, one.query.by) for step in program.steps for one in step.taken
    ]
    conditions = [[one.column for one in asked.query.where] for asked in program.asked]
    words = " ".join(
        word for word in draft.questions[0].split() if "“" not in word and not word[:1].isdigit()
    )
    in_sql = words if asked[0:1] and asked[0][0] == "only" else ""
    return (*draft.kind, program.combination, repr((asked, taken, conditions)), in_sql)


def in_turns(drafts: Sequence[Draft], known: Knowledge) -> list[Draft]:
    """Return the drafts by turns of shapes, of tools and of templates, better ones first within each."""
    nested: dict[str, dict[tuple[str, ...], dict[tuple[str, ...], list[Draft]]]] = {}
    for draft in drafts:
        templates = nested.setdefault(draft.shape, {}).setdefault(draft.kind, defaultdict(list))
        templates[template(draft)].append(draft)
    shapes = []
    for kinds in nested.values():
        lists = []
        for kind, templates in kinds.items():
            known.rng(f"turns/{kind}").shuffle(ordered := list(templates.values()))
            for one in ordered:
                one.sort(key=lambda draft: -draft.worth)
            ordered.sort(key=lambda one: -one[0].worth)
            most = _PER_COMPUTATION if kind[0] == "compute" else _PER_TEMPLATE
            lists.append(_round_robin([one[:most] for one in ordered]))
        shapes.append(_round_robin(lists))
    return _round_robin(shapes)


def _round_robin(lists: Sequence[Sequence[Draft]]) -> list[Draft]:
    longest = max(map(len, lists), default=0)
    return [one[place] for place in range(longest) for one in lists if place < len(one)]


def common_values(drafts: Sequence[Draft], share: float = 0.1) -> frozenset[str]:
    """Return the values that so many questions name that they tell no task from another."""
    counts = Counter(entity for draft in drafts for entity in draft.entities)
    return frozenset(entity for entity, num in counts.items() if num > max(8, share * len(drafts)))
