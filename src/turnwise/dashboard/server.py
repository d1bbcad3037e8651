"""The page's HTTP server: JSON answers, and a stream that announces changes."""

import contextlib
import functools
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from turnwise.dashboard.guard import RequestGuard
from turnwise.dashboard.page_script import FONTS, MODULES, PAGE
from turnwise.dashboard.runs import ListedRun, Runs
from turnwise.dashboard.standing import compare, standing
from turnwise.dashboard.views import (
    alarm_list,
    call_list,
    conversation,
    episode_list,
    explored,
    groups,
    listing,
    log_files,
    machine,
    series,
    task_list,
)
from turnwise.dashboard.views import evaluations as measured
from turnwise.dashboard.views.traffic import traffic
from turnwise.dashboard.watch import Watch
from turnwise.system.files.json_lines import plain

_HEARTBEAT_SECONDS = 15.0
_TYPES = {
    "woff2": "font/woff2",
    "js": "text/javascript",
    "css": "text/css",
    "html": "text/html",
    "svg": "image/svg+xml",
}

OF_DAMAGED_FILES = (
    OSError,
    sqlite3.Error,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
)
"""Errors raised by reading an episode of an unexpected shape. They fail only the request, with status 422."""

logger = logging.getLogger(__name__)


class Asked:
    """A request's query parameters, converted to types. ValueError names a parameter that does not parse."""

    def __init__(self, request: Request, runs: Runs) -> None:
        self._given = request.query_params
        self._runs = runs

    @property
    def run(self) -> ListedRun:
        return self._runs[self._given.get("run", "")]

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name, default)

    def texts(self, name: str) -> list[str]:
        return self._given.getlist(name)

    def whole(self, name: str) -> int | None:
        value: int | None = self._number(name, int)
        return value

    def number(self, name: str) -> float | None:
        value: float | None = self._number(name, float)
        return value

    def flag(self, name: str) -> bool | None:
        return {"1": True, "0": False}.get(self._given.get(name, ""))

    @property
    def axis(self) -> str:
        axis = self.text("axis", "step")
        if axis not in series.AXES:
            raise ValueError(f"axis: {axis[:40]!r} is not one of {', '.join(series.AXES)}")
        return axis

    @property
    def steps(self) -> dict[str, Any]:
        """The first and last step asked for, as steps and as places on the axis."""
        first, last = self.whole("first") or 0, self.whole("last")
        low, high = self.number("from"), self.number("to")
        if self.axis != "step" and (low is not None or high is not None):
            start, end = series.span(self.run.index, self.axis, low, high)
            first, last = max(first, start), end if last is None else min(last, end)
        return {"first": first, "last": last}

    @property
    def episode(self) -> int:
        number = self.whole("id")
        if number is None:
            raise ValueError("id: which episode?")
        return number

    def _number(self, name: str, kind: Callable[[str], Any]) -> Any:
        text = self._given.get(name, "")
        if not text:
            return None
        try:
            value = kind(text)
        except ValueError:
            raise ValueError(f"{name}: {text[:40]!r} is not a number") from None
        if not -(2**62) < value < 2**62:  # SQLite's integers have 64 bits
            raise ValueError(f"{name}: {text[:40]!r} is out of all bounds")
        return value


