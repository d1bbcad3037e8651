"""Convert any Python value to the closest plain JSON value."""

import datetime
import decimal
import fractions
import math
import sys
from collections.abc import Mapping
from typing import Any

_MAX_DEPTH = 64


def to_json(value: Any, depth: int = 0) -> Any:  # noqa: PLR0911 (one per kind of value)
    """Return the value as JSON types; NaN and infinities become null, since JSON has neither."""
    if depth > _MAX_DEPTH:
        raise TypeError("nested too deeply")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key): to_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range | type({}.keys()) | type({}.values())):
        return [to_json(item, depth + 1) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | fractions.Fraction):
        return to_json(float(value), depth + 1)
    return to_json(_from_libraries(value), depth + 1)


def _from_libraries(value: Any) -> Any:  # noqa: PLR0911
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if pandas is not None:
        if value is pandas.NaT or value is pandas.NA:
            return None
        if isinstance(value, pandas.DataFrame):
            plain = isinstance(value.index, pandas.RangeIndex)
            return (value if plain else value.reset_index()).to_dict(orient="records")
        if isinstance(value, pandas.Series):
            plain = isinstance(value.index, pandas.RangeIndex)
            return value.tolist() if plain else value.to_dict()
        if isinstance(value, pandas.Index):
            return value.tolist()
        if isinstance(value, pandas.Timedelta | pandas.Period | pandas.Interval):
            return str(value)
    if numpy is not None:
        if isinstance(value, numpy.datetime64 | numpy.timedelta64):
            return str(value)
        if isinstance(value, numpy.ndarray | numpy.generic):
            return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, datetime.date):
        return key.isoformat()
    return str(key)
