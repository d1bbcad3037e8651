"""Groups that are started ahead change when a collection ends, never what is in it."""

from hypothesis import given
from hypothesis import strategies as st

from tests.rollout.stage import task
from turnwise.rollout.draw_order import DrawOrder
from turnwise.types import Group


def group(place: int) -> Group:
    return Group(task(str(place)), (), ())


def expected(fates: list[str], num_wanted: int) -> list[int]:
    """The places of a collection that starts a group only when it is needed: those up to the last wanted."""
    places: list[int] = []
    for place in range(len(fates)):
        if sum(fates[each] == "wanted" for each in places) == num_wanted:
            break
        places.append(place)
    return places


@given(
    fates=st.lists(st.sampled_from(["wanted", "flat", "lost"]), max_size=14),
    num_wanted=st.integers(1, 5),
    num_ahead=st.integers(0, 8),
    source=st.randoms(use_true_random=False),
)
def test_the_groups_do_not_depend_on_the_order_they_finish_in_or_on_how_many_are_started_ahead(
    fates: list[str], num_wanted: int, num_ahead: int, source: object
) -> None:
    order = DrawOrder(num_wanted)
    tasks = iter(fates)
    in_flight: dict[int, str] = {}
    given_out: list[int] = []

    def start(count: int) -> None:
        for _, fate in zip(range(count), tasks, strict=False):
            in_flight[order.start()] = fate

    start(num_wanted + num_ahead)
    while order.is_playing:
        place = source.choice(sorted(in_flight))  # type: ignore[attr-defined]
        fate = in_flight.pop(place)
        ended = order.finish(place, None if fate == "lost" else group(place), is_wanted=fate == "wanted")
        given_out += [int(each.task.id) for each in ended]
        start(order.num_missing)
    wanted = expected(fates, num_wanted)
    assert sorted(given_out) == [place for place in wanted if fates[place] != "lost"]
    assert order.num_unneeded == order.num_started - len(wanted)
    assert not [place for place in in_flight if place in wanted]
