"""Import a name of the Python interface when it is used; say what to install if a package is missing."""

from importlib import import_module
from typing import Any

from turnwise.config.optional_packages import missing_package


def load_name(module: str, name: str) -> Any:
    """Return `name` of a module of ours."""
    try:
        return getattr(import_module(f"turnwise.{module}"), name)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        raise ModuleNotFoundError(f"turnwise.{name}: {missing}", name=error.name) from None
