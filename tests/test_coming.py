"""docs/coming-from/multi-mcp-rl.md: every older name has a row, and every command and key on it is real."""

import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import typer

from turnwise.cli import app
from turnwise.config import Recipe, parse_settings, read_recipe

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coming-from" / "multi-mcp-rl.md").read_text()
HEADINGS = {
    "scripts": "Scripts",
    "flags": "Flags",
    "variables": "Environment variables",
    "keys": "Configuration keys",
}
PLACEHOLDERS = {"N": "2", "RECIPE": str(ROOT / "recipes" / "cpu.toml"), "JSON": "{}"}


def older_names() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for line in (ROOT / "tests" / "older_names.txt").read_text().splitlines():
        if line.startswith("["):
            section = names.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            section.append(line)
    return names


def section(heading: str) -> str:
    return re.split(r"^## ", PAGE.split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.M)[0]


def patterns(heading: str) -> list[str]:
    """What the first columns of a section's tables name."""
    rows = [line.split("|")[1] for line in section(heading).splitlines() if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("kind", HEADINGS)
def test_every_older_name_has_a_row(kind: str) -> None:
    rows = patterns(HEADINGS[kind])
    missing = [name for name in older_names()[kind] if not any(fnmatchcase(name, row) for row in rows)]
    assert missing == []


@pytest.mark.parametrize("kind", HEADINGS)
def test_every_row_names_something_that_there_was(kind: str) -> None:
    names = older_names()[kind]
    for row in patterns(HEADINGS[kind]):
        assert len(row.replace("*", "")) > 1, f"{row} would match anything"
        assert any(fnmatchcase(name, row) for name in names), row


# --- commands ----------------------------------------------------------------------------------------------


def commands() -> list[str]:
    fences = re.findall(r"^```\n(.*?)^```", PAGE, re.M | re.S)
    lines = [line for fence in fences for line in fence.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", PAGE, flags=re.M | re.S))
    return sorted({text for text in (*lines, *spans) if text.startswith("turnwise ")})


def parsed(text: str) -> dict[str, Any]:
    """The parameters of a command as its own parser reads them; an unknown option or command fails."""
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(text)[1:]]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        place = next(number for number, word in enumerate(words) if word in command.commands)
        command.make_context("turnwise", [*words[:place], words[place]])  # options before the command
        command, words = command.commands[words[place]], words[place + 1 :]
    params: dict[str, Any] = command.make_context(command.name, words).params
    return params


def test_there_are_commands() -> None:
    assert len(commands()) > 25


@pytest.mark.parametrize("text", commands())
def test_a_command_on_the_page_is_accepted_and_its_recipe_with_every_set_key_is_valid(text: str) -> None:
    params = parsed(text)
    recipe = params.get("recipe")
    if recipe is None or str(recipe).isupper():
        return
    read_recipe(ROOT / recipe, parse_settings(params["overrides"]))


# --- keys, recipes and pages -------------------------------------------------------------------------------


def keys(section_type: Any, prefix: str = "") -> set[str]:
    found = set()
    for name, field in section_type.model_fields.items():
        found.add(prefix + name)
        if hasattr(field.annotation, "model_fields"):
            found |= keys(field.annotation, f"{prefix}{name}.")
    return found


def test_every_key_of_a_recipe_that_it_names_is_one() -> None:
    sections = {
        name for name, field in Recipe.model_fields.items() if hasattr(field.annotation, "model_fields")
    }
    own_columns = "\n".join(
        "|".join(line.split("|")[2:]) if line.startswith("|") else line for line in PAGE.splitlines()
    )
    named = {
        match.group(1)
        for match in re.finditer(r"[` ]((?:[a-z_]+\.)+[a-z_]+)", own_columns)
        if match.group(1).split(".")[0] in sections
    }
    assert len(named) > 50
    assert named - keys(Recipe) == set()


def test_every_recipe_and_page_that_it_names_is_there() -> None:
    for name in re.findall(r"recipes/\w+\.toml|docs/[\w/-]+\.md", PAGE):
        assert (ROOT / name).is_file(), name
