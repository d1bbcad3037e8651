"""Write the reference pages of the documentation site from the source: recipe keys, commands, Python API.

`make docs` runs it before it builds the site. The pages are in docs/reference/, which git ignores.
"""

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

import turnwise
from turnwise.cli import app
from turnwise.config.describe import KeyFacts, SectionFacts, describe_sections
from turnwise.config.presets import PRESETS

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

COLUMNS = "100"
"""Width of the help texts."""

SEAMS = (
    ("Data", ("turnwise.types.tools", "turnwise.types.tasks", "turnwise.types.episodes")),
    ("Interfaces between packages", ("turnwise.types.protocols",)),
    ("Calling MCP servers", ("turnwise.mcp.pool.Pool", "turnwise.mcp.toolbox.LeasedToolbox")),
    ("Scoring episodes", ("turnwise.rewards.Rewards", "turnwise.rewards.RewardTerm")),
    (
        "Collecting groups",
        (
            "turnwise.setup.bench.open_workbench",
            "turnwise.setup.bench.Workbench",
            "turnwise.rollout.collector.Collector",
        ),
    ),
    ("Updating the policy", ("turnwise.training.update.trainer.Trainer",)),
)
"""Objects of the Python reference after the package itself: what a program with its own loop uses."""


def recipe_page() -> str:
    """Every recipe key with its meaning, type, default and allowed values."""
    sections = describe_sections()
    num_keys = sum(len(section.keys) for section in sections)
    return "\n".join(
        [_RECIPE.format(num_keys=num_keys), *(_section(section) for section in sections), _presets()]
    )


_RECIPE = """\
# Recipe keys

A recipe is a TOML file. These are all its {num_keys} keys. Every key has a default unless it is marked
*required*; *unset* means no value. An unknown key is an error that names the nearest one.
`turnwise config KEY` prints the same facts, and `--set section.key=value` overrides a key on the command
line.

A relative path in a recipe is relative to the folder of the recipe, one in `--set` to the current directory.
"""


def _section(facts: SectionFacts) -> str:
    title = f"`[[{facts.name}]]`" if facts.is_list else f"`[{facts.name}]`" if facts.name else "Top level"
    anchor = facts.name.replace(".", "-") or "top-level"
    rows = "\n".join(_row(key) for key in facts.keys)
    return (
        f"## {title} {{#{anchor}}}\n\n{_linked(facts.meaning)}\n\n"
        f"| key | meaning | default | values |\n|---|---|---|---|\n{rows}\n"
    )


def _row(key: KeyFacts) -> str:
    values = ", ".join(f"`{choice}`" for choice in key.choices) or f"{key.type} {key.range}".strip()
    if key.choices and key.type.startswith("list"):
        values = f"list of {values}"
    default = f"*{key.default}*" if key.default in ("unset", "required") else f"`{key.default}`"
    cells = (f"`{key.name.rpartition('.')[2]}`{{#{key.name}}}", _linked(key.meaning), default, values)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _linked(text: str) -> str:
    """The text with `docs/….md` as a link to that page."""
    return re.sub(
        r"docs/([\w/-]+/)?([\w-]+)\.md", lambda found: f"[{found[2]}](../{found[1] or ''}{found[2]}.md)", text
    )


def _presets() -> str:
    rows = "\n".join(
        f"| `{name}` | {', '.join(f'`{key} = {value}`' for key, value in _leaves(preset))} |"
        for name, preset in PRESETS.items()
    )
    return f"## Presets\n\n`algorithm.preset` sets these keys.\n\n| preset | keys |\n|---|---|\n{rows}\n"


def _leaves(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", str(value).lower() if isinstance(value, bool) else repr(value)))
    return found


def commands_page() -> str:
    """The help text of every command."""
    texts = (f"## turnwise {' '.join(path)}\n\n```text\n{help_of(path)}\n```\n" for path in command_paths())
    return "\n".join([_COMMANDS, *texts])


_COMMANDS = """\
# Command options

The help texts of all commands. [Commands](../commands.md) explains them.
"""


def command_paths() -> list[tuple[str, ...]]:
    """All commands, e.g. `("train",)` and `("tasks", "make")`, in the order of `turnwise --help`."""
    paths: list[tuple[str, ...]] = []
    for name, command in _subcommands(get_command(app)).items():
        inner = _subcommands(command)
        paths += [(name, deeper) for deeper in inner] if inner else [(name,)]
    return paths


def _subcommands(command: Any) -> Mapping[str, Any]:
    return getattr(command, "commands", {})


def help_of(path: tuple[str, ...]) -> str:
    """What `turnwise … --help` prints."""
    found = CliRunner().invoke(
        app, [*path, "--help"], prog_name="turnwise", env={"COLUMNS": COLUMNS, **_PLAIN}
    )
    assert found.exit_code == 0, found.output
    return found.output.strip()


_PLAIN = {"NO_COLOR": "1", "TERM": "dumb"}


def python_page() -> str:
    """The Python API; mkdocstrings fills in signatures and docstrings."""
    names = getattr(turnwise, "__all__", ())
    defined = [_definition(name) for name in names if _module_of(name)]
    parts = [_part(name) for name in names if not _module_of(name)]
    seams = (f"## {title}\n\n" + "\n".join(f"::: {name}\n" for name in names) for title, names in SEAMS)
    heading = ["## Parts of the reward\n"] if parts else []
    return "\n".join([_PYTHON, *defined, *heading, *parts, *seams])


_PYTHON = """\
# Python API

`import turnwise as tw` has what most programs need. The sections after it document the objects for a loop of
your own.

## turnwise
"""


def _module_of(name: str) -> str:
    """The module that defines a name of `turnwise`; empty for a function that is made on demand."""
    found: Any = getattr(turnwise, name)
    module = getattr(found, "__module__", "")
    return module if inspect.getattr_static(sys.modules.get(module), name, None) is found else ""


def _definition(name: str) -> str:
    return f"::: {_module_of(name)}.{name}\n    options:\n      heading: tw.{name}\n"


def _part(name: str) -> str:
    found = getattr(turnwise, name)
    signature = inspect.signature(found)
    plain = [part.replace(annotation=part.empty) for part in signature.parameters.values()]
    return f"### `tw.{name}{inspect.Signature(plain)}`\n\n{inspect.getdoc(found) or ''}\n"


PAGES = {"recipe": recipe_page, "commands": commands_page, "python": python_page}
"""The generated pages of reference/, by name."""

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / f"{name}.md").write_text(page(), encoding="utf-8")
