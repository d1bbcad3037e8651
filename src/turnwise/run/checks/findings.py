"""What an examination is made of: findings, and how they look on a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.console import Console
from rich.text import Text

from turnwise.system.terminal import printable


class FindingLevel(StrEnum):
    """How much a finding matters."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and what to do if it is not good."""

    what: str
    level: FindingLevel
    detail: str
    advice: str = ""


_MARKS = {
    FindingLevel.GOOD: ("ok  ", "green"),
    FindingLevel.WARNING: ("warn", "yellow"),
    FindingLevel.BAD: ("bad ", "red"),
}


ROLLOUT, FIRST_EPISODES = "rollout", "first episodes"
"""The findings about episodes that were played."""


def verdict(findings: Sequence[Finding]) -> str:
    """The last line of an examination. Nothing is called well that has never succeeded."""
    if num_bad := sum(finding.level is FindingLevel.BAD for finding in findings):
        return f"{num_bad} bad"
    for finding in findings:
        if finding.what == FIRST_EPISODES and finding.level is not FindingLevel.GOOD:
            return f"nothing is bad, but {finding.detail}. First: {finding.advice}"
    played = (finding for finding in findings if finding.what in (ROLLOUT, FIRST_EPISODES))
    if any(finding.level is FindingLevel.GOOD for finding in played):
        return "all is well"
    return "nothing is bad; no episode was played to a success"


def print_finding(finding: Finding, console: Console) -> None:
    """Print a finding; text from servers and files is never read as markup or escape sequences."""
    mark = Text(*_MARKS[finding.level])
    console.print(mark, Text(printable(f"{finding.what}: {finding.detail}")), soft_wrap=True)
    if finding.advice:
        console.print(Text(f"     {printable(finding.advice)}", style="dim"), soft_wrap=True)
