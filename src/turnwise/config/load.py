"""Load a recipe (TOML) with changed keys; the error for an unknown key names the closest known one."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from turnwise.config.episodes import RewardConfig
from turnwise.config.included_recipes import included_recipes, recipe_file
from turnwise.config.keys import nearest_keys
from turnwise.config.paths import absolute_paths, absolute_value
from turnwise.config.presets import PRESETS
from turnwise.config.recipe import Recipe
from turnwise.config.trackers import TrackerConfig

_BLOCKS: Mapping[str, type[BaseModel]] = {"rewards": RewardConfig, "trackers": TrackerConfig}
"""Sections that are a list of blocks, `[[rewards]]`."""

_EXPECTED: Mapping[str, str] = {
    "tuple_type": "expected a list in brackets",
    "dict_type": "expected a table in braces",
    "model_type": "is a section, expected its keys",
}
"""Pydantic's errors about a value's shape, in the words of TOML."""


NO_CHANGES: Mapping[str, Any] = MappingProxyType({})


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return `--set` words such as `run.num_steps=4` as values by key; of equal keys the last holds."""
    changes: dict[str, Any] = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        key = name.strip()
        if not separator or not name:
            raise ValueError(f"--set {setting}: expected KEY=VALUE, e.g. rollout.group_size=4")
        changes.pop(key, None)  # its place is that of its last value
        try:
            changes[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            changes[key] = text  # a bare word is a string: --set engine.kind=scripted
        except RecursionError:
            raise ValueError(f"--set {name}: its value is nested too deeply") from None
    return changes


def read_recipe(source: Path | Recipe | None, changes: Mapping[str, Any] = NO_CHANGES) -> Recipe:
    """Read a recipe with its preset and changed keys; None is the defaults, `cpu` the included recipe.

    Relative paths in a file are relative to its folder; other ones to the current directory.
    """
    if isinstance(source, Recipe):
        return _resolved(_data_of(source), changes, "recipe")
    data: dict[str, Any] = {}
    if source is not None:
        source = recipe_file(source)
        try:
            data = absolute_paths(_read(source), source.resolve().parent)
        except RecursionError:
            raise ValueError(f"{source}: its values are nested too deeply") from None
    return _resolved(data, changes, str(source or "recipe"))


def _data_of(recipe: Recipe) -> dict[str, Any]:
    """The keys that a recipe built in Python sets."""
    data = absolute_paths(recipe.model_dump(mode="json", exclude_unset=True), Path.cwd())
    if data.get("run", {}).get("num_epochs") is not None:
        data["run"].pop("num_steps", None)  # a stored recipe has both: the steps follow from the epochs
    return data


def _resolved(data: dict[str, Any], changes: Mapping[str, Any], where: str) -> Recipe:
    _check_one_length(data)
    _change(data, changes)
    _refuse_bools_for_numbers(Recipe, data)
    _check_one_length(data)
    try:
        return Recipe.model_validate(_with_preset(data))
    except ValidationError as error:
        raise ValueError(f"{where}: {_readable(error)}") from None


def _refuse_bools_for_numbers(section: type[BaseModel], data: Mapping[str, Any], where: str = "") -> None:
    """ValueError for `group_size = true`, which pydantic would read as 1."""
    for key, value in data.items():
        field = section.model_fields.get(key)
        if field is None:
            continue  # an unknown key is pydantic's to refuse
        annotation, name = field.annotation, f"{where}{key}"
        if isinstance(value, Mapping) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
            _refuse_bools_for_numbers(annotation, value, f"{name}.")
        elif isinstance(value, list) and key in _BLOCKS:
            for number, block in enumerate(value):
                if isinstance(block, Mapping):
                    _refuse_bools_for_numbers(_BLOCKS[key], block, f"{name}.{number}.")
        elif isinstance(value, bool) and _is_number(annotation):
            raise ValueError(f"{name}: expected a number, got {str(value).lower()}")


def _is_number(annotation: Any) -> bool:
    """Whether a field may be a number and not a boolean."""
    types = _types_in(annotation)
    return bool({int, float} & types) and bool not in types


def _types_in(annotation: Any) -> set[Any]:
    """The types that a field may have, also those inside `int | None` and Annotated."""
    return {annotation, *(part for inner in get_args(annotation) for part in _types_in(inner))}


def _read(path: Path) -> dict[str, Any]:
    if path.is_dir():
        is_run = (path / "recipe.json").exists()
        hint = f"; --resume {path} continues this run" if is_run else ", not a recipe"
        raise ValueError(f"{path}: is a folder{hint}")
    if path.exists() and not path.is_file():  # opening a FIFO would block
        raise ValueError(f"{path}: is not a file")
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        included = "" if path.suffix else f"; the included recipes are {', '.join(included_recipes())}"
        raise ValueError(f"{path}: no such file{included}") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML: {error}") from None


def override_recipe(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with these keys changed; its preset is not applied again."""
    data = recipe.model_dump(mode="json")
    _change(data, changes)
    if "run.num_steps" in changes:
        _check_one_length(data)
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise ValueError(_readable(error)) from None


def stored_recipe(data: Mapping[str, Any], where: str) -> Recipe:
    """The recipe that a run's folder keeps, resolved when the run was begun."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise ValueError(f"{where}: {_readable(error)}") from None


def _change(data: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Set the keys in the data of a recipe; a number of steps replaces one of epochs, and the reverse."""
    run = data.get("run")
    for changed, other in (("num_steps", "num_epochs"), ("num_epochs", "num_steps")):
        if isinstance(run, dict) and f"run.{changed}" in changes:
            run.pop(other, None)
    for name, value in changes.items():
        *sections, key = name.split(".")
        _section_at(data, sections, name)[key] = absolute_value(value, (*sections, key), Path.cwd())


def _section_at(data: dict[str, Any], sections: Sequence[str], name: str) -> dict[str, Any]:
    for section in sections:
        data = data.setdefault(section, {})
        if not isinstance(data, dict):
            raise ValueError(f"--set {name}: {section} is not a section")
    return data


def _check_one_length(data: Mapping[str, Any]) -> None:
    run = data.get("run")
    if isinstance(run, dict) and "num_steps" in run and run.get("num_epochs") is not None:
        raise ValueError(
            f"run.num_steps is {run['num_steps']!r} and run.num_epochs is {run['num_epochs']!r}: "
            "give one of the two"
        )


def _with_preset(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The recipe merged over its preset; pydantic rejects an unknown preset later."""
    algorithm = data.get("algorithm")
    name = algorithm.get("preset", "") if isinstance(algorithm, dict) else ""
    return _merged(PRESETS.get(name, {}) if isinstance(name, str) else {}, data)


def _merged(defaults: Mapping[str, Any], overriding: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **overriding}
    for key in defaults.keys() & overriding.keys():
        if isinstance(defaults[key], Mapping) and isinstance(overriding[key], Mapping):
            merged[key] = _merged(defaults[key], overriding[key])
    return merged


def _readable(error: ValidationError) -> str:
    return "; ".join(_issue(issue) for issue in error.errors(include_url=False))


def _issue(issue: Any) -> str:
    where = ".".join(str(part) for part in issue["loc"])
    if issue["type"] == "value_error":  # raised by our validators, which name keys and values
        return f"{where}: {issue['ctx']['error']}" if where else str(issue["ctx"]["error"])
    if expected := _EXPECTED.get(issue["type"]):
        return f"{where}: {expected}, got {issue['input']!r}"
    if issue["type"] != "extra_forbidden":
        return f"{where}: {issue['msg']}, got {issue['input']!r}"
    known, last = _keys(Recipe, issue["loc"][:-1]), str(issue["loc"][-1])
    near = difflib.get_close_matches(last, known, n=1, cutoff=0.5)
    if namesakes := [key for key in nearest_keys(last) if key.endswith(f".{last}")]:
        near = namesakes  # the key exists in another section
    return f"{where}: no such key" + (
        f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; known: {', '.join(known)}"
    )


def _keys(section: type[BaseModel], path: Sequence[Any]) -> list[str]:
    if path and path[0] in _BLOCKS:  # loc is (block, number, key)
        return list(_BLOCKS[path[0]].model_fields)
    for part in path:
        section = _section(section, part)
    return list(section.model_fields)


def _section(parent: type[BaseModel], name: str) -> Any:
    return parent.model_fields[name].annotation
