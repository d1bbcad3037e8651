"""Operations over an answer: every one yields queries about a document that have one short answer."""

import random
from collections.abc import Callable, Iterator, Mapping

from turnwise.explore.document import Document
from turnwise.explore.operations.above import above
from turnwise.explore.operations.count import count
from turnwise.explore.operations.extreme import extreme
from turnwise.explore.operations.field import field
from turnwise.explore.operations.grouped import grouped
from turnwise.explore.operations.lines import lines
from turnwise.explore.operations.mean import mean
from turnwise.explore.operations.ordered import ordered
from turnwise.explore.operations.row_where import row_where
from turnwise.explore.operations.total import total
from turnwise.explore.query import Query

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