class Answers:
    """The API: each public method answers the path of its name, `/api/NAME`."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._choices: dict[str, tuple[int, Any]] = {}

    def runs(self, asked: Asked) -> Any:
        return self._runs.listed()

    def failed_starts(self, asked: Asked) -> Any:
        return self._runs.failed_starts()

    def standing(self, asked: Asked) -> Any:
        return standing(asked.run)

    def names(self, asked: Asked) -> Any:
        return series.names(asked.run.index)

    def series(self, asked: Asked) -> Any:
        wanted = asked.texts("name")[:200]
        num_points = min(asked.whole("points") or series.MAX_POINTS, 5_000)
        return series.series(asked.run.index, wanted, **asked.steps, num_points=num_points, axis=asked.axis)

    def histogram(self, asked: Asked) -> Any:
        return series.histogram(asked.run.index, asked.text("name", "ratio"), **asked.steps)

    def alarms(self, asked: Asked) -> Any:
        return alarm_list.listed_alarms(asked.run, **asked.steps, axis=asked.axis)

    def machine(self, asked: Asked) -> Any:
        return machine.machine(asked.run.index)

    def choices(self, asked: Asked) -> Any:
        run, now = asked.run, asked.run.index.num_changes
        if self._choices.get(run.name, (-1, None))[0] != now:  # cached: it counts every episode
            self._choices[run.name] = (now, listing.choices(run.index))
        return self._choices[run.name][1]

    def _filter(self, asked: Asked) -> listing.Filter:
        return listing.Filter(
            source=asked.text("source"),
            first=asked.whole("first"),
            last=asked.whole("last"),
            task=asked.text("task"),
            family=asked.text("family") or None,
            difficulty=asked.text("difficulty"),
            low=asked.number("low"),
            high=asked.number("high"),
            is_success=asked.flag("success"),
            stop=asked.text("stop"),
            fault=asked.text("fault"),
            tool=asked.text("tool"),
            error=asked.text("error"),
            check=asked.text("check"),
            search=asked.text("search"),
        )

    def groups(self, asked: Asked) -> Any:
        place = {"offset": asked.whole("offset") or 0, "limit": asked.whole("limit") or 100}
        return groups.groups(asked.run.index, self._filter(asked), kind=asked.text("kind"), **place)

    def kinds(self, asked: Asked) -> Any:
        return groups.kinds(asked.run.index)

    def trajectories(self, asked: Asked) -> Any:
        wanted = self._filter(asked)
        place = {"offset": asked.whole("offset") or 0, "limit": asked.whole("limit") or 50}
        pieces = asked.run.pieces if wanted.search else None
        sort = asked.text("sort", "newest")
        return episode_list.page(asked.run.index, wanted, sort=sort, pieces=pieces, **place)

    def trajectory(self, asked: Asked) -> Any:
        return conversation.conversation(asked.run.index, asked.episode, asked.run.pieces)

    def group(self, asked: Asked) -> Any:
        run = asked.run
        return conversation.side_by_side(run.index, asked.episode, run.recipe, run.pieces)

    def tokens(self, asked: Asked) -> Any:
        run = asked.run
        return conversation.tokens(run.index, asked.episode, run.recipe, run.pieces)

    def tools(self, asked: Asked) -> Any:
        return traffic(asked.run.index, source=asked.text("source", "train"), **asked.steps)

    def calls(self, asked: Asked) -> Any:
        wanted = call_list.CallFilter(
            source=asked.text("source", "train"),
            tool=asked.text("tool"),
            server=asked.text("server"),
            error=asked.text("error"),
            **asked.steps,
        )
        place = {"offset": asked.whole("offset") or 0, "limit": asked.whole("limit") or 20}
        return call_list.calls(asked.run.index, wanted, **place)

    def paired(self, asked: Asked) -> Any:
        return compare(asked.run, [self._runs[name] for name in asked.texts("other")[:24]])

    def evaluations(self, asked: Asked) -> Any:
        return measured.evaluations(asked.run.folder)

    def comparison(self, asked: Asked) -> Any:
        return measured.comparison(asked.run.folder, asked.text("before"), asked.text("after"))

    def tasks(self, asked: Asked) -> Any:
        names = ("text", "split", "family", "difficulty")
        wanted = task_list.TaskFilter(**{name: asked.text(name) for name in names})
        place = {"offset": asked.whole("offset") or 0, "limit": asked.whole("limit") or 50}
        return task_list.tasks(asked.run, wanted, **place)

    def task(self, asked: Asked) -> Any:
        return task_list.task(asked.run, asked.text("split"), asked.whole("place") or 0)

    def explorations(self, asked: Asked) -> Any:
        return explored.explorations(self._runs)

    def exploration(self, asked: Asked) -> Any:
        return explored.exploration(self._runs, asked.text("name"))

    def plan(self, asked: Asked) -> Any:
        return explored.plan(self._runs, *(asked.text(name) for name in ("name", "split", "task")))

    def log(self, asked: Asked) -> Any:
        folder = asked.run.folder
        files, trace = log_files.log_files(folder), log_files.foreign_traceback(folder)
        if not files:
            return {"heading": "The run's folder has no log.", "files": [], "traceback": trace}
        wanted = log_files.LogFilter(text=asked.text("text"), level=asked.text("level"))
        name = asked.text("file") or files[0]
        lines = log_files.log_page(folder, name, wanted, end=asked.whole("end"))
        return {"files": files, "traceback": trace, **lines}


PATHS = (
    *("runs", "standing", "names", "series", "histogram", "alarms", "choices", "trajectories"),
    *("trajectory", "group", "tokens", "tools", "evaluations", "comparison", "paired", "tasks", "task"),
    *("calls", "explorations", "exploration", "plan", "log", "machine", "failed_starts", "groups", "kinds"),
)


def application(
    runs: Runs, watch: Watch, guard: RequestGuard, *, is_ending: Callable[[], bool] = lambda: False
) -> ASGIApp:
    """The guarded ASGI application; its lifespan starts and stops `watch`.

    Event streams end when `is_ending` returns True; otherwise they last as long as a page is open.
    """
    answers = Answers(runs)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watch.start()
        yield
        await run_in_threadpool(watch.stop)

    routes = [
        *(Route(f"/api/{path}", _answering(getattr(answers, path), runs)) for path in PATHS),
        Route("/api/events", _events(watch, is_ending)),
        Route("/", _page("index.html")),
        *(Route(f"/{name}", _page(name)) for name in ("style.css", "icon.svg", *FONTS)),
        *(Route(f"/{module}.js", _page(f"{module}.js")) for module in MODULES),
    ]
    return guard.over(Starlette(routes=routes, lifespan=lifespan))


def as_json(answer: Any) -> bytes:
    """Encode as ASCII JSON: a model's text may contain lone surrogates, which UTF-8 cannot encode."""
    try:
        return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:  # NaN or infinity: rare, so `plain` is not called for every answer
        return json.dumps(plain(answer), allow_nan=False, separators=(",", ":")).encode()


