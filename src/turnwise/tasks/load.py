"""Read tasks from a JSON, JSONL or Parquet file, and write them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from turnwise.config.optional_packages import install_command
from turnwise.system.files.free_path import move_to_free, require_free
from turnwise.system.files.regular_files import Damaged, open_new, read_named, read_named_text
from turnwise.tasks.earlier.legacy import is_legacy, legacy_task
from turnwise.tasks.earlier.recording import Recording, recording_of
from turnwise.tasks.ids import DerivedIds
from turnwise.tasks.rows import RowError, row_of, shown, task_of
from turnwise.types import Task

SUFFIXES = (".json", ".jsonl", ".parquet")

_JSON_COLUMNS = ("truth", "conversation", "user", "demonstration")
"""Parquet columns stored as JSON text: their structure differs between tasks."""


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A task and its location: the file, and the row (for JSONL the line) counted from 1."""

    file: str
    row: int
    task: Task
    recording: Recording | None = None
    """The episode of this task that an earlier system recorded; it is not verified."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a task file; row 0 means the file as a whole."""

    file: str
    row: int
    field: str
    message: str

    def __str__(self) -> str:
        row = f": row {self.row}" if self.row else ""
        return f"{self.file}{row}{f': {self.field}' if self.field else ''}: {self.message}"


def load(path: Path, *, tool_servers: Mapping[str, str] | None = None) -> tuple[Task, ...]:
    """Return all tasks of a file; the first mistake is a ValueError that names file, row and field.

    `tool_servers` gives rows of earlier systems the servers of their tools; without it they have only the
    servers that the row itself names.
    """
    tasks = []
    for item in read(path, tool_servers=tool_servers):
        if isinstance(item, Problem):
            raise ValueError(str(item))
        tasks.append(item.task)
    return tuple(tasks)


