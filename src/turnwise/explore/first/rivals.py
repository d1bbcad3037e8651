"""Facts that two tools state: a question for one must name the tool that it means."""

import itertools
from collections.abc import Sequence

from turnwise.explore.first.observation import Observation
from turnwise.explore.first.query import Query

_MIN_TELLING_CHARS = 3
"""A shorter answer is in many texts by chance."""
_MAX_RIVALS = 8
_MAX_CHARS = 20_000


class Rivals:
    """Finds the calls of other tools of a server that know about the same thing."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations
        self._found: dict[int, list[Observation]] = {}

    def state(self, observation: Observation, query: Query) -> bool:
        """Return whether a call of another tool states the query's answer too."""
        text = str(query.value)
        if len(text) < _MIN_TELLING_CHARS:
            return False
        return any(text in other.document.text[:_MAX_CHARS] for other in self._of(observation))

    def _of(self, observation: Observation) -> list[Observation]:
        if observation.number not in self._found:
            named = [str(value) for value in _leaves(observation)]
            rivals = (
                other
                for other in self._observations
                if other.tool.name != observation.tool.name
                and other.tool.server == observation.tool.server
                and _knows(other, named)
            )
            self._found[observation.number] = list(itertools.islice(rivals, _MAX_RIVALS))
        return self._found[observation.number]


def _knows(other: Observation, named: Sequence[str]) -> bool:
    """Return whether a call is about the same things: its arguments or its answer name them."""
    given = {str(value) for value in _leaves(other)}
    return all(name in given or name in other.document.text[:_MAX_CHARS] for name in named)


def _leaves(observation: Observation) -> list[object]:
    return [
        leaf
        for value in observation.plain_arguments.values()
        for leaf in (value if isinstance(value, list) else [value])
        if not isinstance(leaf, bool)
    ]
