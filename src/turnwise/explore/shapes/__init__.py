"""The shapes of programs: how calls and operations are put together. A new shape is one file and one line."""

from collections.abc import Callable, Iterator, Mapping

from turnwise.explore.draft import Draft
from turnwise.explore.material import Material
from turnwise.explore.shapes.chain import chain
from turnwise.explore.shapes.change import change
from turnwise.explore.shapes.compare import compare
from turnwise.explore.shapes.look_up import look_up
from turnwise.explore.shapes.several import several
from turnwise.explore.shapes.transfer import transfer

Shape = Callable[[Material], Iterator[Draft]]
"""Yields drafts that the material supports, in an order that does not depend on chance."""

SHAPES: Mapping[str, Shape] = {
    "look_up": look_up,
    "compare": compare,
    "several": several,
    "chain": chain,
    "change": change,
    "transfer": transfer,
}
