"""The server answers what the files hold, to those who may ask, and says nothing to others."""

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn

from tests.dashboard.recorded import (
    HOSTILE,
    figures,
    good,
    lines,
    log_step,
    play_step,
    summary,
    task,
    write_run,
)
from turnwise.config import Recipe
from turnwise.dashboard.command import address
from turnwise.dashboard.guard import RequestGuard
from turnwise.dashboard.page_script import MODULES, PAGE, bundle
from turnwise.dashboard.runs import Runs
from turnwise.dashboard.server import PATHS, application
from turnwise.dashboard.watch import Watch
from turnwise.runtime.atomic_write import write_json
from turnwise.runtime.terminal import printable
from turnwise.tracking.ending import Ending, How
from turnwise.tracking.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Served:
    """A real server on a port of its own."""

    port: int
    run: Path

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def ask(self, path: str, **parameters: Any) -> Any:
        query = urlencode({"run": self.run.name, **parameters}, doseq=True)
        response, body = self.get(f"/api/{path}?{query}")
        assert response.status == 200, body
        return json.loads(body)


def serving(run: Path, *beside: Path, host: str = "127.0.0.1", token: str = "") -> Iterator[Served]:
    runs = Runs([run, *beside], run.parent / "cache")
    watch = Watch(runs, seconds=0.1)
    app = application(runs, watch, RequestGuard(host, 80, token), is_ending=lambda: server.should_exit)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started or not watch.is_whole:
        assert thread.is_alive()
        time.sleep(0.02)
    [listener] = server.servers[0].sockets
    try:
        yield Served(listener.getsockname()[1], run)
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serving(write_run(tmp_path_factory.mktemp("runs")))


def test_every_answer_holds_what_the_files_do(served: Served) -> None:
    [standing] = json.loads(served.get("/api/runs")[1])
    assert (standing["state"], standing["last_step"], standing["num_steps"]) == ("finished", 3, 4)
    assert standing["heldout"] == {"before": 2 / 6, "after": 5 / 6}
    assert standing["latest"]["success/rate"] == figures(3)["success/rate"]
    assert served.ask("series", name=["success/rate"])["success/rate"]["values"][0] == 0.5
    assert served.ask("histogram", name="ratio")["columns"][3]["counts"][25] == 4
    assert [alarm["step"] for alarm in served.ask("alarms")["alarms"]] == [2, 1]
    assert served.ask("choices")["num_episodes"] == 4 * 4 + 2 + 12
    stored = lines(served.run / "trajectories" / "step-000003.jsonl")
    assert served.ask("trajectories", source="train", first=3, last=3)["total"] == len(stored) - 1
    assert served.ask("tools")["tools"][0]["num_calls"] == 16
    written = json.loads((served.run / "evaluations" / "after.json").read_text())["figures"]
    [before, after] = served.ask("evaluations")
    assert (before["name"], after["name"]) == ("before", "after")
    assert after["all"] == written["all"]
    change = served.ask("comparison", before="before", after="after")
    assert change["all"]["value"] == pytest.approx(3 / 6)
    assert change["families"]["quotes"]["num_tasks"] == 3


