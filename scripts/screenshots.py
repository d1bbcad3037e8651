"""Write the screenshots of the dashboard to docs/images/, with a real browser.

Example: python scripts/screenshots.py runs/cpu runs/cpu-epochs (needs chromium and playwright). The last run
is for the ratios of tokens: its updates must have several optimizer steps (update.num_epochs = 2).
"""

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from playwright.sync_api import Page, sync_playwright

from turnwise.dashboard.guard import RequestGuard
from turnwise.dashboard.runs import Runs
from turnwise.dashboard.server import application
from turnwise.dashboard.watch import Watch

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def take(page: Page, root: str, run: str) -> None:
    page.goto(root)
    page.wait_for_selector("main[data-view]")
    links = [link.get_attribute("href") or "" for link in page.query_selector_all("nav a")]
    for view in [link.removeprefix("#/").partition("?")[0] for link in links]:
        page.goto(f"{root}#/{view}?runs={run}")
        page.wait_for_selector(f'main[data-view="{view}"]')  # set once the view is complete
        page.wait_for_timeout(500)  # charts are drawn in the next frame
        page.screenshot(path=IMAGES / f"view-{view}.png")
    page.goto(f"{root}#/trajectories?runs={run}&source=train&sort=-calls&success=0")
    page.wait_for_selector("#list tbody a")
    page.click("#list tbody a >> nth=0")
    page.wait_for_selector("#turn-1")
    page.select_option("#tokens", "logprob")
    page.wait_for_selector(".token")
    page.screenshot(path=IMAGES / "view-trajectory.png")


def take_ratios(page: Page, root: str, run: str) -> None:
    page.goto(f"{root}#/trajectories?runs={run}&source=train&sort=-tokens")
    page.wait_for_selector("#list tbody a")
    for link in [link.get_attribute("href") or "" for link in page.query_selector_all("#list tbody a")]:
        page.goto(f"{root}{link}&tokens=ratio")
        page.wait_for_selector(".conversation .token")
        if page.query_selector(".token.stopped"):  # an episode with a clipped token
            page.screenshot(path=IMAGES / "view-ratios.png")
            return


def take_dark(page: Page, root: str, run: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{root}#/overview?runs={run}&smooth=0.8")
    page.wait_for_selector(".chart canvas")
    page.screenshot(path=IMAGES / "view-dark.png")
    page.set_viewport_size({"width": 390, "height": 844})
    page.screenshot(path=IMAGES / "view-phone.png")


def main() -> None:
    with tempfile.TemporaryDirectory() as cache, sync_playwright() as library:
        runs = Runs([Path(argument) for argument in sys.argv[1:]], Path(cache))
        watch = Watch(runs)
        app = application(runs, watch, RequestGuard("127.0.0.1", 0, ""), is_ending=lambda: server.should_exit)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started or not watch.is_whole:
            time.sleep(0.1)
        browser = library.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(120_000)
        try:
            root = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
            names = [run.name for run in runs]
            take(page, root, names[0])
            take_ratios(page, root, names[-1])
            take_dark(page, root, names[0])
        finally:
            browser.close()
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
