"""Start a module of these tests in two processes, as `turnwise train --processes 2` starts itself."""

import subprocess
from pathlib import Path

from tests import warm

ROOT = Path(__file__).parents[3]

_PROGRAM = """
import sys
from turnwise.system.ranks.launch import launch
command = [sys.executable, "-W", "error", "-m", *sys.argv[1:]]
sys.exit(launch(command, 2, grace_seconds=2.0))
"""


def by_two(module: str, *arguments: str, python: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [python or warm.heavy(), "-c", _PROGRAM, module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
