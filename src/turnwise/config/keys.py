"""Every key of a recipe with its meaning, type, default and allowed values, read from the config classes."""

import ast
import difflib
import functools
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from turnwise.config.recipe import Recipe

_NAMES: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    bool: "true or false",
    str: "string",
    Path: "path",
    Any: "any value",
    type(None): "none",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a recipe."""

    name: str
    """With its section: `rollout.group_size`; for a key of a `[[rewards]]` block, `rewards.name`."""
    meaning: str
    type: str
    default: str
    """As written in TOML; `none` if it may be left out without a value, `required` if it must be set."""
    allowed: str
    """The range or the values; empty if the type says it all."""


@functools.cache
def all_keys() -> tuple[Key, ...]:
    return tuple(_keys_of(Recipe, ""))


def keys_below(name: str) -> list[Key]:
    """The key of this name, or all keys of the section; empty if there is neither."""
    return [key for key in all_keys() if key.name == name or key.name.startswith(f"{name}.")]


def nearest_keys(name: str) -> list[str]:
    """Keys that an unknown name may mean: the same key in other sections, else a similar name."""
    last_parts = {key.name: key.name.rpartition(".")[2] for key in all_keys()}
    last = name.rpartition(".")[2]
    if last not in last_parts.values():
        similar = difflib.get_close_matches(name, last_parts, n=1, cutoff=0.8)
        if "." in name and similar:
            return similar
        last = next(iter(difflib.get_close_matches(last, last_parts.values(), n=1, cutoff=0.7)), "")
    return [known for known, part in last_parts.items() if part == last]


def _keys_of(section: type[BaseModel], prefix: str) -> Iterator[Key]:
    meanings = _docstrings(section)
    for name, field in section.model_fields.items():
        inner = _section_in(field.annotation)
        if inner is not None:
            yield from _keys_of(inner, f"{prefix}{name}.")
            continue
        values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        yield Key(
            name=f"{prefix}{name}",
            meaning=meanings.get(name, ""),
            type="string" if values else _type_name(field.annotation),
            default=_default(field),
            allowed=", ".join(_toml(value) for value in values) or _range(field),
        )


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The class of a section, or of the blocks in a list such as `[[rewards]]`; None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is Annotated or get_origin(annotation) is tuple:
        return _section_in(get_args(annotation)[0])
    return None


def _docstrings(section: type[BaseModel]) -> dict[str, str]:
    """The string under every field, as one line."""
    [tree] = ast.parse(inspect.getsource(section)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, under in zip(tree.body, tree.body[1:], strict=False):
        match field, under:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def _type_name(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(part) for part in inner)
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin is tuple:
        of = dict.fromkeys(_type_name(part) for part in inner if part is not Ellipsis)
        count = "list" if Ellipsis in inner else f"list of {len(inner)}"
        return f"{count}: {', '.join(of)}"
    if origin is not None:
        return "table"
    return _NAMES[annotation]


def _range(field: FieldInfo) -> str:
    """`at least 1, below 2`, from the field's bounds."""
    words = []
    for bound in field.metadata:
        match bound:
            case annotated_types.Ge(ge=limit):
                words.append(f"at least {limit}")
            case annotated_types.Gt(gt=limit):
                words.append(f"above {limit}")
            case annotated_types.Le(le=limit):
                words.append(f"at most {limit}")
            case annotated_types.Lt(lt=limit):
                words.append(f"below {limit}")
    return ", ".join(words)


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "{}"
    return "required" if field.default is PydanticUndefined else _toml(field.default)


def _toml(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case str() | Path():
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case _:
            return f"{value:g}" if isinstance(value, float) and value < sys.maxsize else str(value)
