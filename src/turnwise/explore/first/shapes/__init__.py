"""The shapes of programs: how calls and operations are put together. A new shape is one file and one line."""

from collections.abc import Callable, Iterator, Mapping

from turnwise.explore.first.draft import Draft
from turnwise.explore.first.material import Material
from turnwise.explore.first.shapes.chain import chain
from turnwise.explore.first.shapes.change import change
from turnwise.explore.first.shapes.compare import compare
from turnwise.explore.first.shapes.look_up import look_up
from turnwise.explore.first.shapes.several import several
from turnwise.explore.first.shapes.transfer import transfer

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
