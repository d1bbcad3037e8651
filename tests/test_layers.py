"""The syntax trees under src/turnwise keep the import layers, and a few habits of the house."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "turnwise"

LAYERS = (
    {"version", "types", "config", "system"},
    {"models", "mcp", "tasks", "rewards", "records"},
    {"engines", "training", "worlds", "rollout"},
    {"setup", "explore"},
    {"run"},
    {"api", "dashboard"},
    {"cli", "__main__"},
)
"""Lowest first: a layer imports only what stands before it, and nothing beside it."""

ROOT_MAY_IMPORT = {"api", "version", "explore", "rollout"}
"""`import turnwise` offers the names of `api`, lazily, and frees the names of two packages for them."""

WALLS = {
    "types": {"config", "system"},
    "system": {"config", "models", "types"},
    "rollout": {"config", "engines", "mcp"},
    "engines": {"mcp", "rewards", "tasks"},
    "training": {"mcp", "rewards", "tasks"},
    "mcp.calls": {"mcp.processes"},
    "worlds.market": {"worlds.generated"},
    "worlds.generated": {"worlds.market"},
}
"""What a room must not import, although the layers would allow it: it comes as an argument, by a protocol."""

MAY_IMPORT_BESIDE = {("__main__", "cli")}
"""`python -m turnwise` is the command."""

OWNERS = {
    "mcp": "mcp",
    "mcp_types": "mcp",
    "vllm": "engines",
    "wandb": "records",
    "weave": "records",
    "trackio": "records",
    "tensorboard": "records",
    "tensorboardX": "records",
    "ray": "run",
    "skyrl": "run",
    "skyrl_train": "run",
    "deepspeed": "training",
    "bitsandbytes": "models",
}
"""Outside packages that only one package of ours may know of, so that each can be replaced in one place."""

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its dotted name and what it says."""

    name: str
    is_package: bool
    tree: ast.Module

    @property
    def top(self) -> str:
        """The room of the tree it stands in: `mcp` for turnwise.mcp.pool, `` for turnwise itself."""
        return self.name.split(".")[1] if "." in self.name else ""


@dataclass(frozen=True, slots=True)
class Import:
    """One name a module imports, as far as it names a module, and the line."""

    target: str
    line: int


def read_modules(source: Path) -> dict[str, Module]:
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(name, is_package, ast.parse(path.read_text(), str(path)))
    return modules


