"""A user's mistake ends a command with one line and changes nothing; a bug shows its traceback."""

import os
from pathlib import Path

import pytest

from tests import warm
from tests.run.stage import write_recipe
from tests.test_cli import one_line, turnwise
from turnwise.cli.mistakes import mistake_in
from turnwise.config.optional_packages import install_command


def raised(error: Exception) -> Exception:
    """The error as another module than ours raises it."""
    try:
        raise error
    except Exception as caught:  # noqa: BLE001
        return caught


def test_a_missing_optional_package_says_what_to_install() -> None:
    words = mistake_in(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert words == f"torch is not installed: {install_command('train')}"
    words = mistake_in(ModuleNotFoundError("No module named 'vllm'", name="vllm"))
    assert words == f"vllm is not installed: {install_command('vllm')}"


@pytest.mark.parametrize(
    "bug",
    [
        ModuleNotFoundError("No module named 'turnwise.nothing'", name="turnwise.nothing"),
        ModuleNotFoundError("No module named 'torch.nothing'", name="torch.nothing"),
        ImportError("cannot import name 'x' from 'torch'", name="torch"),
        RuntimeError("x"),
        KeyError("x"),
        ExceptionGroup("two", [ValueError("a"), ValueError("b")]),
    ],
)
def test_a_bug_is_not_taken_for_a_mistake(bug: Exception) -> None:
    assert mistake_in(raised(bug)) is None


def test_a_full_disk_is_named_with_its_file() -> None:
    error = OSError(28, "No space left on device", "runs/x/metrics.jsonl")
    assert mistake_in(raised(error)) == "runs/x/metrics.jsonl: No space left on device"
    wrapped = ExceptionGroup("tasks", [ExceptionGroup("inner", [error])])
    assert mistake_in(wrapped) == "runs/x/metrics.jsonl: No space left on device"


def test_a_foreign_value_error_says_how_to_see_more() -> None:
    assert mistake_in(raised(ValueError("odd"))) == "ValueError: odd (turnwise --debug shows where)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a sound recipe, and files that are none of what they are given as."""
    write_recipe(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\x00\xff")
    (tmp_path / "folder").mkdir()
    (tmp_path / "tasks.jsonl").mkdir()
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "syntax.py").write_text("def f(:")
    (tmp_path / "raising.py").write_text("raise RuntimeError('boom')")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "folder"], "folder: is a folder, not a recipe"),
        (["train", "missing.toml"], "missing.toml: no such file"),
        (["train", "binary.toml"], "binary.toml: not UTF-8"),
        (["train", "recipe.toml", "--set", "group_size=4"], "did you mean 'rollout.group_size'?"),
        (["train", "recipe.toml", "--set", "rollout.group_size=abc"], "rollout.group_size: "),
        (["train", "recipe.toml", "--set", "optimizer.betas=1"], "optimizer.betas: expected a list"),
        (["train", "recipe.toml", "--set", "tools.mcp=list.json"], "list.json: expected an object"),
        (["train", "recipe.toml", "--set", "tasks.train=tasks.jsonl"], "is a folder, not a file"),
        (["train", "recipe.toml", "--set", "rewards=[{name='syntax:f'}]"], "SyntaxError: invalid syntax"),
        (["train", "recipe.toml", "--set", "rewards=[{name='raising:f'}]"], "RuntimeError: boom"),
        (["tasks", "make", "recipe.toml"], "recipe.toml: is a file, not a folder"),
        (["tasks", "convert", "missing.json", "new.jsonl"], "missing.json: No such file"),
        (["view", "--export", "list.json"], "no run in runs"),
        (["eval", "recipe.toml", "--out", "list.json"], "list.json: is there already"),
        (["runs", "--in", "list.json"], "list.json: Not a directory"),
        (["init", "list.json"], "list.json: is a file, not a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_nothing_is_written(folder: Path, args: list[str], words: str) -> None:
    before = sorted(folder.rglob("*"))
    ran = turnwise(*args, cwd=folder, python=warm.heavy)
    assert ran.code == 2, ran
    assert words in one_line(ran.err)
    after = [path for path in folder.rglob("*") if not {"__pycache__", ".cache"} & set(path.parts)]
    assert sorted(after) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_recipe_without_permission_is_named(folder: Path) -> None:
    (folder / "recipe.toml").chmod(0)
    ran = turnwise("train", "recipe.toml", cwd=folder)
    assert one_line(ran.err) == "turnwise: recipe.toml: cannot be read: Permission denied"
