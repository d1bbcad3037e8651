"""Recognise tools that compute from their inputs alone, by their parameters."""

from turnwise.explore.computing.calculations import formula_parameter
from turnwise.explore.computing.conversions import looks_like_converter
from turnwise.types import Tool


def computes(tool: Tool) -> bool:
    """Return whether a tool converts quantities or takes a formula."""
    return looks_like_converter(tool) or formula_parameter(tool) is not None
