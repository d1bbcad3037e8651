"""A path that a user gives may be a FIFO: every command says so in one line instead of waiting for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = {
    "recipe.toml": ("train", "recipe.toml"),
    "mcp.json": ("tools", "mcp.json"),
    "tasks.jsonl": ("tasks", "check", "tasks.jsonl"),
    "values.json": ("explore", "sound.json", "--values", "values.json"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_fifo_is_one_line(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / "sound.json").write_text(json.dumps({"mcpServers": {"s": {"command": "true"}}}))
    command = [sys.executable, "-m", "turnwise", *COMMANDS[name]]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode in (1, 2), ran
    assert "not a file" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
