"""Make the paths of a recipe absolute before validation, so that a run can be resumed from any directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from turnwise.config.generated_worlds import is_generated
from turnwise.config.recipe import Recipe

_MODEL_KEYS = (("model", "path"), ("user", "model"))
"""Keys whose value is a folder or the name of a model."""
_MODEL_NAMES = ("embedded", "smollm2")
"""Values of these keys that are never folders."""


def absolute_paths(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The data of a recipe with relative paths resolved against `folder` and `~` expanded."""
    return {key: absolute_value(value, (key,), folder) for key, value in data.items()}


def absolute_value(value: Any, key: Sequence[str], folder: Path) -> Any:
    """The value of one key, which may be a whole section; values that are not paths are unchanged."""
    if tuple(key) == ("user",) and isinstance(value, dict) and value.get("url"):
        return value  # its model is a name at the endpoint
    if isinstance(value, dict):
        return {name: absolute_value(inner, (*key, name), folder) for name, inner in value.items()}
    if not isinstance(value, str):
        return value
    if tuple(key) in _MODEL_KEYS:
        return _model_path(value, ".".join(key), folder)
    return str(_absolute(value, folder)) if _is_path(key) else value


def _model_path(value: str, key: str, folder: Path) -> str:
    """An existing folder becomes absolute; anything else is a model name and stays unchanged."""
    try:
        is_folder = value not in ("", *_MODEL_NAMES) and _absolute(value, folder).is_dir()
    except OSError as error:
        raise ValueError(f"{key}: {value[:100]!r}: {error.strerror}") from None
    return str(_absolute(value, folder)) if is_folder else value


def _absolute(value: str, folder: Path) -> Path:
    if is_generated(value):
        return Path(value)
    try:
        return folder / Path(value).expanduser()
    except RuntimeError:
        raise ValueError(f"{value}: no such user") from None


def _is_path(key: Sequence[str]) -> bool:
    annotation: Any = Recipe
    for name in key:
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return False
        if name not in annotation.model_fields:
            return False
        annotation = annotation.model_fields[name].annotation
    return annotation is Path or Path in get_args(annotation)
