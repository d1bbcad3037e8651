"""Join the page's JavaScript modules into one script, so that the page loads with one request."""

import re
from importlib.resources import files

PAGE = files("turnwise.dashboard") / "page"

MODULES = (
    *("dom", "recorded", "api", "place", "source", "hold", "chart", "figures", "panels", "overview"),
    *("health", "trajectories", "tokens", "conversation", "tools", "evaluations", "main"),
)
"""In dependency order: a module comes after those that it imports."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.MULTILINE)


def bundle() -> str:
    """The modules as one script, without imports and exports: no two modules define the same name."""
    parts = [(PAGE / f"{name}.js").read_text("utf-8") for name in MODULES]
    body = "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)
    return f'"use strict";\n(() => {{\n{body}\n}})();'
