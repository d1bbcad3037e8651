"""Set before torch is imported: no hub, one thread, and threads that wait give their core to the servers.

Files with few tests that take long come first: left to the end, they would run while other workers have none.
"""

import functools
import gc
import os
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tiny models are faster with one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Threads that spin at every barrier make the same work take up to ten times as long on a shared machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# The runs of tests are not the user's own.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="turnwise-state-")

LONG = (
    "engines/test_vllm.py",
    "run/checks/test_live_keys.py",
    "api/test_pages.py",
    "test_recipes.py",
    "system/ranks/test_updates.py",
    "test_smollm2.py",
    "system/ranks/test_runs.py",
    "test_examples.py",
    "explore/test_promises.py",
    "explore/test_exploring.py",
    "growth/test_growth.py",
    "setup/memory/test_memory.py",
    "cli/test_starter.py",
    "setup/memory/test_figures.py",
    "run/test_conversations.py",
    "training/test_prefix.py",
    "run/checks/test_doctor.py",
    "training/test_policy.py",
    "run/test_train.py",
    "setup/test_export.py",
    "cli/test_conversations.py",
    "training/test_attention.py",
    "training/test_trainer.py",
    "run/test_screens.py",
    "dashboard/test_journeys.py",
    "conformance/test_conformance.py",
    "engines/test_remote_faults.py",
)
"""By what they take, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONG)}
    if missing := [str(path) for path in places if not path.is_file()]:
        raise pytest.UsageError(f"LONG names files that do not exist: {', '.join(missing)}")
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


def pytest_collection_finish() -> None:
    """What was imported stays: looked through at each collection, it took more than most tests do."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio; the plugin would also try trio."""
    return "asyncio"


@pytest.fixture
def deep_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a tree that is too deep for pytest's own cleanup."""
    folder = tmp_path / "deep"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_read_once() -> Iterator[None]:
    """Reading them takes 40 ms for every HTTP client, and no client here uses TLS."""
    transports: Any = import_module("httpx2._transports.default")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transports, "create_ssl_context", functools.cache(transports.create_ssl_context))
        yield