def imports_of(module: Module, known: dict[str, Module]) -> Iterator[Import]:
    """Every import, at the top, inside functions and under TYPE_CHECKING, relative ones made absolute."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, node.lineno)
            case ast.ImportFrom():
                origin = _origin(module, node)
                for alias in node.names:
                    inner = f"{origin}.{alias.name}"
                    yield Import(inner if inner in known else origin, node.lineno)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module")
            ):
                match node.args:
                    case [ast.Constant(value=str(target)), *_]:
                        yield Import(target, node.lineno)


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    package = package[: len(package) - node.level + (1 if module.is_package else 0)]
    return ".".join([*package, *([node.module] if node.module else [])])


def layer_of(top: str) -> int | None:
    return next((number for number, layer in enumerate(LAYERS) if top in layer), None)


def layer_faults(modules: dict[str, Module]) -> Iterator[str]:
    root = min(modules).split(".")[0]
    for module in modules.values():
        own = layer_of(module.top)
        if module.top and own is None:
            yield f"{module.name}: {module.top!r} stands in no layer; place it in LAYERS"
        for found in imports_of(module, modules):
            where = f"{module.name}:{found.line} imports {found.target}"
            parts = found.target.split(".")
            if parts[0] != root:
                owner = OWNERS.get(parts[0])
                if owner is not None and module.top != owner:
                    yield f"{where}: only {root}.{owner} may"
            elif len(parts) > 1:
                yield from _wrong_direction(where, module.top, own, parts[1])
            # `import turnwise` by itself, for __version__, is free to all.


def _wrong_direction(where: str, top: str, own: int | None, target: str) -> Iterator[str]:
    other = layer_of(target)
    if not top:
        if target not in ROOT_MAY_IMPORT:
            yield f"{where}: the package itself offers only what {', '.join(sorted(ROOT_MAY_IMPORT))} have"
    elif target == top or (top, target) in MAY_IMPORT_BESIDE or own is None:
        return
    elif other is None or other >= own:
        yield f"{where}: {target!r} does not stand to the left of {top!r}"


def wall_faults(modules: dict[str, Module]) -> Iterator[str]:
    root = min(modules).split(".")[0]
    for room, others in WALLS.items():
        for module in modules.values():
            if not f"{module.name}.".startswith(f"{root}.{room}."):
                continue
            for target, line in ((found.target, found.line) for found in imports_of(module, modules)):
                if any(f"{target}.".startswith(f"{root}.{other}.") for other in others):
                    yield f"{module.name}:{line} imports {target}: there is a wall between them"


def cycles(modules: dict[str, Module]) -> Iterator[str]:
    """Each import cycle once, found by walking depth first with the way so far in hand.

    The package itself has no edges: it imports when a name is used, long after every module is loaded.
    """
    edges = {
        name: sorted({found.target for found in imports_of(module, modules)} & (set(modules) - {name}))
        if module.top
        else []
        for name, module in modules.items()
    }
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> Iterator[str]:
        if name in way:
            yield " -> ".join([*way[way.index(name) :], name])
        elif name not in done:
            for target in edges[name]:
                yield from walk(target, [*way, name])
            done.add(name)

    for name in sorted(modules):
        yield from walk(name, [])


def habit_faults(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        if not ast.get_docstring(module.tree):
            yield f"{module.name}: opens without a docstring"
        if module.name.rpartition(".")[2] in VAGUE_NAMES:
            yield f"{module.name}: a thing lives where its name says, and this name says nothing"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ExceptHandler) and _catches_all(node.type) and _does_nothing(node.body):
                yield f"{module.name}:{node.lineno}: catches everything and does nothing"
            if isinstance(node, ast.Call) and _suppresses_all(node):
                yield f"{module.name}:{node.lineno}: suppresses everything"


def _catches_all(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_catches_all(item) for item in kind.elts)
    return kind is None or ast.unparse(kind) in ("Exception", "BaseException")


def _suppresses_all(call: ast.Call) -> bool:
    return ast.unparse(call.func).endswith("suppress") and any(map(_catches_all, call.args))


def _does_nothing(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in body
    )


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return read_modules(SOURCE)


def test_every_import_points_to_the_left(modules: dict[str, Module]) -> None:
    assert len(modules) > 20
    assert list(layer_faults(modules)) == []


def test_no_import_goes_through_a_wall(modules: dict[str, Module]) -> None:
    assert list(wall_faults(modules)) == []


def test_no_modules_import_each_other_in_a_circle(modules: dict[str, Module]) -> None:
    assert list(cycles(modules)) == []


def test_every_file_says_what_it_is_and_swallows_nothing(modules: dict[str, Module]) -> None:
    assert list(habit_faults(modules)) == []


# --- the checker itself ------------------------------------------------------------------------------------

SOUND = {
    "__init__.py": "",
    "types.py": "import json",
    "rewards.py": "from turnwise.types import Tool",
    "mcp/__init__.py": "",
    "mcp/pool.py": "import mcp, turnwise\nfrom turnwise.mcp import spec\nfrom turnwise.types import Tool",
    "mcp/spec.py": "from ..types import Toolbox",
    "worlds/fmp.py": "from turnwise.mcp.pool import Pool",
    "run/tools.py": "from turnwise.worlds.fmp import x",
    "cli.py": "def f():\n    from turnwise.run.tools import x",
    "__main__.py": "from turnwise.cli import main",
}


def planted(tmp_path: Path, **files: str) -> dict[str, Module]:
    source = tmp_path / "turnwise"
    for name, body in {**SOUND, **files}.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""Doc."""\n{body}\n')
    return read_modules(source)


def test_the_checker_finds_nothing_wrong_with_a_sound_tree(tmp_path: Path) -> None:
    modules = planted(tmp_path)
    assert list(layer_faults(modules)) + list(cycles(modules)) + list(habit_faults(modules)) == []


