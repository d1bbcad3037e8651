"""A run's summary: success before and after, an example, and what to do next."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnwise.records.folder import RunFolder
from turnwise.rewards import succeeded
from turnwise.rollout.measure.report import EvaluationReport
from turnwise.rollout.measure.statistics import paired_difference
from turnwise.rollout.measure.summary import by_family, rates_by_task, summarise, summarise_by
from turnwise.rollout.store import StoredEpisode, read_episodes
from turnwise.run.answer import Change, RunCourse, answer_of
from turnwise.run.demonstrations.warm_up import METRICS
from turnwise.run.loop import RunEnd
from turnwise.run.resumption import resume_command
from turnwise.run.screen.screen import Screen
from turnwise.system.files.regular_files import MAX_FILE_BYTES, read_table
from turnwise.system.terminal import counted

_STYLES = {"ok": "bold green", "fault": "bold red"}
"""Of the sentence at the end, by its tone."""


def summarise_run(ended: RunEnd, folder: RunFolder, seconds: float) -> dict[str, Any]:
    """The content of summary.json."""
    summary: dict[str, Any] = {
        "run": str(folder.path),
        "num_steps": ended.progress.next_step,
        "seconds": round(seconds, 3),
        "stopped": ended.why,
        "best_step": ended.progress.best_step,
        "ends_with_step": ended.progress.best_step or ended.progress.next_step,
        "heldout_success": {"before": _success(ended.before), "after": _success(ended.after)},
    }
    if (figures := folder.warm_model / METRICS).exists():
        warm = read_table(figures, MAX_FILE_BYTES)
        summary["warm_start"] = {name: warm[name] for name in ("num_lessons", "num_taken", "ended", "probes")}
    if ended.before is not None and ended.after is not None:
        gain = paired_difference(rates_by_task(ended.before.episodes), rates_by_task(ended.after.episodes))
        summary["heldout_gain"] = {"value": gain.value, "low": gain.low, "high": gain.high}
        summary["families"] = _families(ended.before, ended.after)
    return summary


def print_summary(ended: RunEnd, summary: dict[str, Any], folder: RunFolder, screen: Screen) -> None:
    """Print success before and after, one task that the run made succeed, and the next commands."""
    if ended.why:
        # the halting alarm has just been printed with its reason
        how = f"halted by the alarm {ended.halted_by}" if ended.halted_by else "stopped"
        why = "" if ended.halted_by else f": {ended.why}"
        screen.say(f"{how} after step {ended.progress.next_step}{why}", "bold yellow")
        screen.say(f"resume with: {resume_command(folder)}")
        return
    example = changed_example(folder.evaluations)
    if example is not None:
        screen.say("the same held-out task before and after:", "bold")
        for played in example:
            screen.show_played(played)
    for family, rates in summary.get("families", {}).items():
        screen.say(f"  {family:<24} {rates['before']:.2f} → {rates['after']:.2f}")
    num_steps = summary["num_steps"]
    answer = answer_of(RunCourse("finished", num_steps, num_steps, heldout=_change(summary)))
    screen.say(answer.words, _STYLES.get(answer.tone, "bold"))
    screen.say(f"finished {counted(summary['num_steps'], 'step')} in {summary['seconds']:.1f} s")
    screen.say(f"the run is in {folder.path}: summary.json, metrics.jsonl, trajectories/, evaluations/")
    talk = "eval {}" if folder.recipe.environment else "chat {}"  # one cannot chat in an environment
    for number, command in enumerate(("view {}", talk, "export {} --out model")):
        screen.say(f"{'' if number else 'next:':<5} turnwise {command.format(folder.path)}")


def _change(summary: Mapping[str, Any]) -> Change | None:
    """The change of held-out success with its interval; None if it was not measured on both sides."""
    success, gain = summary["heldout_success"], summary.get("heldout_gain")
    return Change(success["before"], success["after"], gain["low"], gain["high"]) if gain else None


def changed_example(evaluations: Path) -> tuple[StoredEpisode, StoredEpisode] | None:
    """The episodes before and after of the first held-out task that failed before and succeeded after."""
    files = [evaluations / f"{name}.trajectories.jsonl" for name in ("before", "after")]
    if not all(file.exists() for file in files):
        return None
    after = {played.trajectory.task.id: played for played in read_episodes(files[1]) if _is_good(played)}
    for played in read_episodes(files[0]):
        if played.trajectory.task.id in after and not _is_good(played):
            return played, after[played.trajectory.task.id]
    return None


def _is_good(played: StoredEpisode) -> bool:
    return succeeded(played.trajectory, played.reward)


def _success(report: EvaluationReport | None) -> float | None:
    return None if report is None else summarise(report.episodes).success.value


def _families(before: EvaluationReport, after: EvaluationReport) -> dict[str, dict[str, float]]:
    rates = [summarise_by(by_family, report.episodes) for report in (before, after)]
    return {
        family: {"before": rates[0][family].success.value, "after": rates[1][family].success.value}
        for family in rates[0]
        if family and family in rates[1]
    }
