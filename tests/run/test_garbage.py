"""What a run holds from its start on is left alone by the garbage collector, and only while it runs."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from turnwise.system.garbage import frozen_garbage


class Thing:
    """An object whose end can be observed."""


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.freeze()  # as conftest.py left it: every collection in later tests would scan what is imported


def test_what_exists_is_frozen_and_what_is_made_later_is_collected() -> None:
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
