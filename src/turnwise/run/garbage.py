"""Takes what a process holds by now, keeps the garbage collector from going over it again and again."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """What is there when the block begins is taken to stay until it ends.

    Models and libraries are a million objects: to go over them took 0.3 s and more, every few steps, and no
    episode and no update went on meanwhile.
    """
    is_others = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not is_others:  # who froze before wants it to stay so
            gc.unfreeze()
