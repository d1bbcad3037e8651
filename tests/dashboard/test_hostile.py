"""Hostile text stays text in every view, live and exported; an exported file needs no server."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
    TOOLS,
    episode,
    evaluate,
    good,
    log_step,
    new_run,
    play_step,
    result,
    turn,
    write_run,
)
from tests.dashboard.serving import EXPORTED_VIEWS, VIEWS, serving, texts
from turnwise.dashboard.command import open_runs, write_export
from turnwise.records.ending import Ending, How
from turnwise.rollout.store import StoredEpisode
from turnwise.run.health.health import Alarm, AlarmLevel
from turnwise.tasks.load import save
from turnwise.types import (
    Answer,
    Cause,
    DemoTurn,
    FormatError,
    FormatErrorKind,
    Message,
    Reward,
    StateProbe,
    Stop,
    Task,
    Tool,
    ToolCall,
    Truth,
)

LONG = HOSTILE + "x" * 2**20
MARKS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200e\u200f\u061c\x1b\x00\x07\x9b"
"""Marks that change the direction of writing, act on a terminal, or end a text."""

SCRIPT = "<script>window.broken = 1</script>"

ATTRIBUTES = "[...document.querySelectorAll('main *')].flatMap((element) => element.getAttributeNames())"


def hostile_episode(words: str, name: str) -> StoredEpisode:
    """An episode whose every text is `words`; only its task's name ends in `name`."""
    # lone surrogates in tasks and servers are refused; names are shorter than a megabyte
    whole = words[:100_000].replace("\ud800", "")
    truth = Truth(answer=Answer(whole), probes=(StateProbe("quote", {whole[:99]: whole}, whole),))
    of = Task(whole + name, (Message("user", whole),), ("market",), truth, family=whole)
    said = turn(0, words, [(whole, {whole[:99]: whole}, result(words, Cause.UNKNOWN_TOOL))])
    said = replace(said, parsed=replace(said.parsed, reasoning=whole))
    broken = turn(1, whole, error=FormatError(FormatErrorKind.BAD_JSON, words))
    played = episode(of, [said, broken], stop=Stop.MAX_TURNS)
    offered = (*TOOLS, Tool(whole[:200], whole, {"type": "object"}, whole[:200], whole[:200]))
    return StoredEpisode(replace(played, tools=offered), Reward(0.0, {"outcome": 0.0, whole: 0.5}))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with new_run(tmp_path_factory.mktemp("hostile"), num_steps=1) as folder:
        log_step(folder, 0)
        folder.end(Ending(How.CRASHED, HOSTILE))
        alarm = Alarm(HOSTILE, AlarmLevel.WARNING, 1.0, 0.5, HOSTILE)
        folder.log(1, "update", {f"success/{HOSTILE}": 0.5, f"reward/{HOSTILE}": 0.5}, alarms=[alarm])
        short, long = hostile_episode(HOSTILE, " short"), hostile_episode(LONG, " long")
        other = replace(short, trajectory=replace(short.trajectory, episode_id="1"))
        play_step(folder, 0, [short, other, long])
        for name in ("before", "after"):
            evaluate(folder, name, [short, good(replace(short.trajectory.task, id="fine"))])
        demonstrated = [hostile_task(episode.trajectory.task) for episode in (short, long)]
        save(demonstrated, folder.path.parent / "train.jsonl")
        with (folder.path / "training.log").open("ab") as file:
            file.write(f"{HOSTILE}\n".encode("utf-8", "surrogatepass") + bytes(range(256)) + b"x" * 2**20)
        return folder.path


def hostile_task(task: Task) -> Task:
    words = task.id
    calls = (ToolCall("0", words[:200], {words[:99]: words}),)
    return replace(task, demonstration=(DemoTurn(words, calls, (result(words),)), DemoTurn(words)))


@pytest.fixture(params=["live", "exported"])
def root(request: pytest.FixtureRequest, page: Any, run: Path, tmp_path: Path) -> Iterator[str]:
    """The page's address: on a server, or in an exported file."""
    if request.param == "live":
        with serving(run) as served:
            yield served.url
            page.goto("about:blank")
    else:
        page.context.set_offline(True)
        write_export(open_runs([run], tmp_path / "cache"), tmp_path / "report.html")
        yield (tmp_path / "report.html").as_uri()


