"""The figures of a run as a table: a row per step."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from turnwise.system.files.regular_files import lines_from

if TYPE_CHECKING:
    import pandas

Row = Mapping[str, float | None]
"""The figures of a step by name, and its number from 0 as `step`; None for a figure that is not finite."""


class Metrics(Sequence[Row]):
    """The rows of a run, in the order of its steps."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = tuple(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> "Metrics": ...

    def __getitem__(self, place: int | slice) -> "Row | Metrics":
        return Metrics(self._rows[place]) if isinstance(place, slice) else self._rows[place]

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the rows as a data frame with the step as its index; needs pandas."""
        try:
            import pandas
        except ImportError:
            raise ValueError("to_pandas needs pandas: pip install pandas") from None
        frame = pandas.DataFrame([dict(row) for row in self._rows])
        return frame if frame.empty else frame.set_index("step")

    def __repr__(self) -> str:
        names = sorted({name for row in self._rows for name in row} - {"step"})
        return f"<{len(self)} steps of {len(names)} figures: {', '.join(names)}>"


def read_metrics(path: Path) -> Metrics:
    """Read a metrics.jsonl: the lines of a step become one row. A run that has not begun has no rows."""
    rows: dict[int, dict[str, Any]] = {}
    if path.exists():
        for record in _records(path):
            row = rows.get(record["step"], {"step": record["step"]})
            # the first line has the figures of all episodes, the second those of the episodes trained on
            rows[record["step"]] = {**record["metrics"], **row}
    return Metrics([rows[step] for step in sorted(rows)])


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for line in lines_from(path):
        try:
            yield json.loads(line.content)
        except ValueError:
            return  # the run is being written: its last line is not complete yet
