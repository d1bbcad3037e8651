"""The page's files: JavaScript modules, which an exported file has as one script, style sheet and fonts."""

import base64
import re
from importlib.resources import files

PAGE = files("turnwise.dashboard") / "page"
FONTS = ("inter-Regular.woff2", "inter-SemiBold.woff2")

MODULES = (
    *("morph", "dom", "place", "live", "search", "recorded", "api", "source", "axes", "csv", "take_away"),
    *("drill", "charts", "seeds", "figures", "panels", "shell", "vitals", "heat", "machine"),
    *(
        "overview",
        "health",
        "runs",
        "compare",
        "columns",
        "episodes",
        "json_view",
        "refusal",
        "strip",
        "turn",
    ),
    *("group", "episode", "calls", "tools", "evaluations", "tasks", "explored", "log", "main"),
)
"""In dependency order: a module comes after those that it imports."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n', re.MULTILINE)
_LOADED = re.compile(r'import\("\./\w+\.js"\)\.then\(\(module\) => module\.(\w+)\)')
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.MULTILINE)


def bundle() -> str:
    """All modules as one script without imports; no two modules define the same name."""
    parts = [(PAGE / f"{name}.js").read_text("utf-8") for name in MODULES]
    body = "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)
    body = _LOADED.sub(r"Promise.resolve(\1)", body)
    return f'"use strict";\n(() => {{\n{body}\n}})();'


def stylesheet(*, has_fonts: bool = False) -> str:
    """The style sheet; with the fonts in it, a file needs nothing else."""
    sheet = (PAGE / "style.css").read_text("utf-8")
    for font in FONTS if has_fonts else ():
        content = base64.b64encode((PAGE / "fonts" / font).read_bytes()).decode()
        sheet = sheet.replace(f"url({font})", f"url(data:font/woff2;base64,{content})")
    return sheet
