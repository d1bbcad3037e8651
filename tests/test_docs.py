"""The pages of the documentation: links, commands, recipes, snippets and the reference of all keys."""

import ast
import html
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import turnwise
from scripts import docs_reference
from turnwise.cli import app
from turnwise.config import read_recipe
from turnwise.config.describe import describe_keys

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "your-server.md"


def _pages() -> dict[Path, str]:
    """All pages by path: the written ones, and the generated ones of docs/reference/."""
    written = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    pages = {path: path.read_text("utf-8") for path in written if path.parent.name != "reference"}
    generated = {DOCS / "reference" / f"{name}.md": page() for name, page in docs_reference.PAGES.items()}
    return pages | generated


PAGES = _pages()
WRITTEN = {path: text for path, text in PAGES.items() if path.parent.name != "reference"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def _blocks() -> Iterator[Block]:
    fence = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for path, page in WRITTEN.items():
        for found in fence.finditer(page):
            line = page.count("\n", 0, found.start()) + 1
            yield Block(str(path.relative_to(ROOT)), line, found[1], found[2] or "", found[3])


BLOCKS = list(_blocks())


def _blocks_of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


# --- links --------------------------------------------------------------------------------------------------


def _without_code(page: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", page, flags=re.MULTILINE | re.DOTALL)


def _anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them, and those that it sets itself."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S), re.MULTILINE)
    texts = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    made = {re.sub(r"[^\w -]", "", html.unescape(text)).strip().lower().replace(" ", "-") for text in texts}
    return made | set(re.findall(r"\{#([^}]+)\}", page))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_of_it(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", _without_code(PAGES[path])):
        if "://" in target:
            continue
        file = Path(os.path.normpath(path.parent / target)) if target else path
        assert file in PAGES or file.is_file(), f"{target} is not there"
        if path.is_relative_to(DOCS):
            assert file.is_relative_to(DOCS), f"{target} is outside the site"
        assert not anchor or anchor in _anchors(PAGES[file]), f"{target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    # the file has a tag for a Python function, which only matters to the site
    loader: Any = type("Loader", (yaml.SafeLoader,), {})
    loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    named = set(_leaves(yaml.load((ROOT / "mkdocs.yml").read_text(), loader)["nav"]))
    assert named == {str(path.relative_to(DOCS)) for path in PAGES if path.is_relative_to(DOCS)}


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _leaves(part)


def test_every_page_that_source_or_tests_name_is_there() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        file = ROOT / name
        if file.suffix not in (".py", ".toml", ".md", ".sh", ".yml") or not file.is_file():
            continue
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text("utf-8")):
            assert ROOT / page in PAGES, f"{name} names {page}"


# --- the reference ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [key.name for key in describe_keys()])
def test_every_recipe_key_has_a_place_in_the_reference(key: str) -> None:
    assert f"{{#{key}}}" in PAGES[DOCS / "reference" / "recipe.md"]


FROM_AN_INDEX = re.compile(r"(?:(?:pip install|uv add)\b[^`\n]*|--from) '?turnwise(?![\w/.-])")


def test_no_page_installs_turnwise_from_an_index_that_does_not_have_it() -> None:
    assert FROM_AN_INDEX.search("pip install 'turnwise[train]'")
    assert FROM_AN_INDEX.search("uvx --from turnwise turnwise demo")
    notebook = ROOT / "examples" / "quickstart.ipynb"
    pages = {**WRITTEN, notebook: notebook.read_text("utf-8")}
    assert not [
        (path.name, found[0]) for path, page in pages.items() for found in FROM_AN_INDEX.finditer(page)
    ]


def test_every_command_has_a_place_in_the_reference() -> None:
    page = PAGES[DOCS / "reference" / "commands.md"]
    for path in docs_reference.command_paths():
        assert f"## turnwise {' '.join(path)}\n" in page


# --- snippets -----------------------------------------------------------------------------------------------


def _command_lines() -> list[tuple[Block, str]]:
    """Every line of a block that begins with `turnwise`, perhaps after a prompt, and goes on after a `\\`."""
    lines = []
    for block in _blocks_of("", "bash", "console", "text"):
        for line in block.text.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:[\w]*\$ )?(turnwise .*)", line)
            if found:
                lines.append((block, found[1]))
    return lines


@pytest.mark.parametrize(("block", "line"), _command_lines(), ids=str)
def test_every_command_and_option_on_a_page_is_real(block: Block, line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(re.split(r"\s{2,}|\s#", line)[0])[1:]
    options = _options(command)
    for word in words:
        inner = getattr(command, "commands", {})
        if word.startswith("-"):
            name = word.partition("=")[0].strip("[]|,")
            assert name in options, f"{block}: {line}: no option {name}"
        elif inner:
            names = [name.strip(",") for name in word.split("|")]
            assert all(name in inner for name in names), f"{block}: {line}: no command {word}"
            command = inner[names[0]]
            options = _options(command)


def _options(command: Any) -> set[str]:
    named = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return named | {"-h", "--help"}


@pytest.mark.parametrize("block", _blocks_of("toml"), ids=str)
def test_every_recipe_on_a_page_is_valid(block: Block, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(block.text, "utf-8")
    read_recipe(recipe)


@pytest.mark.parametrize("block", _blocks_of("json"), ids=str)
def test_every_json_on_a_page_is_valid(block: Block) -> None:
    text = block.text.strip()
    json.loads(text if text.startswith(("{", "[")) else f"{{{text}}}")


@pytest.mark.parametrize("block", _blocks_of("python"), ids=str)
def test_python_on_a_page_compiles_and_imports_what_exists(block: Block) -> None:
    tree = compile(block.text, str(block), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("turnwise"):
            assert node.module is not None
            if node.module.startswith("turnwise.run.skyrl"):
                continue  # needs SkyRL
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name), f"{block}: {node.module} has no {name.name}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tw":
            assert hasattr(turnwise, node.attr), f"{block}: turnwise has no {node.attr}"


# --- the tutorial -------------------------------------------------------------------------------------------

RUN_HERE = ("tools", "call", "tasks", "rollout")
"""Commands of the tutorial that take seconds; the others train or need a browser."""


def test_the_tutorials_files_and_quick_commands_do_what_the_page_shows(tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS if ROOT / block.page == TUTORIAL]
    for block in blocks:
        if block.title:
            (tmp_path / block.title).write_text(block.text, "utf-8")
    tomllib.loads((tmp_path / "recipe.toml").read_text("utf-8"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    shown = 0
    for block in blocks:
        for command, expected in _console(block):
            words = shlex.split(command)
            if words[0] == "python" or (words[0] == "turnwise" and words[1] in RUN_HERE):
                assert _run(words, tmp_path) == expected, command
                shown += 1
    assert shown >= 4


def _console(block: Block) -> Iterator[tuple[str, str]]:
    """The commands after `$ ` of a console block, each with the output under it."""
    if block.language != "console":
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.strip()


def _run(words: list[str], folder: Path) -> str:
    program = [sys.executable, *(["-m", "turnwise"] if words[0] == "turnwise" else []), *words[1:]]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        program, cwd=folder, capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}
    )
    return ended.stdout.strip()
