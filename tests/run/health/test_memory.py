"""Memory metrics, measured in a fresh process: this one still holds memory that other tests freed."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json
from turnwise.run.health.machine import measure
before = measure()
block = bytearray(200 * 2**20)
block[::4096] = b"x" * len(block[::4096])  # touched, so that it is really held
print(json.dumps([before, measure()]))
"""


def test_the_peak_is_at_least_the_current_memory_and_grows_with_use() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    before, after = json.loads(done.stdout)
    assert after["memory/peak_gib"] >= before["memory/peak_gib"] > 0.001
    if sys.platform == "linux":
        assert after["memory/resident_gib"] - before["memory/resident_gib"] == pytest.approx(
            200 / 1024, abs=0.05
        )
        assert after["memory/peak_gib"] >= after["memory/resident_gib"] - 0.01
