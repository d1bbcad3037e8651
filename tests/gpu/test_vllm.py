"""The scenarios of vLLM on a GPU, in this environment; for a CPU see tests/engines/test_vllm.py."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.gpu.device import DEVICE

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
    pytest.mark.skipif(DEVICE != "cuda", reason="tests/engines/test_vllm.py is for CPUs"),
]


@pytest.mark.parametrize("kind", ["whole", "adapters"])
def test_the_engine_passes_its_scenarios(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.vllm_scenarios", "--bfloat16", kind],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr[-3000:]
    assert {line["scenario"]: line["error"] for line in lines if line["error"]} == {}
