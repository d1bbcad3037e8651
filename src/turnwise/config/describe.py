"""Facts about every recipe key, read from the config classes: meaning, type, default and allowed values."""

import ast
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, BaseModel
from pydantic.fields import FieldInfo

from turnwise.config.recipe import Recipe
from turnwise.config.sampling import MAX_TEMPERATURE, MIN_TEMPERATURE, check_temperature


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """One recipe key."""

    name: str
    """Name with its sections, e.g. `engine.vllm.sleep`; a key of a list of blocks is `rewards.weight`."""
    meaning: str
    """The docstring of the field, on one line, in Markdown."""
    type: str
    """Type in TOML's words: text, integer, number, boolean, path, table, or a list of them."""
    default: str
    """Default as TOML, or `unset`, or `required`."""
    choices: tuple[str, ...] = ()
    """Allowed values as TOML; empty: no fixed set."""
    range: str = ""
    """Allowed numbers, e.g. `> 0, < 1`; empty: no bounds."""


@dataclass(frozen=True, slots=True)
class SectionFacts:
    """One section of a recipe; the top level has the name ``""``."""

    name: str
    meaning: str
    is_list: bool
    """Whether the section is a list of blocks, `[[rewards]]`."""
    keys: tuple[KeyFacts, ...]


def describe_keys() -> tuple[KeyFacts, ...]:
    """All keys of a recipe, in the order of the config classes."""
    return tuple(key for section in describe_sections() for key in section.keys)


@cache
def describe_sections() -> tuple[SectionFacts, ...]:
    """All sections of a recipe with their keys; a section comes before its subsections."""
    return tuple(_sections(Recipe, ""))


def _sections(model: type[BaseModel], name: str, *, is_list: bool = False) -> Iterator[SectionFacts]:
    prefix = f"{name}." if name else ""
    meanings = _attribute_docstrings(model)
    keys: list[KeyFacts] = []
    nested: list[tuple[type[BaseModel], str, bool]] = []
    for key, field in model.model_fields.items():
        annotation: Any = field.annotation
        block = _block(annotation)
        if _is_section(annotation):
            nested.append((annotation, f"{prefix}{key}", False))
        elif block is not None:
            nested.append((block, f"{prefix}{key}", True))
        else:
            keys.append(_facts(f"{prefix}{key}", field, meanings[key]))
    yield SectionFacts(name, inspect.cleandoc(model.__doc__ or ""), is_list, tuple(keys))
    for inner, inner_name, inner_is_list in nested:
        yield from _sections(inner, inner_name, is_list=inner_is_list)


def _facts(name: str, field: FieldInfo, meaning: str) -> KeyFacts:
    return KeyFacts(
        name=name,
        meaning=meaning,
        type=_type(field.annotation),
        default=_default(field),
        choices=tuple(dict.fromkeys(_as_toml(value) for value in _choices(field.annotation))),
        range=", ".join(_bounds([*_metadata(field.annotation), *field.metadata])),
    )


def _attribute_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """The string under every field, on one line; fields without one get an empty string."""
    body = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = dict.fromkeys(model.model_fields, "")
    for field, below in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if (
            isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            docs[field.target.id] = " ".join(below.value.value.split())
    return docs


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _block(annotation: Any) -> type[BaseModel] | None:
    """The model of `tuple[Model, ...]`."""
    inner: Any = get_args(annotation)
    return inner[0] if get_origin(annotation) is tuple and _is_section(inner[0]) else None


_NAMES: Mapping[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    Path: "path",
}


def _type(annotation: Any) -> str:
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(_type(part) for part in inner if part is not NoneType)
    if origin is Literal:
        return "text"
    if origin is tuple:
        parts = [_type(part) for part in inner if part is not Ellipsis]
        return f"list of {parts[0]}" if Ellipsis in inner else f"[{', '.join(parts)}]"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "table"
    assert inner, f"{annotation!r} has no name in TOML"
    return _type(inner[0])  # Annotated


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return _as_toml(field.get_default(call_default_factory=True))


def _as_toml(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_as_toml(part) for part in value)}]"
    if isinstance(value, float):
        return f"{value:g}" if value != int(value) else str(value)
    return json.dumps(value, ensure_ascii=False, default=str)  # the same notation for the remaining types


def _choices(annotation: Any) -> Sequence[Any]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _metadata(annotation: Any) -> list[Any]:
    """The metadata of Annotated types inside `annotation`."""
    inner = [item for part in get_args(annotation) for item in _metadata(part)]
    return [*getattr(annotation, "__metadata__", ()), *inner]


def _bounds(metadata: Sequence[Any]) -> Iterator[str]:
    for part in metadata:
        match part:
            case AfterValidator(func=func) if func is check_temperature:
                yield f"0 or {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}"
            case Ge(ge=bound):
                yield f"≥ {bound}"
            case Gt(gt=bound):
                yield f"> {bound}"
            case Le(le=bound):
                yield f"≤ {bound}"
            case Lt(lt=bound):
                yield f"< {bound}"
