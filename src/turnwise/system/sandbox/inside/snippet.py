"""Run source text as `__main__` and return its value or its traceback."""

import ast
import builtins
import json
import linecache
import sys
import threading
import traceback
import types
from collections.abc import Mapping, Sequence
from typing import Any

from .jsonable import to_json

_FILENAMES = ("<code>", "<step")
"""Prefixes of the file names that the code's own lines have in a traceback."""
_ERROR_BYTES = 8192
_CUT = "… [cut]"


def execute(
    sources: Sequence[str],
    variables: Mapping[str, Any],
    result_names: Sequence[str],
    value_bytes: int,
    shown_bytes: int,
) -> dict[str, Any]:
    """Run one source, or several steps; each step finds the value of the previous one in `data`.

    If the last expression has no value, the value is that of the first of `result_names` that is set.
    """
    main = types.ModuleType("__main__")
    main.__dict__.update(variables, __builtins__=builtins)
    sys.modules["__main__"] = main
    outcome: dict[str, Any] = {"value": "", "value_json": None, "error": "", "is_memory": False}
    try:
        value = _run_all(sources, main.__dict__, result_names)
        outcome["value"] = "" if value is None else _cut(repr(value), shown_bytes)
        outcome["value_json"] = _as_json(value, value_bytes)
        threading._shutdown()  # type: ignore[attr-defined]  # wait for threads, as an interpreter does
    except SystemExit as stop:
        # `exit()` at the end of a script is a normal end
        outcome["error"] = "" if stop.code in (None, 0) else f"SystemExit: {stop.code}"
    except MemoryError:
        outcome.update(error="MemoryError: the code used more memory than it may", is_memory=True)
    except BaseException as error:  # noqa: BLE001 (whatever hostile code raises is its result)
        outcome["error"] = _explain(error)
    return outcome


def _run_all(sources: Sequence[str], namespace: dict[str, Any], result_names: Sequence[str]) -> Any:
    value = None
    for number, source in enumerate(sources, start=1):
        if number > 1:
            namespace.pop("result", None)
            namespace["data"] = value
        value = _run(source, namespace, "<code>" if len(sources) == 1 else f"<step {number}>")
        if value is None:
            set_names = (name for name in result_names if namespace.get(name) is not None)
            value = next((namespace[name] for name in set_names), None)
    return value


def _run(source: str, namespace: dict[str, Any], filename: str) -> Any:
    # so that a traceback can quote the line
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    tree = ast.parse(source, filename)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, filename, "exec"), namespace)  # noqa: S102 (what a sandbox is for)
        return None
    del tree.body[-1]
    exec(compile(tree, filename, "exec"), namespace)  # noqa: S102
    return eval(compile(ast.Expression(last.value), filename, "eval"), namespace)  # noqa: S307


def _as_json(value: Any, limit: int) -> str | None:
    if value is None:
        return None
    try:
        text = json.dumps(to_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return text if len(text.encode("utf-8", "replace")) <= limit else None


def _explain(error: BaseException) -> str:
    """Return the traceback of the code's own frames: library frames and paths mean nothing to a model."""
    try:
        report = traceback.TracebackException.from_exception(error, limit=-40, compact=True)
        _keep_own_frames(report, 0)
        return _cut_middle("".join(report.format()).rstrip())
    except BaseException:  # noqa: BLE001 (a hostile __str__ may raise anything)
        return f"{type(error).__name__}: (its message could not be shown)"


def _keep_own_frames(report: traceback.TracebackException, depth: int) -> None:
    own = [frame for frame in report.stack if frame.filename.startswith(_FILENAMES)]
    report.stack = traceback.StackSummary.from_list(own)
    related = [report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or [])]
    for other in related:
        if other is not None and depth < 10:
            _keep_own_frames(other, depth + 1)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + _CUT


def _cut_middle(text: str) -> str:
    half = _ERROR_BYTES // 2
    return text if len(text) <= _ERROR_BYTES else f"{text[:half]}\n{_CUT}\n{text[-half:]}"
