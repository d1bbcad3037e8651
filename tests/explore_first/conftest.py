"""A real browser for the HTML report. Without chromium its tests are skipped."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(
    scope="module"
)  # playwright runs an event loop, which async tests of other modules cannot share
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
    """A page that fails its test for any script, any refused content and any request but for files."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith("file:") else faults.append(asked.url))
    yield page
    assert page.evaluate("window.broken") is None
    context.close()
    assert faults == []
