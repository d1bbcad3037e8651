"""A run folder, a server on it and a real browser. Without chromium the tests of the page are skipped."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
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


@pytest.fixture(scope="package")
def tab(browser: Any) -> Iterator[Any]:
    """One tab for all tests: the process of a new one takes twice as long as drawing a view."""
    with contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page


@pytest.fixture
def page(tab: Any) -> Iterator[Any]:
    """The tab as if it were new; it fails its test for any script error and any refused content."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    faults: list[str] = []
    origins: set[str] = set()
    listeners = {
        "pageerror": lambda error: faults.append(str(error)),
        "console": lambda message: faults.append(message.text) if message.type == "error" else None,
        "framenavigated": lambda frame: origins.add(frame.url.partition("#")[0]),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield tab
    is_broken = tab.evaluate("window.broken") is not None
    tab.goto("about:blank")
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    _forget(tab, origins)
    assert not is_broken
    assert faults == []


def _forget(tab: Any, urls: Iterable[str]) -> None:
    """Undo what a test changed: emulation, routes, cookies, other tabs, and the storage of these pages."""
    tab.unroute_all()
    tab.emulate_media(color_scheme="null")
    tab.context.set_offline(False)
    tab.context.clear_cookies()
    for other in tab.context.pages:
        if other is not tab:
            other.close()
    session = tab.context.new_cdp_session(tab)
    for url in urls:
        session.send("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "local_storage"})
    session.detach()


@pytest.fixture
def serve(page: Any) -> Iterator[Serve]:
    """Serve a run of the test's own. The page closes its event stream before the server ends."""
    with contextlib.ExitStack() as servers:
        yield lambda *runs: servers.enter_context(serving(*runs))
        page.goto("about:blank")
