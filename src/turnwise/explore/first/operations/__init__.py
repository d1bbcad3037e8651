"""Operations over an answer: every one yields queries about a document that have one short answer."""

import random
from collections.abc import Callable, Iterator, Mapping

from turnwise.explore.first.document import Document
from turnwise.explore.first.operations.above import above
from turnwise.explore.first.operations.count import count
from turnwise.explore.first.operations.extreme import extreme
from turnwise.explore.first.operations.field import field
from turnwise.explore.first.operations.grouped import grouped
from turnwise.explore.first.operations.lines import lines
from turnwise.explore.first.operations.mean import mean
from turnwise.explore.first.operations.ordered import ordered
from turnwise.explore.first.operations.row_where import row_where
from turnwise.explore.first.operations.total import total
from turnwise.explore.first.query import Query

Operation = Callable[[Document, random.Random], Iterator[Query]]

OPERATIONS: Mapping[str, Operation] = {
    "field": field,
    "row_where": row_where,
    "extreme": extreme,
    "count": count,
    "above": above,
    "grouped": grouped,
    "total": total,
    "mean": mean,
    "ordered": ordered,
    "lines": lines,
}
