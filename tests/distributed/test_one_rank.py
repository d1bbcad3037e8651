"""Sharding over one process, as on a single GPU, does not change what is learned."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fsdp2", "zero3"])
def test_one_process_learns_the_same_sharded_and_unsharded(strategy: str) -> None:
    if strategy == "zero3" and find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is missing: run `make ready`")
    command = [sys.executable, "-m", "tests.distributed.one_rank", strategy, "cpu"]
    updates = ["full", "carried", "frozen reference", "bfloat16"]
    done = subprocess.run(
        [*command, *updates], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [line.get("update") for line in lines] == [*updates, None]
    for line in lines[:-1]:
        assert line["norms"][0] > 0.1, "the update changes nothing"
        tolerance = 2e-2 if line["dtype"] == "bfloat16" else 5e-6
        assert max(line["gradients"], line["weights"]) <= tolerance
