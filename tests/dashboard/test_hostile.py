"""Hostile words wherever models, tools and tasks can put them: in every view, live and in a file."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.looking import VIEWS
from tests.dashboard.recorded import (
    HOSTILE,
    TOOLS,
    episode,
    evaluate,
    good,
    log_step,
    play_step,
    result,
    turn,
)
from tests.dashboard.test_server import serving
from turnwise.config import Recipe
from turnwise.dashboard.command import open_runs, write_export
from turnwise.diagnostics.health import Alarm, AlarmLevel
from turnwise.rollout.store import StoredEpisode
from turnwise.tracking.folder import RunFolder
from turnwise.types import (
    Answer,
    Cause,
    FormatError,
    FormatErrorKind,
    Message,
    Reward,
    StateProbe,
    Stop,
    Task,
    Tool,
    Truth,
)

LONG = HOSTILE + "x" * 2**20
MARKS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200e\u200f\u061c\x1b\x00\x07\x9b"
"""What would turn the writing, act on a terminal, or end a text."""


ATTRIBUTES = "[...document.querySelectorAll('main *')].flatMap((each) => each.getAttributeNames())"


def hostile_episode(words: str, name: str) -> StoredEpisode:
    """Every text of it is these words; the name alone tells it from others."""
    # tasks and servers that bring half a character are refused; for a name, less than a megabyte is long
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
    recipe = Recipe.model_validate({"run": {"num_steps": 1}, "model": {"path": "embedded"}})
    root = tmp_path_factory.mktemp("hostile")
    with RunFolder.create(root, "run", recipe, is_dated=False) as folder:
        log_step(folder, 0)
        alarm = Alarm(HOSTILE, AlarmLevel.WARNING, 1.0, 0.5, HOSTILE)
        folder.log(1, "update", {f"success/{HOSTILE}": 0.5, f"reward/{HOSTILE}": 0.5}, alarms=[alarm])
        short, long = hostile_episode(HOSTILE, " short"), hostile_episode(LONG, " long")
        play_step(
            folder, 0, [short, replace(short, trajectory=replace(short.trajectory, episode_id="1")), long]
        )
        for name in ("before", "after"):
            evaluate(folder, name, [short, good(replace(short.trajectory.task, id="fine"))])
        return folder.path


@pytest.fixture(scope="module")
def live(run: Path) -> Iterator[str]:
    for served in serving(run):
        yield f"http://127.0.0.1:{served.port}/"


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("out") / "report.html"
    write_export(open_runs([run], run.parent / "cache2"), out)
    return out.as_uri()


@pytest.fixture(params=["live", "exported"])
def root(request: pytest.FixtureRequest, page: Any) -> str:
    if request.param == "exported":
        page.context.set_offline(True)
    found: str = request.getfixturevalue(request.param)
    return found


def check_words(page: Any) -> str:
    """The page's words; nothing in it was made by them, and nothing in it acts."""
    words: str = page.evaluate("document.body.innerText")
    assert not set(words) & set(MARKS)
    assert page.query_selector("main script, main img, main iframe, main style, main b b") is None
    attributes = page.evaluate(ATTRIBUTES)
    assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcdoc")]
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return words


@pytest.mark.parametrize("width", [1280, 390])
def test_in_every_view_they_stay_words(page: Any, root: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for view, whole in VIEWS.items():
        page.goto(f"{root}#/{view}")
        page.wait_for_selector(f'main[data-view="{view}"] {whole}')
        assert "<script>window.broken = 1</script>" in check_words(page), view


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["short", "long"])
def test_in_an_episode_its_tokens_and_its_group_they_stay_words(
    page: Any, root: str, name: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{root}#/trajectories?source=train&task={name}")
    page.click("#list tbody a >> nth=0")
    page.wait_for_selector("#turn-2")
    for element in page.query_selector_all("details"):
        element.evaluate("(each) => { each.open = true; }")
    words = check_words(page)
    # task, prompt, family, truth, probe, tools offered, the reward's part; reasoning, text, call, arguments,
    # result, text, error
    assert words.count("<script>window.broken = 1</script>") >= 14
    assert page.evaluate("document.querySelector('main').innerText.length") < 120_000, "long texts are cut"
    page.select_option("#tokens", "mask")
    page.wait_for_selector("#turn-1 .token")
    check_words(page)
    page.click("#side")
    page.wait_for_selector(".side")
    assert check_words(page).count("<script>window.broken = 1</script>") >= 6


def test_names_of_any_length_keep_to_their_line(page: Any, live: str) -> None:
    page.goto(f"{live}#/trajectories?source=train")
    page.wait_for_selector("table#list")
    options = page.query_selector_all("#filter-family option")
    longest = max(options, key=lambda option: len(option.get_attribute("value") or ""))
    assert len(longest.inner_text()) < 100
    page.click("#view-tools")
    page.wait_for_selector("table#tools")
    names = [link.inner_text() for link in page.query_selector_all("#tools a")]
    assert all(len(name) <= 260 for name in names)


@pytest.mark.parametrize("act", [lambda page: page.keyboard.press("t"), lambda page: page.reload()])
def test_an_exported_file_needs_nothing_from_anywhere(
    page: Any, exported: str, act: Callable[[Any], None]
) -> None:
    page.context.set_offline(True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{exported}#/trajectories?source=train&task=short")
    page.wait_for_selector("table#list")
    act(page)
    page.wait_for_selector("table#list")
    page.click("#list tbody a >> nth=1")  # the second of its group
    page.wait_for_selector("#side")
    page.click("#side")
    page.wait_for_selector(".side >> nth=1")
    assert {url.partition("#")[0] for url in asked} == {exported}
