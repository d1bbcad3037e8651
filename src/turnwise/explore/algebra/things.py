"""How rows are called in a sentence, and the words that every operation shares."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.explore.algebra.query import Condition
from turnwise.explore.wording.names import article, human, plural, quoted, stated_column


@dataclass(frozen=True, slots=True)
class Things:
    """The rows of one answer: "invoice", "of the customer “Keller”"."""

    noun: str
    """Singular, without an article."""
    tail: str = ""
    """Which ones they are, with a space in front."""
    itself: str = ""
    """The one row, if it is what an argument names: "that invoice"."""
    subject: str = ""
    """The one thing that the answer is about, if it is about one: "the invoice “INV-7”"."""

    def one(self, conditions: Sequence[Condition] = ()) -> str:
        """Return "the invoice of the customer “Keller” whose status is “open”"."""
        return f"{self.itself or f'the {self.noun}{self.tail}'}{self.conditions(conditions)}"

    def many(self, conditions: Sequence[Condition] = ()) -> str:
        return f"{plural(self.noun)}{self.tail}{self.conditions(conditions)}"

    def column(self, name: str, kind: str = "") -> str:
        """Return a column's name as words, without the noun of the row: "number" of `invoice_number`."""
        return stated_column(name, self.noun, kind)

    def conditions(self, conditions: Sequence[Condition]) -> str:
        words = [self._condition(one) for one in conditions]
        return f" {' and '.join(words)}" if words else ""

    def _condition(self, condition: Condition) -> str:
        name = self.column(condition.column)
        if condition.sign != "is":
            return f"with {article(name)} {condition.sign} {quoted(condition.value)}"
        if isinstance(condition.value, bool):
            words = human(condition.column)
            words = words.removeprefix("is ").removeprefix("has ")
            return f"that are {'' if condition.value else 'not '}{words}" if words else ""
        return f"whose {name} is {quoted(condition.value)}"