@pytest.mark.parametrize(
    ("file", "body", "word"),
    [
        ("types.py", "from turnwise.rewards import x", "turnwise.types:2"),
        ("types.py", "from .rewards import x", "turnwise.types:2"),
        ("mcp/spec.py", "from turnwise.tasks import load", "'tasks'"),
        ("mcp/spec.py", "from ..records import x", "'records'"),
        ("mcp/spec.py", "from turnwise import cli", "'cli'"),
        ("mcp/spec.py", "import turnwise.worlds.fmp", "'worlds'"),
        ("mcp/spec.py", "def f():\n    from turnwise.worlds import fmp", "turnwise.mcp.spec:3"),
        (
            "mcp/spec.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import turnwise.run",
            "'run'",
        ),
        ("mcp/spec.py", "from importlib import import_module\nimport_module('turnwise.run')", "'run'"),
        ("worlds/fmp.py", "import turnwise.training.update.trainer", "'training'"),
        ("worlds/fmp.py", "from turnwise.elsewhere import x", "'elsewhere'"),
        ("worlds/fmp.py", "import mcp_types as wire", "only turnwise.mcp may"),
        ("worlds/fmp.py", "def f():\n    from mcp import Client", "only turnwise.mcp may"),
        ("training/x.py", "import vllm", "only turnwise.engines may"),
        ("engines/x.py", "import wandb", "only turnwise.records may"),
        ("run/tools.py", "import turnwise.cli", "'cli'"),
        ("run/tools.py", "import turnwise.dashboard", "'dashboard'"),
        ("cli.py", "import turnwise.__main__", "'__main__'"),
        ("__init__.py", "from turnwise.types import Tool", "the package itself"),
        ("newroom/x.py", "", "'newroom' stands in no layer"),
    ],
)
def test_the_checker_catches_a_wrong_import(tmp_path: Path, file: str, body: str, word: str) -> None:
    [fault] = layer_faults(planted(tmp_path, **{file: body}))
    assert word in fault


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("rollout/play.py", "from turnwise.mcp.pool import Pool"),
        ("rollout/play.py", "def f():\n    import turnwise.config"),
        ("mcp/calls/results.py", "from ..processes.walls import x"),
        ("training/update/trainer.py", "from turnwise import rewards"),
    ],
)
def test_the_checker_catches_an_import_through_a_wall(tmp_path: Path, file: str, body: str) -> None:
    modules = planted(tmp_path, **{file: body, "mcp/processes/walls.py": "", "config.py": ""})
    [fault] = wall_faults(modules)
    assert "wall" in fault


def test_the_checker_catches_circles(tmp_path: Path) -> None:
    modules = planted(tmp_path, **{"mcp/spec.py": "def f():\n    from turnwise.mcp.pool import Pool"})
    assert list(cycles(modules)) == ["turnwise.mcp.pool -> turnwise.mcp.spec -> turnwise.mcp.pool"]


@pytest.mark.parametrize(
    ("file", "body", "word"),
    [
        ("mcp/utils.py", "", "turnwise.mcp.utils"),
        ("mcp/base.py", "", "turnwise.mcp.base"),
        ("mcp/spec.py", "try:\n    x()\nexcept Exception:\n    pass", "turnwise.mcp.spec:4"),
        ("mcp/spec.py", "try:\n    x()\nexcept:\n    ...", "turnwise.mcp.spec:4"),
        ("mcp/spec.py", "try:\n    x()\nexcept (OSError, BaseException):\n    pass", "mcp.spec:4"),
        ("mcp/spec.py", "import contextlib\nwith contextlib.suppress(Exception):\n    x()", "mcp.spec:3"),
    ],
)
def test_the_checker_catches_bad_habits(tmp_path: Path, file: str, body: str, word: str) -> None:
    [fault] = habit_faults(planted(tmp_path, **{file: body}))
    assert word in fault


def test_the_checker_catches_a_file_that_does_not_say_what_it_is(tmp_path: Path) -> None:
    planted(tmp_path)
    (tmp_path / "turnwise" / "mcp" / "spec.py").write_text("# a comment is no docstring\nx = 1\n")
    [fault] = habit_faults(read_modules(tmp_path / "turnwise"))
    assert fault == "turnwise.mcp.spec: opens without a docstring"
