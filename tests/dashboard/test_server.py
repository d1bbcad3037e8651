"""The server's answers agree with the run's files, and only those who may ask get one."""

import contextlib
import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
    figures,
    good,
    lines,
    log_step,
    new_run,
    play_step,
    summary,
    task,
    write_run,
)
from tests.dashboard.serving import Served, serving
from turnwise.dashboard.command import address
from turnwise.dashboard.page_script import MODULES, PAGE, bundle
from turnwise.dashboard.runs import Runs
from turnwise.dashboard.server import PATHS
from turnwise.dashboard.standing import standing
from turnwise.records.ending import Ending, How
from turnwise.system.files.atomic_write import write_json
from turnwise.system.terminal import printable


def test_every_answer_agrees_with_the_files(served: Served) -> None:
    [standing, _] = served.ask("runs")["runs"]
    assert (standing["state"], standing["last_step"], standing["num_steps"]) == ("finished", 3, 4)
    assert standing["heldout"] == {"before": 2 / 6, "after": 5 / 6}
    assert standing["latest"]["success/rate"] == figures(3)["success/rate"]
    assert served.ask("series", name=["success/rate"])["success/rate"]["values"][0] == 0.5
    assert served.ask("choices")["num_episodes"] == 4 * 4 + 2 + 12 + 4
    stored = lines(served.run / "trajectories" / "step-000003.jsonl")
    assert served.ask("trajectories", source="train", first=3, last=3)["total"] == len(stored) - 1
    written = json.loads((served.run / "evaluations" / "after.json").read_text())["figures"]
    [before, validation, after] = served.ask("evaluations")
    assert (before["name"], validation["name"], after["name"]) == ("before", "step-000002", "after")
    assert after["all"] == written["all"]
    change = served.ask("comparison", before="before", after="after")
    assert change["all"]["value"] == pytest.approx(3 / 6)
    assert change["families"]["quotes"]["num_tasks"] == 3
    [first, second] = served.ask("trajectories", task="ace", first=1, last=1)["rows"]
    assert [episode["id"] for episode in served.ask("group", id=first["id"])["members"]] == [
        first["id"],
        second["id"],
    ]
    tokens = served.ask("tokens", id=second["id"])
    assert (tokens["has_pieces"], len(tokens["turns"][0]["pieces"])) == (True, 4)
    assert tokens["turns"][1]["ids"] == [11, 12, 13, 14]
    assert served.ask("trajectories", task="' OR 1=1 --")["total"] == 0
    assert served.ask("trajectories", fault="infra")["total"] == 2
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
        ("/api/task?run=run&split=train&place=2", 404),
        ("/api/task?run=run&split=train&place=-1", 404),
        ("/api/task?run=run&split=..&place=0", 404),
        ("/report?run=run&split=train", 404),
        ("/server.py", 404),
        ("/recipe.json", 404),
    ],
)
def test_a_wrong_request_has_an_error_status(served: Served, path: str, status: int) -> None:
    assert served.get(path)[0].status == status


def test_a_browser_may_run_our_own_files_only(served: Served) -> None:
    for path in ("/", "/main.js", "/api/runs", "/api/series?run=nowhere", "/nothing"):
        headers = served.get(path)[0].headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert served.get("/main.js")[0].headers["Content-Type"].startswith("text/javascript")
    page = served.get("/")[1].decode()
    assert re.findall(r"<script(?![^>]*src=)", page) == []
    assert "style=" not in page


def test_only_our_own_host_names_are_answered_and_nothing_can_be_changed(served: Served) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7"):
        response, body = served.get("/api/runs", Host=host)
        assert response.status in (400, 421), host
        assert b"run" not in body
    for host in ("localhost", "127.0.0.1", "localhost:9", "[::1]:9", "LOCALHOST"):
        assert served.get("/api/runs", Host=host)[0].status == 200, host
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert served.get("/api/runs", method)[0].status == 405, method


def test_other_machines_need_a_token_which_moves_from_the_address_to_a_cookie(tmp_path: Path) -> None:
    with serving(write_run(tmp_path, num_steps=1), host="192.0.2.1", token="right-ü") as served:
        for path in ("/", "/main.js", "/api/runs", "/api/events", "/?token=wrong", "/?token="):
            response, body = served.get(path)
            assert response.status == 401
            assert b"right" not in body
        response, _ = served.get("/?token=right-%C3%BC&a=b")
        assert (response.status, response.headers["Location"]) == (303, "/?a=b")
        cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        cookie = cookie.partition(";")[0]
        assert served.get("/api/runs", Cookie=cookie)[0].status == 200
        assert served.get("/api/runs", Cookie="turnwise_view_80=wrong")[0].status == 401
        assert served.get("/api/runs", Host="evil.example", Cookie=cookie)[0].status == 421
    assert address("127.0.0.1", 8080, "") == "http://127.0.0.1:8080/"
    assert address("::1", 1, "t") == "http://[::1]:1/?token=t"


