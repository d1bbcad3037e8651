"""A scripted provider on loopback; proxies of this machine are kept out of the way."""

import socket
from collections.abc import Iterator

import pytest

from tests.worlds.market.provider import LoopbackProvider


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackProvider]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LoopbackProvider() as running:
        yield running


@pytest.fixture
def refusing_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address that refuses connections: its port is bound but nothing listens."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