def test_an_episode_is_answered_with_its_tokens_and_advantage(served: Served) -> None:
    [first, second] = served.ask("trajectories", task="ace", first=1, last=1)["rows"]
    found = served.ask("tokens", id=second["id"])
    assert found["turns"][0]["logprobs"] == [-0.01, -0.5, -1.25, -4.0]
    assert found["turns"][1]["ids"] == [11, 12, 13, 14]
    assert found["turns"][1]["update"]["advantages"] == [-0.5] * 4
    [third, _] = served.ask("trajectories", task="bee", first=1, last=1)["rows"]
    assert served.ask("tokens", id=third["id"])["advantage"] == 0.0  # both members earned the same
    assert found["has_pieces"]
    assert len(found["turns"][0]["pieces"]) == 4
    assert [episode["id"] for episode in served.ask("group", id=first["id"])] == [first["id"], second["id"]]
    [evil] = served.ask("trajectories", task="evil")["rows"]
    assert served.ask("trajectory", id=evil["id"])["turns"][0]["text"] == HOSTILE


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/series?run=nowhere&name=a", 404),
        ("/api/trajectory?run=run&id=99999", 404),
        ("/api/trajectory?run=run&id=x", 400),
        ("/api/trajectory?run=run", 400),
        ("/api/trajectories?run=run&first=9999999999999999999999", 400),
        ("/api/trajectories?run=run&low=nan", 400),
        ("/api/trajectories?run=run&sort=no", 400),
        ("/api/comparison?run=run&before=../../x&after=y", 404),
        ("/../index.py", 404),
        ("/%2e%2e/index.py", 404),
        ("/server.py", 404),
        ("/recipe.json", 404),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_said_so(served: Served, path: str, status: int) -> None:
    assert served.get(path)[0].status == status


def test_a_browser_may_run_our_own_files_only(served: Served) -> None:
    for path in ("/", "/main.js", "/api/runs", "/api/series?run=nowhere", "/nothing"):
        response, _ = served.get(path)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert served.get("/main.js")[0].headers["Content-Type"].startswith("text/javascript")
    page = served.get("/")[1].decode()
    assert re.findall(r"<script(?![^>]*src=)", page) == []
    assert "style=" not in page


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7"])
def test_a_foreign_name_that_leads_here_gets_nothing(served: Served, host: str) -> None:
    response, body = served.get("/api/runs", Host=host)
    assert response.status in (400, 421)
    assert b"run" not in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:9", "[::1]:9", "LOCALHOST"])
def test_our_own_names_are_answered(served: Served, host: str) -> None:
    assert served.get("/api/runs", Host=host)[0].status == 200


def test_nothing_can_be_changed(served: Served) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert served.get("/api/runs", method)[0].status == 405


def test_elsewhere_than_here_a_token_is_needed_and_leaves_the_address(tmp_path: Path) -> None:
    for served in serving(write_run(tmp_path, num_steps=1), host="192.0.2.1", token="right-ü"):
        for path in ("/", "/main.js", "/api/runs", "/api/events", "/?token=wrong", "/?token="):
            response, body = served.get(path)
            assert response.status == 401
            assert b"right" not in body
        response, _ = served.get("/?token=right-%C3%BC&a=b")
        assert (response.status, response.headers["Location"]) == (303, "/?a=b")
        cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert served.get("/api/runs", Cookie=cookie.partition(";")[0])[0].status == 200
        assert served.get("/api/runs", Cookie="turnwise_view_80=wrong")[0].status == 401
        assert served.get("/api/runs", Host="evil.example", Cookie=cookie.partition(";")[0])[0].status == 421


def test_the_stream_says_when_a_run_has_grown(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "live", Recipe(), is_dated=False) as folder:
        log_step(folder, 0)
        for served in serving(folder.path):
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
            connection.request("GET", "/api/events")
            stream = connection.getresponse()
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            before = json.loads(stream.readline().removeprefix(b"data: "))
            assert served.ask("series", name="reward/mean")["reward/mean"]["steps"] == [0]
            log_step(folder, 1)
            play_step(folder, 1, [good(task("new"))])
            stream.readline()
            after = json.loads(stream.readline().removeprefix(b"data: "))
            assert after["version"] > before["version"]
            for _ in range(100):  # figures and episodes may come with two ticks
                if served.ask("trajectories")["total"]:
                    break
                time.sleep(0.05)
            assert served.ask("series", name="reward/mean")["reward/mean"]["steps"] == [0, 1]
            [row] = served.ask("trajectories")["rows"]
            assert row["task"] == "new"
            assert json.loads(served.get("/api/runs")[1])[0]["state"] == "running"
            connection.close()


