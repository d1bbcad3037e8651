"""A real browser for the page's tests; where there is none they are skipped, and say what installs it."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")  # its library keeps a loop running, which others of the session may not have
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: run `make ready`")
    if CHROMIUM is None:
        pytest.skip("no chromium here: bash scripts/system-packages.sh browser installs it")
    with playwright.sync_playwright() as library:
        # the sandbox needs rights that a container's root does not give
        opened = library.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test for any script error or refused content, whatever else it shows."""
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
