"""A real server for the page, and what tests do with it in a browser: open a view, read a chart."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from turnwise.dashboard.guard import RequestGuard
from turnwise.dashboard.runs import Runs
from turnwise.dashboard.server import application
from turnwise.dashboard.watch import Watch
from turnwise.system.net.http_serving import server_config

RUN_VIEWS = {
    "overview": "#chart-success svg",
    "health": "#alarms",
    "trajectories": "table#list",
    "tools": "table#tools",
    "evaluations": "#change table",
    "tasks": "table#task-list",
    "log": "pre#log-lines",
}
"""The views of a run in the order of their keys, with a selector that matches once the view is complete."""

VIEWS = {**RUN_VIEWS, "runs": "table#run-table", "compare": "#between svg", "explored": "h1"}

EXPORTED_VIEWS = {view: shown for view, shown in VIEWS.items() if view not in ("tasks", "log", "explored")}
"""The views of an exported file, which holds no task files and no logs."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server in this process, and the first of its runs."""

    port: int
    run: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response, response.read()

    def ask(self, path: str, **parameters: Any) -> Any:
        query = urlencode({"run": self.run.name, **parameters}, doseq=True)
        response, body = self.get(f"/api/{path}?{query}")
        assert response.status == 200, body
        return json.loads(body)


Serve = Callable[..., Served]
"""Start a server on these runs; it ends with the test."""


@contextlib.contextmanager
def serving(*runs: Path, host: str = "127.0.0.1", token: str = "") -> Iterator[Served]:
    shown = Runs(runs, runs[0].parent / "cache")
    watch = Watch(shown, seconds=0.1)
    app = application(shown, watch, RequestGuard(host, 80, token), is_ending=lambda: server.should_exit)
    server = uvicorn.Server(server_config(app, port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started or not watch.is_whole:
            assert thread.is_alive()
            time.sleep(0.02)
        yield Served(server.servers[0].sockets[0].getsockname()[1], runs[0])
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive()


def look(page: Any, served: Served, view: str, **settings: object) -> None:
    """Open a view, of `run` if it is one of a run, and wait until it is complete."""
    page.goto(f"{served.url}#/{view}?{urlencode({'run': 'run', **settings})}")
    page.wait_for_selector(f'main[data-view="{view}"] {VIEWS.get(view, ".conversation")}')


def texts(page: Any, selector: str) -> list[str]:
    """The elements' texts, read at once: the page may be redrawn at any time."""
    found: list[str] = page.eval_on_selector_all(selector, "(all) => all.map((one) => one.innerText)")
    return found


def wait_for_texts(page: Any, selector: str, wanted: list[str]) -> None:
    """Wait until the elements have these texts, in any order."""
    for _ in range(200):
        if sorted(texts(page, selector)) == sorted(wanted):
            return
        page.wait_for_timeout(50)
    raise AssertionError((texts(page, selector), wanted))


def pointed(page: Any, chart: str) -> dict[str, str]:
    """The exact value of each line at the place that the chart's tip shows."""
    script = "(rows) => rows.map((row) => [row.dataset.label, row.title])"
    return dict(page.eval_on_selector_all(f"#chart-{chart} .tip a", script))


def heading(page: Any) -> str:
    """The answer of the view, which has one only."""
    [words] = texts(page, "h1")
    return words.strip()
