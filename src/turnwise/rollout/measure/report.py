"""The report of an evaluation: `eval.json`, the table in the terminal, and paired comparisons."""

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.text import Text

from turnwise.rollout.measure.losses import CHANCE, MAX_CHANCE, loss_figures, most_lost
from turnwise.rollout.measure.statistics import Estimate, paired_difference
from turnwise.rollout.measure.summary import (
    EvaluatedEpisode,
    Summary,
    by_difficulty,
    by_family,
    by_message,
    rates_by_task,
    summarise,
    summarise_by,
)
from turnwise.system.files.atomic_write import write_json
from turnwise.system.files.free_path import move_to_free, numbered, require_free
from turnwise.system.files.regular_files import MAX_FILE_BYTES, Damaged, read_table
from turnwise.system.terminal import figure_table, printable


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """One evaluation: its settings and a record of every episode."""

    model: str
    num_samples: int
    temperature: float
    seconds: float
    num_tasks_asked: int
    num_lost: int
    """Episodes lost to infrastructure, which were retried or dropped; they never count as failures."""
    episodes: tuple[EvaluatedEpisode, ...]
    prices: tuple[float, float] = (0.0, 0.0)
    """Dollars per million prompt tokens and per million sampled tokens; 0 for a local model."""
    attempts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By family: how many episodes were started, and how many of them were lost."""

    @property
    def cost(self) -> float:
        """The price of all recorded episodes, in dollars."""
        read = sum(episode.num_prompt_tokens for episode in self.episodes)
        sampled = sum(episode.num_tokens for episode in self.episodes)
        return (read * self.prices[0] + sampled * self.prices[1]) / 1e6

    @property
    def success_at_least(self) -> float:
        """Success if all failed that was not played, or that was drawn again after a lost attempt."""
        num_proven = sum(episode.is_success and not episode.is_redrawn for episode in self.episodes)
        return num_proven / max(self.num_tasks_asked * self.num_samples, len(self.episodes), 1)

    @property
    def num_tasks_missing(self) -> int:
        """Tasks without any episode: infrastructure failed, or the evaluation was stopped before them."""
        return self.num_tasks_asked - len({episode.task_id for episode in self.episodes})


_REPORT = TypeAdapter(EvaluationReport)


def figures(report: EvaluationReport) -> dict[str, Any]:
    """All figures of the evaluation, as written to eval.json."""
    ks = powers_up_to(report.num_samples)
    return {
        "cost": report.cost,
        "num_prompt_tokens": sum(episode.num_prompt_tokens for episode in report.episodes),
        "num_sampled_tokens": sum(episode.num_tokens for episode in report.episodes),
        "success_at_least": report.success_at_least,
        "all": asdict(summarise(report.episodes, ks=ks)),
        "by_family": _as_dicts(summarise_by(by_family, report.episodes, ks=ks)),
        "by_difficulty": _as_dicts(summarise_by(by_difficulty, report.episodes, ks=ks)),
        "by_message": {
            str(number): {"num_tasks": num_tasks, "success": asdict(success)}
            for number, (num_tasks, success) in by_message(report.episodes).items()
        },
    }


def powers_up_to(largest: int) -> tuple[int, ...]:
    """The values of k for pass@k: the powers of two up to `largest`, and `largest` itself."""
    powers = {2**power for power in range(largest.bit_length()) if 2**power <= largest}
    return tuple(sorted(powers | {largest}))


def write_report(report: EvaluationReport, path: Path) -> None:
    """Write the report atomically, over an older one."""
    if not report.episodes:
        raise ValueError("no task could be played: every group was lost to infrastructure")
    document = {"report": _REPORT.dump_python(report, mode="json"), "figures": figures(report)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, document)


def write_new_report(report: EvaluationReport, path: Path) -> Path:
    """Write the report without overwriting; return its path, a numbered one if a file appeared at `path`.

    The file of its episodes is renamed with it.
    """
    part = path.with_name(f".new-{path.name}")
    write_report(report, part)
    place = move_to_free(part, path)
    if place != path:
        move_to_free(trajectories_of(path), trajectories_of(place))
    return place


def require_free_report(path: Path) -> None:
    """Raise ValueError if the report or the file of its episodes is there already, or cannot be created."""
    require_free(path)
    require_free(trajectories_of(path))  # of an interrupted evaluation, or of `turnwise rollout`


def new_report(runs: Path) -> Path:
    """A file for the next report, `RUNS/eval/DATE-TIME/eval.json`, in a folder that does not exist yet."""
    dated = runs / "eval" / f"{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}"
    return next(folder for folder in numbered(dated) if not folder.exists()) / "eval.json"


def trajectories_of(report: Path) -> Path:
    """The file of the episodes, named after the report, so that evaluations in one folder do not share it."""
    name = "trajectories.jsonl" if report.stem == "eval" else f"{report.stem}.trajectories.jsonl"
    return report.with_name(name)


def read_report(path: Path) -> EvaluationReport:
    """An eval.json; ValueError says why it is not one."""
    try:
        return _REPORT.validate_python(read_table(path, MAX_FILE_BYTES)["report"])
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (KeyError, ValidationError) as error:
        raise Damaged(path, f"is not an eval.json: {type(error).__name__}") from None


def print_report(report: EvaluationReport, *, as_json: bool = False, console: Console | None = None) -> None:
    if as_json:
        print(json.dumps(figures(report)))
        return
    console = console or Console(emoji=False)
    ks = powers_up_to(report.num_samples)
    overall = summarise(report.episodes, ks=ks)
    size = f"{overall.num_tasks} tasks × {report.num_samples}"
    title = f"{report.model}: {size}, temperature {report.temperature:g}"
    passes = (f"pass@{ks[-1]}", f"pass^{ks[-1]}")
    headers = ("", "tasks", "success (95%)", *passes, "turns", "tokens", "bad calls", "bad form", "repeating")
    rows = {"all": overall}
    rows |= summarise_by(by_difficulty, report.episodes, ks=ks)
    rows |= summarise_by(by_family, report.episodes, ks=ks)
    cells = [(name or "-", *_cells(summary, ks[-1])) for name, summary in rows.items()]
    _print_table(title, headers, cells, console)
    messages = by_message(report.episodes)
    if messages:
        lines = [
            (f"message {number}", str(num_tasks), _interval(success))
            for number, (num_tasks, success) in messages.items()
        ]
        _print_table("messages of conversations", ("", "tasks", "success (95%)"), lines, console)
    if report.cost:
        console.print(
            f"${report.cost:.4f} at ${report.prices[0]:g} and ${report.prices[1]:g} per million tokens"
        )
    if report.num_lost or report.num_tasks_missing:
        console.print(
            f"{report.num_lost} episodes were lost to infrastructure; "
            f"{report.num_tasks_missing} tasks could not be played and are not counted. Counted as failed, "
            f"success is {report.success_at_least:.2f}",
            style="yellow",
        )
    if loss_figures(report.attempts).get(CHANCE, 1.0) <= MAX_CHANCE:
        console.print(f"{most_lost(report.attempts)}: far more than of the others", style="yellow")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Paired differences of success over the tasks that two evaluations share, with bootstrap intervals."""

    models: tuple[str, str]
    num_tasks: int
    num_left_out: int
    """Tasks that only one of the two evaluations has."""
    difference: Estimate
    """Success after minus success before, over all shared tasks."""
    by_family: Mapping[str, Estimate]

    @property
    def rows(self) -> dict[str, Estimate]:
        return {
            "all": self.difference,
            **{name or "-": estimate for name, estimate in self.by_family.items()},
        }


