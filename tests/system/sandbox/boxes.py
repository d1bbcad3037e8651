"""Sandboxes of both kinds for the tests."""

import contextlib
import functools
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.system.sandbox.attack import BOTH
from turnwise.system.sandbox import Kind, Sandbox, SandboxIsolation, SandboxLimits
from turnwise.system.sandbox.isolation import trial

both_kinds = pytest.mark.parametrize("kind", BOTH, ids=str)


@functools.cache
def failure_of(kind: Kind) -> str:
    return trial(kind)


def require(kind: Kind) -> None:
    """Skip if this machine cannot isolate that way; in CI that is a failure."""
    if failure := failure_of(kind):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{kind}: {failure}")


@contextlib.asynccontextmanager
async def sandboxed(
    kind: Kind = Kind.BUBBLEWRAP, *, num_workers: int = 1, packages: tuple[str, ...] = (), **limits: Any
) -> AsyncIterator[Sandbox]:
    require(kind)
    walls = SandboxIsolation(kind, "")
    async with Sandbox(
        SandboxLimits(**limits), num_workers=num_workers, walls=walls, packages=packages
    ) as sandbox:
        yield sandbox
