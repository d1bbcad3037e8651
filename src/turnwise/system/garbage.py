"""Keep the garbage collector from scanning long-lived objects again and again."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def frozen_garbage() -> Iterator[None]:
    """Exempt the objects that exist now from garbage collection until the block ends.

    Models and libraries are a million objects. Scanning them took 0.3 s and more every few steps, and no
    episode and no update made progress meanwhile.
    """
    was_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:  # already frozen by the caller: leave it
            gc.unfreeze()