def test_the_stream_says_when_a_run_has_ended(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "live", Recipe(), is_dated=False)
    log_step(folder, 0)
    for served in serving(folder.path):
        stream = http.client.HTTPConnection("127.0.0.1", served.port, timeout=14)  # less than a heartbeat
        stream.request("GET", "/api/events")
        answer = stream.getresponse()
        answer.readline()
        assert json.loads(served.get("/api/runs")[1])[0]["state"] == "running"
        write_json(folder.summary, summary(1))
        folder.close()
        answer.readline()
        assert answer.readline().startswith(b"data: ")
        for _ in range(100):  # the file and the lock may come with two ticks
            if json.loads(served.get("/api/runs")[1])[0]["state"] == "finished":
                break
            time.sleep(0.05)
        assert json.loads(served.get("/api/runs")[1])[0]["state"] == "finished"
        stream.close()


def test_runs_that_begin_later_appear_and_names_do_not_clash(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", num_steps=1)
    runs = Runs([tmp_path / "a", tmp_path / "b"], tmp_path / "cache")
    assert [run.name for run in runs] == ["run"]
    write_run(tmp_path / "b", num_steps=2)
    assert runs.look()
    assert [(run.name, run.folder.parent.name) for run in runs] == [("run", "a"), ("run~2", "b")]
    assert runs["run"].folder == first
    with pytest.raises(ValueError, match="none has a"):
        Runs([tmp_path / "cache"], tmp_path / "cache")


def test_every_script_of_the_page_is_in_the_exported_one_and_no_name_twice() -> None:
    scripts = {child.name for child in PAGE.iterdir() if child.name.endswith(".js")}
    assert scripts == {f"{name}.js" for name in MODULES}
    found = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", bundle(), re.MULTILINE)
    assert len(found) == len(set(found))
    assert not re.search(r"^(import|export) ", bundle(), re.MULTILINE)


def test_the_page_never_parses_what_it_is_given_as_markup() -> None:
    for child in PAGE.iterdir():
        words = child.read_text("utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\(", words
        )
        assert "http://" not in words.replace("http://www.w3.org/", "")
        assert "https://" not in words


def test_every_path_is_one_the_page_asks_for() -> None:
    words = "".join(child.read_text("utf-8") for child in PAGE.iterdir())
    assert set(re.findall(r'ask\("(\w+)"', words)) == set(PATHS)


def test_the_address_holds_the_token_only_where_there_is_one() -> None:
    assert address("127.0.0.1", 8080, "") == "http://127.0.0.1:8080/"
    assert address("::1", 1, "t") == "http://[::1]:1/?token=t"


@pytest.mark.parametrize(
    "ending",
    [
        Ending(How.CRASHED, f"RuntimeError: {HOSTILE}"),
        Ending(How.HALTED, "alarm alignment: tokens/alignment is 0.5"),
        Ending(How.STOPPED, "you asked it to stop (SIGTERM)"),
        Ending(How.FINISHED),
    ],
)
def test_how_a_run_ended_is_its_state_with_the_reason(tmp_path: Path, ending: Ending) -> None:
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        folder.end(ending)
        for served in serving(folder.path):
            [running] = json.loads(served.get("/api/runs")[1])
            assert (running["state"], running["reason"]) == ("running", ""), "while the folder is held"
    for served in serving(folder.path):
        [standing] = json.loads(served.get("/api/runs")[1])
        assert standing["state"] == ending.how
        assert standing["reason"] == printable(ending.why)


def test_a_run_without_an_end_died_unless_another_machine_may_still_run_it(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        path, lock = folder.path, folder.path / "lock"
        holder = json.loads(lock.read_text())
    for change, state, words in (
        ({"process": 2**22 + 1}, "died", "killed"),
        ({"host": "elsewhere"}, "unknown", f"process {holder['process']} on elsewhere"),
    ):
        lock.write_text(json.dumps({**holder, **change}))
        for served in serving(path):
            [standing] = json.loads(served.get("/api/runs")[1])
            assert standing["state"] == state
            assert words in standing["reason"]
