"""The figures of an evaluation, by the names that trackers show."""

from turnwise.evaluate.report import Report
from turnwise.evaluate.summary import by_family, summarise, summarise_by


def evaluation_figures(report: Report) -> dict[str, float]:
    """Success with its interval, over all tasks and by family; turns, tokens and error rates."""
    overall = summarise(report.episodes)
    figures = {
        "success": overall.success.value,
        "turns": overall.turns.value,
        "tokens": overall.tokens.value,
        "tool_error_rate": overall.tool_error_rate,
        "format_error_rate": overall.format_error_rate,
    }
    if overall.success.low is not None and overall.success.high is not None:
        figures |= {"success_low": overall.success.low, "success_high": overall.success.high}
    families = summarise_by(by_family, report.episodes)
    return figures | {
        f"success/{family}": summary.success.value for family, summary in families.items() if family
    }
