"""What vLLM's processes do for us; that they do it inside vLLM is tested in test_vllm.py."""

import subprocess
import sys

import pytest

WORKER = """
import sys, time
from turnwise.engines.vllm.receiver import Receiver
Receiver().end_with(int(sys.argv[1]))
print("watching", flush=True)
time.sleep(600)
"""
ENGINE = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[2:], sys.argv[1]])"
OWNER = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], str(os.getpid()), *sys.argv[2:]])
"""


@pytest.mark.parametrize(
    "below", [[ENGINE, WORKER], [WORKER]]
)  # a separate worker, or in the engine's process
def test_engine_and_worker_end_with_an_owner_that_was_killed(below: list[str]) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *below], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "watching\n"
    owner.kill()
    # All of them have its stdout: it ends with the last one.
    assert owner.communicate(timeout=60) == ("", None)
