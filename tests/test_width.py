"""Sizes of the tree only shrink: lines of a package, files of a folder, functions that see a whole recipe."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.test_layers import SOURCE, read_modules

ROOT = SOURCE.parents[1]

MAX_LINES = {
    "api": 800,
    "cli": 2765,
    "config": 1900,
    "dashboard": 4930,
    "engines": 3545,
    "explore": 10_200,
    "mcp": 5840,
    "models": 2110,
    "records": 2610,
    "rewards": 1550,
    "rollout": 3230,
    "run": 7700,
    "setup": 2985,
    "system": 4975,
    "tasks": 3240,
    "training": 6900,
    "types": 1150,
    "worlds": 10_050,
}
"""Lines of Python of each package. A change that needs more raises the number in a commit that says why."""

MAX_LINES_BESIDE = {"benchmarks": 10_690, "tests": 54_800}
"""The same for what is beside the package."""

MAX_FILES = 20
"""Of a folder, without those of its subfolders."""

LARGER_FOLDERS = {"cli": 26, "dashboard/page": 42}
"""Folders that had more when the limit was set; a number may only fall, and goes once it is not needed."""

MAX_FILE_LINES = 400

MAX_FUNCTION_LINES = 40

MAX_LONG_FUNCTIONS = 40
"""The number of functions that are longer."""

MAX_RECIPE_FUNCTIONS = 92
"""Functions outside `config` that take a whole recipe: who gets a part of it cannot depend on the rest."""


def num_lines(folder: Path) -> int:
    files = (path for path in folder.rglob("*.py") if "node_modules" not in path.parts)
    return sum(len(path.read_bytes().splitlines()) for path in files)


def folders(source: Path) -> Iterator[Path]:
    for path in sorted(source.rglob("*")):
        if path.is_dir() and not {"__pycache__", "vendor"} & set(path.relative_to(source).parts):
            yield path


def faults(sizes: Mapping[str, int], limits: Mapping[str, int], default: int | None = None) -> Iterator[str]:
    """Each size above its limit, and each limit that is no longer needed."""
    for name, size in sizes.items():
        limit = limits.get(name, default)
        if limit is None:
            yield f"{name}: {size}, without a limit"
        elif size > limit:
            yield f"{name}: {size}, more than {limit}"
    for name, limit in limits.items():
        if name not in sizes or (default is not None and sizes[name] <= default):
            yield f"{name}: the limit of {limit} is no longer needed"


def test_packages_do_not_grow() -> None:
    sizes = {path.name: num_lines(path) for path in folders(SOURCE) if path.parent == SOURCE}
    assert list(faults({name: size for name, size in sizes.items() if size}, MAX_LINES)) == []


def test_tests_and_benchmarks_do_not_grow() -> None:
    assert list(faults({name: num_lines(ROOT / name) for name in MAX_LINES_BESIDE}, MAX_LINES_BESIDE)) == []


def test_folders_stay_small() -> None:
    counts = {
        path.relative_to(SOURCE).as_posix(): sum(child.is_file() for child in path.iterdir())
        for path in folders(SOURCE)
    }
    assert list(faults(counts, LARGER_FOLDERS, MAX_FILES)) == []


def test_files_stay_short() -> None:
    sizes = {
        path.relative_to(SOURCE).as_posix(): len(path.read_bytes().splitlines())
        for path in SOURCE.rglob("*.py")
    }
    assert list(faults(sizes, {}, MAX_FILE_LINES)) == []


def test_few_functions_are_long() -> None:
    longer = [
        f"{module.name}.{node.name}"
        for module in read_modules(SOURCE).values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert len(longer) <= MAX_LONG_FUNCTIONS, longer


def test_few_functions_see_a_whole_recipe() -> None:
    counts: Counter[str] = Counter()
    for module in read_modules(SOURCE).values():
        if module.top != "config":
            counts[module.name] += sum(_takes_recipe(node) for node in ast.walk(module.tree))
    assert counts.total() <= MAX_RECIPE_FUNCTIONS, counts.most_common(20)


def _takes_recipe(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    kinds = [ast.unparse(argument.annotation) for argument in arguments if argument.annotation]
    return any("Recipe" in re.findall(r"\w+", kind) for kind in kinds)


def test_a_size_above_its_limit_and_a_limit_without_need_are_faults() -> None:
    assert list(faults({"a": 11, "b": 3}, {"a": 10})) == ["a: 11, more than 10", "b: 3, without a limit"]
    assert list(faults({"a": 30, "b": 20}, {"a": 30}, 20)) == []
    assert list(faults({"a": 20, "b": 21}, {"a": 30, "c": 22}, 20)) == [
        "b: 21, more than 20",
        "a: the limit of 30 is no longer needed",
        "c: the limit of 22 is no longer needed",
    ]