def read(path: Path, *, tool_servers: Mapping[str, str] | None = None) -> Iterator[PlacedTask | Problem]:
    """Yield each row as a task or as its problem, so that one mistake does not hide the next."""
    try:
        rows = _rows(path)
    except (ValueError, OSError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = error.reason if isinstance(error, Damaged) else reason
        yield Problem(str(path), 0, "", reason)
        return
    ids = DerivedIds()
    for number, row in rows:
        try:
            if isinstance(row, RowError):
                raise row
            task = _task(row, path, number, tool_servers or {})
            recording = recording_of(row) if is_legacy(row) else None
            yield PlacedTask(str(path), number, ids.identify(task), recording)
        except RowError as error:
            yield Problem(str(path), number, error.field, error.message)
        except RecursionError:
            yield Problem(str(path), number, "", "its values are nested too deeply")


def from_rows(rows: Iterable[Task | Mapping[str, Any]], name: str = "tasks") -> tuple[Task, ...]:
    """Return tasks given as objects or as rows of a file; the first mistake is a ValueError.

    `name` stands for the file in messages.
    """
    ids, tasks = DerivedIds(), []
    for number, row in enumerate(rows, start=1):
        try:
            task = row if isinstance(row, Task) else _task(row, Path(name), number, {})
        except RowError as error:
            raise ValueError(str(Problem(name, number, error.field, error.message))) from None
        tasks.append(ids.identify(task))
    return tuple(tasks)


def save(tasks: Sequence[Task], path: Path) -> None:
    """Write a file that `load` reads back as equal tasks, readable only by its owner; the write is atomic."""
    write = {".json": _write_json, ".jsonl": _write_jsonl, ".parquet": _write_parquet}[_suffix(path)]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        with open_new(part) as file:
            write([row_of(task) for task in tasks], file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def save_new(tasks: Sequence[Task], path: Path) -> Path:
    """Save without overwriting; return the path, a numbered one if a file has appeared at `path`."""
    part = path.with_name(f".new-{path.name}")
    save(tasks, part)
    return move_to_free(part, path)


def check_new(path: Path) -> None:
    """Raise ValueError if the path does not end in a known suffix or the file exists."""
    _suffix(path)
    require_free(path)


def _task(row: Any, path: Path, number: int, tool_servers: Mapping[str, str]) -> Task:
    if not isinstance(row, Mapping):
        raise RowError("", f"expected an object, got {shown(row)}")
    if is_legacy(row):
        return legacy_task(row, file_stem=path.stem, number=number, tool_servers=tool_servers)
    return task_of(row)


def _suffix(path: Path) -> str:
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: expected a file ending in {', '.join(SUFFIXES)}")
    return path.suffix.lower()


def _rows(path: Path) -> list[tuple[int, Any]]:
    """Return numbered rows as JSON values; a JSONL line that is not JSON is returned as a RowError."""
    match _suffix(path):
        case ".jsonl":
            lines = read_named_text(path).split("\n")
            return [(number, _line(line)) for number, line in enumerate(lines, start=1) if line.strip()]
        case ".json":
            parsed = json.loads(read_named_text(path))
            if isinstance(parsed, dict):
                parsed = next((parsed[key] for key in ("tasks", "data") if key in parsed), parsed)
            if not isinstance(parsed, list):
                raise ValueError('expected a list of tasks, or an object with one under "tasks" or "data"')
            return list(enumerate(parsed, start=1))
        case _:
            return list(enumerate(_read_parquet(path), start=1))


def _line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return RowError("", f"not JSON: {error}")


def _dump(value: Any) -> str:
    # NaN is not valid JSON: other readers would reject it.
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _write_json(rows: Sequence[Mapping[str, Any]], file: BinaryIO) -> None:
    lines = ",\n".join(_dump(row) for row in rows)
    file.write(f"[\n{lines}\n]\n".encode())


def _write_jsonl(rows: Sequence[Mapping[str, Any]], file: BinaryIO) -> None:
    file.write("".join(f"{_dump(row)}\n" for row in rows).encode())


def _parquet() -> Any:
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]  # it ships no types
    except ImportError as error:
        raise ValueError(f"Parquet files need pyarrow: {install_command('parquet')}") from error
    return pyarrow.parquet


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    parquet = _parquet()
    import pyarrow

    try:
        table = parquet.read_table(pyarrow.BufferReader(read_named(path)))
    except pyarrow.ArrowException as error:
        raise ValueError(f"not a Parquet file: {str(error).splitlines()[0]}") from error
    rows: list[dict[str, Any]] = table.to_pylist()
    return [_unpacked(row) for row in rows]


def _unpacked(row: dict[str, Any]) -> dict[str, Any]:
    """Drop nulls, which stand for fields that the task does not set, and parse the JSON columns."""
    if is_legacy(row):
        return row
    row = {key: value for key, value in row.items() if value is not None}
    for key in _JSON_COLUMNS:
        if isinstance(row.get(key), str):
            parsed = _line(row[key])
            row[key] = row[key] if isinstance(parsed, RowError) else parsed
    return row


def _write_parquet(rows: Sequence[Mapping[str, Any]], file: BinaryIO) -> None:
    parquet = _parquet()
    import pyarrow as arrow

    text, texts = arrow.string(), arrow.list_(arrow.string())
    schema = arrow.schema(
        [
            ("id", text),
            ("family", text),
            ("split", text),
            ("world", text),
            ("difficulty", text),
            ("prompt", arrow.list_(arrow.struct([("role", text), ("content", text)]))),
            ("servers", texts),
            ("tools", texts),
            ("max_turns", arrow.int64()),
            ("seed", arrow.int64()),
            *((column, text) for column in _JSON_COLUMNS),
        ]
    )
    packed = [
        {key: _dump(value) if key in _JSON_COLUMNS else value for key, value in row.items()} for row in rows
    ]
    parquet.write_table(arrow.Table.from_pylist(packed, schema=schema), file)
