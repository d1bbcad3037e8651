"""A run folder, a server on it and a real browser. Without chromium the tests of the page are skipped."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import write_run
from tests.dashboard.serving import Serve, Served, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of four steps, and next to it `second`, of three. Tests do not change it."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root, "second", num_steps=3)
    return write_run(root)


@pytest.fixture(scope="package")
def served(run: Path) -> Iterator[Served]:
    with serving(run, run.parent / "second") as served:
        yield served


@pytest.fixture(
    scope="package"
)  # playwright runs an event loop, which async tests of other folders cannot share
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: run `make ready`")
    if CHROMIUM is None:
        pytest.skip("no chromium here: bash scripts/system-packages.sh browser installs it")
    with playwright.sync_playwright() as library:
        # root in a container lacks the rights that chromium's sandbox needs
        opened = library.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails its test for any script error and any refused content."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    yield page
    assert page.evaluate("window.broken") is None
    context.close()
    assert faults == []


@pytest.fixture
def serve(page: Any) -> Iterator[Serve]:
    """Serve a run of the test's own. The page closes its event stream before the server ends."""
    with contextlib.ExitStack() as servers:
        yield lambda *runs: servers.enter_context(serving(*runs))
        page.goto("about:blank")
