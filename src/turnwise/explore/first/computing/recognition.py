"""Recognise tools that compute from their inputs alone, by their parameters."""

from turnwise.explore.first.computing.calculations import formula_parameter
from turnwise.explore.first.computing.conversions import looks_like_converter
from turnwise.explore.first.computing.time_zones import time_converter_of
from turnwise.types import Tool


def computes(tool: Tool) -> bool:
    """Return whether a tool converts quantities or times, or takes a formula."""
    is_converter = looks_like_converter(tool) or time_converter_of(tool) is not None
    return is_converter or formula_parameter(tool) is not None
