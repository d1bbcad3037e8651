"""What a run holds from its start on is left alone by the garbage collector, and only while it runs."""

import gc
import weakref

import pytest

from turnwise.runtime.garbage import frozen_garbage


class Thing:
    """Something that can be waited for to go."""


@pytest.fixture(autouse=True)
def nothing_frozen() -> None:
    """By tests before."""
    gc.unfreeze()


def test_what_was_there_is_left_alone_and_what_comes_is_not() -> None:
    with frozen_garbage():
        assert gc.get_freeze_count() > 10_000
        fresh = Thing()
        fresh.itself = fresh  # type: ignore[attr-defined]  # only the collector ends this
        gone = weakref.ref(fresh)
        del fresh
        gc.collect()
        assert gone() is None
    assert gc.get_freeze_count() == 0


def test_a_run_that_fails_leaves_nothing_frozen() -> None:
    with pytest.raises(RuntimeError), frozen_garbage():
        raise RuntimeError
    assert gc.get_freeze_count() == 0


def test_what_others_froze_stays_frozen() -> None:
    gc.freeze()
    with frozen_garbage():
        pass
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
