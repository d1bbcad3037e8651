"""The wheel, built from this tree and installed into empty environments."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with turnwise installed in it, and an empty folder to work in."""

    environment: Path
    folder: Path

    def run(self, *args: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """The installed command, without anything of this checkout on its path."""
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "COLUMNS": "300"}
        return subprocess.run(
            [self.environment / "bin" / "turnwise", *args],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def build(folder: Path) -> Path:
    """The wheel of this tree, built from its source distribution as an index's users would."""
    builder = new_environment(sys.executable, folder / "builder")
    pip_install(builder, "build")
    subprocess.run(
        [builder / "bin" / "python", "-m", "build", "--outdir", folder / "dist", ROOT],
        check=True,
        capture_output=True,
        timeout=600,
    )
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path, *, python: str = sys.executable, extra: str = "") -> Installed:
    environment = new_environment(python, folder / "environment")
    pip_install(environment, f"{wheel}[{extra}]" if extra else str(wheel))
    (folder / "empty").mkdir()
    return Installed(environment, folder / "empty")


def new_environment(python: str, place: Path) -> Path:
    subprocess.run([python, "-m", "venv", place], check=True, timeout=300)
    return place


def pip_install(environment: Path, *packages: str) -> None:
    """Install; the test is skipped if the package index cannot be reached."""
    done = subprocess.run(
        [environment / "bin" / "pip", "install", "-q", "--retries", "1", "--timeout", "30", *packages],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip(f"the package index cannot be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


UNREACHABLE = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "Max retries exceeded")
"""What pip prints if there is no network."""
