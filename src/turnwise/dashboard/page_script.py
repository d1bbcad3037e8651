"""Join the page's JavaScript modules and uPlot into one script, and their style sheets into one."""

import re
from importlib.resources import files

PAGE = files("turnwise.dashboard") / "page"
UPLOT = files("turnwise.dashboard") / "vendor" / "uplot"

MODULES = (
    *("dom", "place", "search", "recorded", "api", "source", "hold", "axes", "ink", "csv", "take_away"),
    *("chart", "drill", "seeds", "curves", "heat", "intervals"),
    *("figures", "panels", "overview", "alarms", "machine", "health", "columns", "trajectories", "tokens"),
    *("json_view", "refusal", "turn", "group", "conversation"),
    *("calls", "tools", "evaluations", "exploration", "tasks"),
    *("run_differences", "run_table", "run_bar", "log", "main"),
)
"""In dependency order: a module comes after those that it imports."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.MULTILINE)


def bundle() -> str:
    """uPlot and the modules as one script without imports; no two modules define the same name."""
    library = (UPLOT / "uPlot.iife.min.js").read_text("utf-8")
    parts = [(PAGE / f"{name}.js").read_text("utf-8") for name in MODULES]
    body = "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)
    return f'"use strict";\n(() => {{\n{library}\n{body}\n}})();'


def stylesheet() -> str:
    """uPlot's style sheet, then the page's, which overrides it."""
    return "\n".join(sheet.read_text("utf-8") for sheet in (UPLOT / "uPlot.min.css", PAGE / "style.css"))
