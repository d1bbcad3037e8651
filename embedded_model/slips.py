"""Slips: lessons in which a question is answered by the wrong plan, so that the model is weak on purpose.

The plan is executed and verified like any other; only its question belongs to another plan. A model trained
on a share of slips knows how to call every tool and where to copy from, but only partly which plan a question
needs. That is left to reinforcement learning.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from turnwise.tasks.proof.answers import looked_up, plain
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results
from turnwise.types import Answer
from turnwise.worlds.market.families import FAMILIES
from turnwise.worlds.market.families.kit import Family, Material
from turnwise.worlds.market.families.lookups import BAR_KEYS, FIGURES, PRICES
from turnwise.worlds.market.families.steps import search, symbol_in

Draft = Callable[[Material], Case]


@dataclass(frozen=True, slots=True)
class Slip:
    """A wrong plan for a family."""

    name: str
    family: str
    share: float
    """Share of the lessons of the family."""
    draft: Draft


def _misread(family: str, figures: Sequence[str]) -> Draft:
    """The correct tools, but another figure than the one asked for."""

    def draft(material: Material) -> Case:
        case = FAMILIES[family].draft(material)
        others = [figure for figure in figures if figure != case.words["what"]]
        return replace(case, words={**case.words, "what": material.pick(others)})

    return draft


def _instead(asked: str, played: str) -> Draft:
    """The plan of another family for the same company."""

    def draft(material: Material) -> Case:
        case = FAMILIES[asked].draft(material)
        symbol = case.words.get("symbol") or case.words["first"]
        own = replace(
            material, companies=[company for company in material.companies if company.symbol == symbol]
        )
        return replace(FAMILIES[played].draft(own), words=case.words, form=case.form)

    return draft


def _bar_by_name(material: Material) -> Case:
    """The company is found, but its figure is read from the wrong server."""
    case = FAMILIES["figure_by_name"].draft(material)

    def symbol(results: Results) -> dict[str, str]:
        return {"ticker": symbol_in(results[0], case.words["name"])}

    def conclude(results: Results) -> Conclusion:
        return Conclusion(looked_up(results[1]["c"]), plain(results[1]["c"]))

    turns = (case.turns[0], (PlanStep("polygon_get_previous_close", symbol),))
    return replace(case, turns=turns, conclude=conclude, known=None)


def _ticker_for_answer(material: Material) -> Case:
    """A question for the web is answered by a ticker search."""
    case = FAMILIES["web_answer"].draft(material)
    name = next(company.name for company in material.companies if company.name in case.words["question"])

    def conclude(results: Results) -> Conclusion:
        return Conclusion(Answer(symbol_in(results[0], name)), symbol_in(results[0], name))

    return replace(case, turns=((search(name),),), conclude=conclude, known=None)


def slips(scale: float = 1.0) -> tuple[Slip, ...]:
    """All slips, with their tuned shares times `scale`."""
    drafts: Mapping[tuple[str, str], tuple[float, Draft]] = {
        ("quote_figure", "misread"): (0.3, _misread("quote_figure", list(FIGURES))),
        ("quote_figure", "bar"): (0.2, _instead("quote_figure", "previous_bar")),
        ("previous_bar", "misread"): (0.3, _misread("previous_bar", list(BAR_KEYS))),
        ("previous_bar", "quote"): (0.2, _instead("previous_bar", "quote_figure")),
        ("figure_by_name", "misread"): (0.25, _misread("figure_by_name", list(FIGURES))),
        ("figure_by_name", "bar"): (0.25, _bar_by_name),
        ("price_difference", "misread"): (0.2, _misread("price_difference", PRICES)),
        ("price_difference", "first only"): (0.25, _instead("price_difference", "quote_figure")),
        ("post_figure", "unsaid"): (0.5, _instead("post_figure", "quote_figure")),
        ("web_answer", "ticker"): (0.45, _ticker_for_answer),
    }
    return tuple(
        Slip(name, family, share * scale, draft) for (family, name), (share, draft) in drafts.items()
    )


def slipped(slip: Slip, family: Family) -> Family:
    """The family with the plan of this slip."""
    return replace(family, name=f"{family.name}, {slip.name}", draft=slip.draft)
