"""Gives the tests a scripted provider on loopback, and keeps proxies of this machine out of the way."""

from collections.abc import Iterator

import pytest

from tests.servers.provider import LoopbackProvider


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackProvider]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LoopbackProvider() as running:
        yield running
