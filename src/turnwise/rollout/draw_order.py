"""Which groups belong to a collection: by the order in which their tasks were drawn, never by who is first.

A collection has as many wanted groups as were asked for, and the groups drawn before the last of these.
Groups may be started ahead, before it is known that they are needed. Because membership depends on draw order
only, the result is the same as without starting ahead: fast groups are not preferred to slow ones.
"""

from turnwise.types import Group


class DrawOrder:
    """The groups of one collection in the order they were started."""

    def __init__(self, num_wanted: int) -> None:
        self._is_counted: list[bool] = []
        """For every started group: whether it is wanted or may still turn out to be."""
        self._finished: dict[int, Group | None] = {}
        """Groups that have ended and were not given out; None: lost."""
        self._num_playing = 0
        """Groups that belong to the collection and are still played."""
        self._end = num_wanted
        """The groups before this place belong to the collection."""

    @property
    def num_started(self) -> int:
        return len(self._is_counted)

    @property
    def num_missing(self) -> int:
        """Groups that belong to the collection and have not been started."""
        return max(self._end - self.num_started, 0)

    @property
    def num_unneeded(self) -> int:
        """Groups that were started ahead and do not belong to the collection."""
        return max(self.num_started - self._end, 0)

    @property
    def is_playing(self) -> bool:
        """Whether a group of the collection is still played."""
        return self._num_playing > 0

    def start(self) -> int:
        """The place of the next group."""
        place = self.num_started
        self._is_counted.append(True)
        self._num_playing += place < self._end
        return place

    def finish(self, place: int, group: Group | None, *, is_wanted: bool) -> list[Group]:
        """Note how a group ended, None if it was lost; returns the finished groups that now belong."""
        self._finished[place] = group
        self._is_counted[place] = is_wanted
        self._num_playing -= place < self._end
        if place < self._end and not is_wanted:
            self._move_end()
        belonging = sorted(each for each in self._finished if each < self._end)
        return [group for each in belonging if (group := self._finished.pop(each)) is not None]

    def _move_end(self) -> None:
        """Replace a group that is not wanted by the next one that is, or may still turn out to be."""
        while True:
            place = self._end
            self._end += 1
            if place >= self.num_started or self._is_counted[place]:
                self._num_playing += place < self.num_started and place not in self._finished
                return