def _answering(answer: Callable[[Asked], Any], runs: Runs) -> Any:
    async def endpoint(request: Request) -> Response:
        def work() -> tuple[bytes, int]:
            asked = Asked(request, runs)
            question = functools.partial(answer, asked)
            try:
                reply = asked.run.asked(question) if request.query_params.get("run") else question()
                return as_json(reply), 200
            except ValueError as error:
                return as_json({"error": str(error)}), 400
            except LookupError as error:
                return as_json({"error": f"not found: {error}"}), 404
            except OF_DAMAGED_FILES as error:
                logger.info("%s: not answered", request.url.path, exc_info=error)
                return as_json({"error": f"the run's files are damaged: {type(error).__name__}"}), 422

        content, status = await run_in_threadpool(work)
        return Response(content, status, media_type="application/json")

    return endpoint


def _events(watch: Watch, is_ending: Callable[[], bool]) -> Any:
    async def endpoint(request: Request) -> Response:
        async def stream() -> AsyncIterator[str]:
            version, quiet_seconds = -1, 0.0
            while not is_ending():
                now = await watch.changed(version, timeout=1.0)
                quiet_seconds += 1.0
                if now == version and quiet_seconds < _HEARTBEAT_SECONDS:
                    continue
                version, quiet_seconds = now, 0.0
                yield f"data: {json.dumps({'version': version, 'is_whole': watch.is_whole})}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    return endpoint


def _page(name: str) -> Any:
    content = (PAGE / ("fonts" if name in FONTS else "") / name).read_bytes()
    kind = _TYPES[name.rpartition(".")[2]]

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint
