"""Memory as metrics."""

import sys

import pytest

from turnwise.diagnostics.memory import measure


def test_the_peak_is_at_least_what_is_held_now_and_grows_with_use() -> None:
    before = measure()
    block = bytearray(200 * 2**20)
    block[::4096] = b"x" * len(block[::4096])  # touched, so that it is really held
    after = measure()
    assert after["memory/peak_gib"] >= before["memory/peak_gib"] > 0.001
    if sys.platform == "linux":
        assert after["memory/resident_gib"] - before["memory/resident_gib"] == pytest.approx(
            200 / 1024, abs=0.05
        )
        assert after["memory/peak_gib"] >= after["memory/resident_gib"] - 0.01
    assert block[0] == ord("x")
