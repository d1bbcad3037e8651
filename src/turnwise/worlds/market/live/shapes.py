"""Read records and fields from a provider's JSON; another shape than documented is `Unavailable`."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.mcp.serve import Unavailable

Record = Mapping[str, Any]


def record(payload: Any, *, source: str) -> Record:
    """Return the payload; it must be an object."""
    if not isinstance(payload, dict):
        raise Unavailable(f"{source} answered in another shape than documented (no object)")
    return payload


def records(payload: Any, *, source: str) -> list[Record]:
    """Return the payload; it must be a list of objects."""
    if not isinstance(payload, list) or not all(isinstance(item, dict) for item in payload):
        raise Unavailable(f"{source} answered in another shape than documented (no list of objects)")
    return payload


def pick(item: Record, keys: Sequence[str], *, source: str, required: Sequence[str] = ()) -> dict[str, Any]:
    """Return the named fields in the given order; an absent field is None unless it is required."""
    missing = [key for key in required if item.get(key) is None]
    if missing:
        raise Unavailable(f"{source} answered without {', '.join(missing)}")
    return {key: scalar(item.get(key), source=source) for key in keys}


def scalar(value: Any, *, source: str) -> str | int | float | bool | None:
    """Return a single value; text is made encodable, since JSON escapes can hold lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise Unavailable(f"{source} answered with a nested value where a single one is documented")


def as_integer(value: Any) -> Any:
    """Return 131704427.0 as 131704427 and "164000" as 164000; return anything else unchanged."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15:
        return int(value)
    return value
