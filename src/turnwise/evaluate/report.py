"""Takes an evaluation's episodes, gives `eval.json`, a table for the terminal, and paired comparisons."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.text import Text

from turnwise.evaluate.statistics import Estimate, paired_difference
from turnwise.evaluate.summary import (
    Played,
    Summary,
    by_difficulty,
    by_family,
    rates_by_task,
    summarise,
    summarise_by,
)
from turnwise.printable import printable
from turnwise.regular_files import MAX_FILE_BYTES, Damaged, read_table
from turnwise.rollout.tables import figure_table
from turnwise.tracking.whole import write_json


@dataclass(frozen=True, slots=True)
class Report:
    """One evaluation: what was played, and each episode's outcome."""

    model: str
    num_samples: int
    temperature: float
    seconds: float
    num_tasks_asked: int
    num_lost: int
    """Episodes lost to infrastructure and played again, or given up: never counted as failures."""
    episodes: tuple[Played, ...]
    prices: tuple[float, float] = (0.0, 0.0)
    """Dollars for a million prompt tokens and for a million sampled ones; 0 for a model of one's own."""

    @property
    def cost(self) -> float:
        """Dollars, of the episodes that were kept."""
        read = sum(each.num_prompt_tokens for each in self.episodes)
        sampled = sum(each.num_tokens for each in self.episodes)
        return (read * self.prices[0] + sampled * self.prices[1]) / 1e6

    @property
    def num_tasks_missing(self) -> int:
        """Tasks that could not be played at all, for no fault of the model's."""
        return self.num_tasks_asked - len({each.task_id for each in self.episodes})


_REPORT = TypeAdapter(Report)


def figures(report: Report) -> dict[str, Any]:
    """Every figure of the evaluation, as it is written to eval.json beside the episodes."""
    ks = powers_up_to(report.num_samples)
    return {
        "cost": report.cost,
        "num_prompt_tokens": sum(each.num_prompt_tokens for each in report.episodes),
        "num_sampled_tokens": sum(each.num_tokens for each in report.episodes),
        "all": asdict(summarise(report.episodes, ks=ks)),
        "by_family": _plain(summarise_by(by_family, report.episodes, ks=ks)),
        "by_difficulty": _plain(summarise_by(by_difficulty, report.episodes, ks=ks)),
    }


def powers_up_to(most: int) -> tuple[int, ...]:
    """1, 2, 4, … and the number itself: the k of pass@k worth a column."""
    powers = {2**power for power in range(most.bit_length()) if 2**power <= most}
    return tuple(sorted(powers | {most}))


def write_report(report: Report, path: Path) -> None:
    """Written whole or not at all."""
    if not report.episodes:
        raise ValueError("no task could be played: every group was lost to infrastructure")
    document = {"report": _REPORT.dump_python(report, mode="json"), "figures": figures(report)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, document)


def read_report(path: Path) -> Report:
    """An eval.json; ValueError says why it is none."""
    try:
        return _REPORT.validate_python(read_table(path, MAX_FILE_BYTES)["report"])
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (KeyError, ValidationError) as error:
        raise Damaged(path, f"is not an eval.json: {type(error).__name__}") from None


def print_report(report: Report, *, as_json: bool = False, console: Console | None = None) -> None:
    if as_json:
        print(json.dumps(figures(report)))
        return
    console = console or Console(emoji=False)
    ks = powers_up_to(report.num_samples)
    whole = summarise(report.episodes, ks=ks)
    title = (
        f"{report.model}: {whole.num_tasks} tasks × {report.num_samples}, temperature {report.temperature:g}"
    )
    passes = (f"pass@{ks[-1]}", f"pass^{ks[-1]}")
    headers = ("", "tasks", "success (95%)", *passes, "turns", "tokens", "bad calls", "bad form")
    rows = {"all": whole}
    rows |= summarise_by(by_difficulty, report.episodes, ks=ks)
    rows |= summarise_by(by_family, report.episodes, ks=ks)
    cells = [(name or "-", *_cells(summary, ks[-1])) for name, summary in rows.items()]
    _print_table(title, headers, cells, console)
    if report.cost:
        console.print(
            f"${report.cost:.4f} at ${report.prices[0]:g} and ${report.prices[1]:g} a million tokens"
        )
    if report.num_lost or report.num_tasks_missing:
        console.print(
            f"{report.num_lost} episodes were lost to infrastructure and played again; "
            f"{report.num_tasks_missing} tasks could not be played and count as nothing",
            style="yellow",
        )


def print_comparison(before: Report, after: Report, *, as_json: bool = False) -> None:
    """Paired differences of success over the tasks both played, with bootstrap intervals."""
    rates = rates_by_task(before.episodes), rates_by_task(after.episodes)
    both = sorted(rates[0].keys() & rates[1].keys())
    if not both:
        raise ValueError("the two evaluations have no task in common")
    families = {each.task_id: each.family for each in after.episodes}
    rows = {"all": _difference(rates, both)}
    for family in sorted({families[task] for task in both}):
        rows[family or "-"] = _difference(rates, [task for task in both if families[task] == family])
    if as_json:
        print(json.dumps({name: asdict(estimate) for name, estimate in rows.items()}))
        return
    console = Console(emoji=False)
    left_out = (len(rates[0]) - len(both)) + (len(rates[1]) - len(both))
    title = f"{before.model} → {after.model}, {len(both)} tasks"
    cells = [(name, _interval(estimate, sign="+")) for name, estimate in rows.items()]
    _print_table(title, ("", "success, after − before (95%)"), cells, console)
    if left_out:
        console.print(f"{left_out} tasks are in one evaluation only and were left out", style="yellow")


def _print_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    for line in (title, *figure_table(headers, rows, console.width)):
        console.print(Text(printable(line)), soft_wrap=True)


def _difference(rates: tuple[Mapping[str, float], Mapping[str, float]], tasks: list[str]) -> Estimate:
    before, after = ({task: side[task] for task in tasks} for side in rates)
    return paired_difference(before, after)


def _cells(summary: Summary, k: int) -> list[str]:
    return [
        str(summary.num_tasks),
        _interval(summary.success),
        _share(summary.pass_at_k.get(k)),
        _share(summary.pass_hat_k.get(k)),
        f"{summary.turns.value:.1f}",
        f"{summary.tokens.value:.0f}",
        f"{summary.tool_error_rate:.0%}",
        f"{summary.format_error_rate:.0%}",
    ]


def _interval(estimate: Estimate, sign: str = "") -> str:
    text = f"{estimate.value:{sign}.2f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{estimate.low:{sign}.2f} {estimate.high:{sign}.2f}]"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _plain(summaries: Mapping[str, Summary]) -> dict[str, Any]:
    return {name: asdict(summary) for name, summary in summaries.items()}