def compare(before: EvaluationReport, after: EvaluationReport) -> Comparison:
    """Compare two evaluations task by task; ValueError if they share no task."""
    rates = rates_by_task(before.episodes), rates_by_task(after.episodes)
    both = sorted(rates[0].keys() & rates[1].keys())
    if not both:
        raise ValueError("the two evaluations have no task in common")
    families = {episode.task_id: episode.family for episode in after.episodes}
    by_family = {
        family: _difference(rates, [task for task in both if families[task] == family])
        for family in sorted({families[task] for task in both})
    }
    num_left_out = (len(rates[0]) - len(both)) + (len(rates[1]) - len(both))
    models = before.model, after.model
    return Comparison(models, len(both), num_left_out, _difference(rates, both), by_family)


def print_comparison(compared: Comparison, *, as_json: bool = False, console: Console | None = None) -> None:
    if as_json:
        print(json.dumps({name: asdict(estimate) for name, estimate in compared.rows.items()}))
        return
    console = console or Console(emoji=False)
    title = f"{' → '.join(compared.models)}, {compared.num_tasks} tasks"
    cells = [(name, _interval(estimate, sign="+")) for name, estimate in compared.rows.items()]
    _print_table(title, ("", "success, after − before (95%)"), cells, console)
    if compared.num_left_out:
        words = f"{compared.num_left_out} tasks are in one evaluation only and were left out"
        console.print(words, style="yellow")


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
        f"{summary.repeating_share:.0%}",
    ]


def _interval(estimate: Estimate, sign: str = "") -> str:
    text = f"{estimate.value:{sign}.2f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{estimate.low:{sign}.2f} {estimate.high:{sign}.2f}]"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _as_dicts(summaries: Mapping[str, Summary]) -> dict[str, Any]:
    return {name: asdict(summary) for name, summary in summaries.items()}
