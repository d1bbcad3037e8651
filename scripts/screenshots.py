"""Write screenshots of the dashboard's views to docs/images/, with a real browser.

Example: python scripts/screenshots.py runs/cpu-20261115-070000 (needs chromium, playwright and Pillow).
The first run is shown, 1440 pixels wide and light: view-NAME.png.
"""

import argparse
import contextlib
import io
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Page, TimeoutError, sync_playwright

from turnwise.dashboard.guard import RequestGuard
from turnwise.dashboard.runs import Runs
from turnwise.dashboard.server import application
from turnwise.dashboard.watch import Watch

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZES = {"": {"width": 1440, "height": 900}}
SCHEMES = {"": "light"}
MAX_BYTES = 150_000

VIEWS = {
    "overview": ("overview?run={first}", "#chart-success svg"),
    "health": ("health?run={first}", "#vitals"),
    "trajectories": ("trajectories?run={first}&source=train", "#list"),
    "trajectory": ("trajectory?run={first}&id={episode}&tokens=push", "#turn-1 .tok"),
    "group": ("trajectory?run={first}&id={episode}&group=1", "#matrix"),
}
"""By name of the picture: the address, and what must be there."""


def episodes(page: Page, root: str, query: str) -> list[str]:
    """The ids of the listed episodes, in the order of the list."""
    page.goto("about:blank")  # or the list of the query before would be taken for this one
    page.goto(f"{root}#/trajectories?{query}&list=tries")
    with contextlib.suppress(
        TimeoutError
    ):  # a run is read when it is first asked for; it may have none of these
        page.wait_for_selector("main[data-view='trajectories'] #list tbody a", timeout=30_000)
    links = [link.get_attribute("href") or "" for link in page.query_selector_all("#list tbody a.to")]
    return [link.partition("id=")[2].partition("&")[0] for link in links]


def failed_episode(page: Page, root: str, run: str) -> str:
    """An episode of training without success and with many calls, else any episode."""
    query = f"runs={run}&source=train&sort=-calls"
    found = episodes(page, root, f"{query}&success=0") or episodes(page, root, query)
    return found[0] if found else ""


def take_all(page: Page, root: str, names: list[str], images: Path) -> None:
    known = {"first": names[0], "episode": failed_episode(page, root, names[0])}
    for size, viewport in SIZES.items():
        page.set_viewport_size(viewport)
        for scheme, colours in SCHEMES.items():
            page.emulate_media(color_scheme=colours)
            for name, (address, complete) in VIEWS.items():
                page.goto("about:blank")  # so that every picture is of a page that was just opened
                page.goto(f"{root}#/{address.format(**known)}")
                page.wait_for_selector(f"main[data-view='{address.partition('?')[0]}'] {complete}")
                page.wait_for_timeout(400)  # charts are drawn in the next frame
                save(page.screenshot(), images / f"view-{name}{size}{scheme}.png")


def save(content: bytes, path: Path) -> None:
    """Write a palette PNG with as many colours as MAX_BYTES allow."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    for num_colours in (256, 128, 64, 32):
        out = io.BytesIO()
        palette = picture.quantize(num_colours, dither=Image.Dither.NONE)
        palette.save(out, "PNG", optimize=True)
        if out.tell() <= MAX_BYTES:
            break
    path.write_bytes(out.getvalue())
    print(f"{path.name}: {out.tell():,} bytes, {num_colours} colours", flush=True)


@contextlib.contextmanager
def served(paths: list[Path], cache: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a server on these runs, and the runs' names."""
    runs = Runs(paths, cache)
    watch = Watch(runs)
    app = application(runs, watch, RequestGuard("127.0.0.1", 0, ""), is_ending=lambda: server.should_exit)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started or not watch.is_whole:
            time.sleep(0.1)
        yield (
            f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/",
            [run.name for run in runs],
        )
    finally:
        server.should_exit = True
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--images", type=Path, default=IMAGES, help="the folder to write to")
    given = parser.parse_args()
    given.images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache, sync_playwright() as library:
        browser = library.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(120_000)
        try:
            with served(given.runs, Path(cache)) as (root, names):
                take_all(page, root, names, given.images)
                page.goto("about:blank")  # ends the event stream, which the server waits for
        finally:
            browser.close()


if __name__ == "__main__":
    main()