def wait_until(served: Served, state: str, num_episodes: int) -> None:
    """Metrics, episodes, summary and lock may be noticed at different ticks."""
    for _ in range(100):
        found = (served.ask("runs")["runs"][0]["state"], served.ask("trajectories")["total"])
        if found == (state, num_episodes):
            return
        time.sleep(0.05)
    raise AssertionError(found)


@contextlib.contextmanager
def events(served: Served) -> Iterator[Callable[[], Any]]:
    """The event stream: a function that waits for the next event, for less than a heartbeat."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=14)) as connection:
        connection.request("GET", "/api/events")
        stream = connection.getresponse()
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        yield lambda: json.loads((stream.readline() + stream.readline()).removeprefix(b"data: "))


def test_the_event_stream_announces_growth_and_the_end_of_a_run(tmp_path: Path) -> None:
    folder = new_run(tmp_path, num_steps=2)
    log_step(folder, 0)
    with serving(folder.path) as served:
        with events(served) as event:
            before = event()
            wait_until(served, "running", 0)
            log_step(folder, 1)
            play_step(folder, 1, [good(task("new"))])
            assert event()["version"] > before["version"]
            wait_until(served, "running", 1)
            assert served.ask("series", name="reward/mean")["reward/mean"]["steps"] == [0, 1]
        with events(served) as event:
            before = event()
            write_json(folder.summary, summary(2))
            folder.close()
            assert event()["version"] > before["version"]
            wait_until(served, "finished", 1)


def test_new_runs_appear_and_equal_names_are_told_apart(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", num_steps=1)
    runs = Runs([tmp_path / "a", tmp_path / "b"], tmp_path / "cache")
    assert [run.name for run in runs] == ["run"]
    write_run(tmp_path / "b", num_steps=1)
    assert runs.look()
    assert [(run.name, run.folder.parent.name) for run in runs] == [("run", "a"), ("run~2", "b")]
    assert runs["run"].folder == first
    with pytest.raises(ValueError, match="none has a"):
        Runs([tmp_path / "cache"], tmp_path / "cache")


def test_the_pages_scripts_are_all_in_the_bundle_and_never_parse_markup() -> None:
    texts = {child.name: child.read_text("utf-8") for child in PAGE.iterdir() if child.is_file()}
    assert {name for name in texts if name.endswith(".js")} == {f"{name}.js" for name in MODULES}
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", bundle(), re.MULTILINE)
    assert len(names) == len(set(names))
    assert not re.search(r"^(import|export) ", bundle(), re.MULTILINE)
    page = "".join(texts.values())
    parsers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\("
    assert not re.search(parsers, page + bundle())
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)
    asked = set(re.findall(r'(?<!\w)ask\((?:isTries \? )?"(\w+)"', page)) | {"groups"}
    assert asked == set(PATHS), "every path of the API is used"


@pytest.mark.parametrize(
    "ending",
    [
        Ending(How.CRASHED, f"RuntimeError: {HOSTILE}"),
        Ending(How.HALTED, "alarm alignment: tokens/alignment is 0.5"),
        Ending(How.STOPPED, "you asked it to stop (SIGTERM)"),
        Ending(How.FINISHED),
    ],
)
def test_a_runs_state_is_how_it_ended_with_the_reason(tmp_path: Path, ending: Ending) -> None:
    with new_run(tmp_path) as folder:
        folder.end(ending)
        assert state_of(folder.path) == ("running", ""), "while the folder is locked"
    assert state_of(folder.path) == (ending.how, printable(ending.why))


def test_a_run_without_an_ending_died_unless_another_machine_has_the_lock(tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        lock = folder.path / "lock"
        holder = json.loads(lock.read_text())
    for change, state, words in (
        ({"process": 2**22 + 1}, "died", "killed"),
        ({"host": "elsewhere"}, "unknown", f"process {holder['process']} on elsewhere"),
    ):
        lock.write_text(json.dumps({**holder, **change}))
        found = state_of(folder.path)
        assert found[0] == state
        assert words in found[1]


def state_of(folder: Path) -> tuple[str, str]:
    [run] = Runs([folder], folder.parent / "cache")
    run.refresh(seconds=60)
    found = standing(run)
    return found["state"], found["reason"]