def check_words(page: Any, num_scripts: int) -> None:
    """The hostile text is shown as text, made no element, and fits wide and narrow windows."""
    words: str = page.evaluate("document.body.innerText")
    assert words.count(SCRIPT) >= num_scripts
    assert not set(words) & set(MARKS)
    assert page.query_selector("main script, main img, main iframe, main style, main b b") is None
    names = page.evaluate(ATTRIBUTES)
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcdoc")]
    styles = page.evaluate("[...document.querySelectorAll('main [style]')].map((one) => one.style.cssText)")
    assert not [style for style in styles if "script" in style or "url(" in style]
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert any(_fits(page) for _ in range(40)), width


def _fits(page: Any) -> bool:
    """Return whether nothing is wider than the window; charts take a moment to follow a new width."""
    fits: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if not fits:
        page.wait_for_timeout(50)
    return fits


def test_hostile_text_stays_text_in_every_view(page: Any, root: str) -> None:
    views = EXPORTED_VIEWS if root.startswith("file:") else VIEWS
    for view in views:
        page.goto(f"{root}#/{view}")
        page.wait_for_selector(f'main[data-view="{view}"] h1')
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        page.wait_for_timeout(200)
        check_words(page, 0 if view in ("compare", "explored") else 1)
        if view == "trajectories":
            options = page.query_selector_all("#filter-family option")
            longest = max(options, key=lambda option: len(option.get_attribute("value") or ""))
            assert len(longest.inner_text()) < 100, "long names are cut"


def test_hostile_text_stays_text_in_a_task(page: Any, run: Path) -> None:
    with serving(run) as served:
        for place in (0, 1):
            page.goto(f"{served.url}#/tasks?of=train&id={place}")
            page.wait_for_selector("#played table")
            check_words(page, 7)  # id, family, prompt, truth; text, call, arguments, result
            assert page.evaluate("document.querySelector('main').innerText.length") < 120_000
        page.goto("about:blank")


def test_hostile_text_stays_text_in_an_episode_its_tokens_and_its_group(page: Any, root: str) -> None:
    for name in ("short", "long"):
        page.goto("about:blank")
        page.goto(f"{root}#/trajectories?source=train&task={name}&list=tries")
        page.click("#list tbody a >> nth=0")
        page.wait_for_selector("#turn-2")
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        page.wait_for_timeout(200)
        check_words(page, 10)
        assert "␛[31mred␛[0m ⟨U+202E⟩gnp.exe⟨U+202C⟩" in page.inner_text("#turn-1")
        assert page.evaluate("document.querySelector('main').innerText.length") < 150_000, (
            "long texts are cut"
        )
        page.click("#chooser [data-value='trained']")
        page.wait_for_selector("#turn-1 .tok")
        check_words(page, 1)
        page.click("#side")
        page.wait_for_selector("#matrix", state="attached")
        check_words(page, 3)


def test_an_exported_file_shows_every_view_without_a_server(page: Any, run: Path, tmp_path: Path) -> None:
    whole = write_run(tmp_path / "runs")
    out = tmp_path / "report.html"
    write_export(open_runs([whole, run], tmp_path / "cache"), out)
    assert not re.search(r'(src|href)="(?!#)', out.read_text())
    page.context.set_offline(True)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{out.as_uri()}#/overview?run=run")
    page.wait_for_selector("#chart-success svg")
    assert texts(page, "h1")[0].startswith(("No change beyond chance", "Crashed"))
    assert page.locator("#views a").count() == 5, "neither tasks nor a log"
    for number, view in enumerate(("overview", "health", "trajectories", "tools", "evaluations"), start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f'main[data-view="{view}"] h1')
    page.goto(f"{out.as_uri()}#/trajectories?run=run&task=ace&list=tries")
    page.wait_for_selector("#total:text-is('9')")
    page.keyboard.press("t")
    page.reload()
    page.click("#list tbody a >> nth=1")
    page.wait_for_selector("#turn-2")
    page.click("#tokens-1 summary")
    page.wait_for_selector("#turn-1 .tok")
    page.click("#side")
    page.wait_for_selector("#matrix tbody tr >> nth=1")
    page.goto(f"{out.as_uri()}#/tools?run=run&tool=quote")
    page.wait_for_selector("#calls:has-text('Only calls of the episodes in this file')")
    assert page.inner_text("#calls-total") == "4"
    assert {url.partition("#")[0] for url in requests if not url.startswith(("data:", "blob:"))} == {
        out.as_uri()
    }
