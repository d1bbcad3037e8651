"""Takes an evaluation's report, gives its figures by name, as trackers have them."""

from turnwise.evaluate.report import Report
from turnwise.evaluate.summary import by_family, summarise, summarise_by


def evaluation_figures(report: Report) -> dict[str, float]:
    """Success with the ends of its interval, whole and by family, and how it was come by."""
    whole = summarise(report.episodes)
    figures = {
        "success": whole.success.value,
        "turns": whole.turns.value,
        "tokens": whole.tokens.value,
        "tool_error_rate": whole.tool_error_rate,
        "format_error_rate": whole.format_error_rate,
    }
    if whole.success.low is not None and whole.success.high is not None:
        figures |= {"success_low": whole.success.low, "success_high": whole.success.high}
    families = summarise_by(by_family, report.episodes)
    return figures | {
        f"success/{family}": summary.success.value for family, summary in families.items() if family
    }
