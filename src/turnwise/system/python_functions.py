"""Functions that a recipe names: `module:function`, or `python:NAME` for one that was given as an object.

A function of a notebook or a script, and any lambda, cannot be imported by another process. It gets a name
that only the process that has the object can resolve.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

Given = Mapping[str, Callable[..., Any]]
"""Functions that the caller gave as objects, by the name that the recipe has for them."""

NOTHING_GIVEN: Given = MappingProxyType({})

_GIVEN_MODULE = "python"


def is_given(name: str) -> bool:
    """Return whether the name stands for an object that only its own process has."""
    return name.partition(":")[0] == _GIVEN_MODULE


def function_name(function: Callable[..., Any], taken: Given = NOTHING_GIVEN) -> str:
    """Return `module:function` if an import finds this object, else a `python:NAME` that is not `taken`."""
    module, path = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if module != "__main__" and path and _at(module, path) is function:
        return f"{module}:{path}"
    plain = str(getattr(function, "__name__", type(function).__name__)).replace("<lambda>", "lambda")
    name, number = f"{_GIVEN_MODULE}:{plain}", 1
    while taken.get(name, function) is not function:
        number += 1
        name = f"{_GIVEN_MODULE}:{plain}_{number}"
    return name


def find_function(name: str, what: str, given: Given = NOTHING_GIVEN) -> Callable[..., Any]:
    """Return the function of that name; ValueError if it cannot be found or called. `what`: for messages."""
    if name in given:
        return given[name]
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise ValueError(f"{what} {name!r}: write it as module:function")
    if is_given(name):
        raise ValueError(
            f"{what} {name!r} was given in Python, and only that program has it: "
            "resume there with turnwise.train(resume=RUN) and the same functions"
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{what} {name!r}: {module_name} cannot be imported: {reason}") from error
    try:
        function = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise ValueError(f"{what} {name!r}: {error}") from error
    if not callable(function):
        raise ValueError(f"{what} {name!r} is a {type(function).__name__}, not a function")
    return function


def _at(module: str, path: str) -> Any:
    """Return the object at this path of an imported module; None if there is none."""
    try:
        return reduce(getattr, path.split("."), sys.modules.get(module))
    except AttributeError:
        return None
