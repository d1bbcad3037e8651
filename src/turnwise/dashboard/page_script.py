"""Join the page's JavaScript modules into one script, so that the page loads with one request."""

import re
from importlib.resources import files

PAGE = files("turnwise.dashboard") / "page"

MODULES = (
    *("dom", "recorded", "api", "place", "source", "hold", "chart", "figures", "panels", "overview"),
    *("health", "trajectories", "tokens", "conversation", "tools", "evaluations", "main"),
)
"""In the order in which each knows those it imports."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.MULTILINE)


def bundle() -> str:
    """They are written so that no two have a name in common."""
    parts = [(PAGE / f"{name}.js").read_text("utf-8") for name in MODULES]
    body = "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)
    return f'"use strict";\n(() => {{\n{body}\n}})();'
