"""The page's views in a real browser on a real server; their numbers are compared with the run's files."""

import json
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.dashboard.recorded import HOSTILE, episode, figures, log_step, new_run, play_step, task, turn
from tests.dashboard.serving import EXPORTED_VIEWS, VIEWS, Serve, Served, look, readout, texts
from turnwise.dashboard.command import open_runs, write_export
from turnwise.dashboard.page_script import MODULES, PAGE
from turnwise.records.ending import Ending, How
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Answer, FollowUp, Reward, StateProbe, Stop, Truth


def test_every_view_is_reached_by_a_click(page: Any, served: Served) -> None:
    look(page, served, "overview")
    card = page.inner_text('[data-run="run"]')
    assert "33.3% → 83.3%" in card
    assert f"reward, last step\n{figures(3)['reward/mean']:.4g}" in card
    for number, (view, complete) in enumerate(VIEWS.items()):
        page.click(f"nav a >> nth={number}")
        page.wait_for_selector(f'main[data-view="{view}"] {complete}')
        assert page.get_attribute("nav a[aria-current]", "href").startswith(f"#/{view}")


def test_tokens_are_coloured_by_log_prob_mask_advantage_and_ratio(page: Any, served: Served) -> None:
    [row] = served.ask("trajectories", task="ace", first=3, last=3, success=0)["rows"]
    look(page, served, "trajectory", id=row["id"], run="run", tokens="logprob")
    tokens = page.query_selector_all("#turn-1 .token")
    assert [token.get_attribute("data-id") for token in tokens] == ["1", "2", "3", "4"]
    assert "log-prob -1.25" in tokens[2].get_attribute("title")
    colours = {token.evaluate("(token) => getComputedStyle(token).backgroundColor") for token in tokens}
    assert len(colours) == 4
    page.select_option("#tokens", "mask")
    page.wait_for_selector("#turn-1 .token.own")
    assert len(page.query_selector_all("#turn-1 .token")) == 9
    assert len(page.query_selector_all("#turn-1 .token.own")) == 4
    page.select_option("#tokens", "advantage")
    page.wait_for_selector("#turn-1 .token.minus1")
    assert "Advantage -0.5 for every token" in page.inner_text(".settings")
    page.select_option("#tokens", "ratio")
    page.wait_for_selector("#turn-1 .token.plus3")
    tokens = page.query_selector_all(".tokens .token")
    shades = [token.get_attribute("class").removeprefix("token ") for token in tokens]
    clipped = ["null0", "plus3 stopped", "minus3 stopped", "null0"]
    assert shades == [*clipped, "plus1", "minus1", "null0", "plus3 stopped"]
    assert tokens[7].get_attribute("title").endswith("dropped before the loss · loss mask 0")
    assert tokens[1].evaluate("(token) => getComputedStyle(token).textDecorationLine") == "underline"
    assert "from 0.5 to 4; underlined: clipped or dropped, 3 of 8 tokens" in page.inner_text(".settings")
    [row, _] = served.ask("trajectories", task="bee", source="train", first=3, last=3)["rows"]
    look(page, served, "trajectory", id=row["id"], run="run", tokens="ratio")
    page.wait_for_selector(".settings:has-text('not of this one')")  # why its ratios are missing
    assert "minus" not in page.inner_html("#turn-1")
    page.select_option("#tokens", "advantage")
    page.wait_for_selector("#turn-1 .token.null0")
    assert "Advantage 0" in page.inner_text(".settings")


def test_episodes_without_verdict_or_turns_are_shown(page: Any, serve: Serve, tmp_path: Path) -> None:
    asked = replace(task("asked"), truth=Truth(probes=(StateProbe("quote", {}, "51.9"),)))
    with new_run(tmp_path) as folder:
        unjudged = StoredEpisode(episode(asked, [turn(0, "done")]), Reward(0.0, {"own:part": 0.0}))
        play_step(folder, 0, [unjudged])
        play_step(folder, 1, [StoredEpisode(episode(task("none"), []), Reward(0.0, {"outcome": 0.0}))])
    served = serve(folder.path)
    look(page, served, "trajectories")
    assert page.inner_text("#list tbody .badge.bad:text-is('reward')") == "reward"
    page.click("#list a:text-is('asked')")
    page.wait_for_selector("#turn-1")
    assert page.inner_text(".conversation .badge >> nth=0") == "not judged"
    assert "no success" not in page.inner_text(".conversation")
    look(page, served, "trajectories")
    page.click("#list a:text-is('none')")
    page.wait_for_selector(".conversation h2:has-text('none')")
    assert "0 turns" in page.inner_text(".conversation")


def test_a_conversation_shows_what_the_user_said_and_which_messages_succeeded(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    follow_up = FollowUp(f"And yesterday? {HOSTILE}", Truth(answer=Answer("50.1")))
    asked = replace(task("talk"), conversation=(follow_up, FollowUp("Thanks.", follow_up.truth)))
    turns = [turn(0, "51.9"), replace(turn(1, "I do not know"), user=follow_up.message, message=1)]
    played = replace(episode(asked, turns, stop=Stop.MAX_TURNS), endings=(Stop.ANSWERED,))
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [StoredEpisode(played, Reward(0.0, {"outcome": 0.0}))])
    served = serve(folder.path)
    [row] = served.ask("trajectories", task="talk")["rows"]
    assert served.ask("trajectory", id=row["id"])["messages"] == [True, False, False]
    look(page, served, "trajectory", id=row["id"], run="run")
    said = page.inner_text(".conversation .columns")
    assert said.index("51.9") < said.index("And yesterday? <script>") < said.index("I do not know")
    assert "1 of 3 as asked" in page.inner_text("#messages")
    assert texts(page, "#messages .badge.good") == ["1"]


def test_tools_and_evaluations_agree_with_the_files(page: Any, served: Served) -> None:
    look(page, served, "tools")
    quote, slack, market = (
        page.inner_text(selector).split("\t")
        for selector in ("[data-tool='quote']", "[data-server='slack']", "[data-server='market']")
    )
    assert quote[0] == "market"
    assert quote[2:8] == ["16", "tool_error 4", "250 ms", "1.50 s", "1.50 s", "8"]
    assert slack[1:8] == ["2", "100 ms", "100 ms", "100 ms", "open at step 3", "1", "2"]
    assert market[1:8] == ["16", "250 ms", "1.50 s", "1.50 s", "closed at step 3", "0", "0"]
    assert readout(page, "breakers") == {"breaker/openings/market": "0", "breaker/openings/slack": "0"}
    look(page, served, "evaluations")
    written = json.loads((served.run / "evaluations" / "after.json").read_text())["figures"]["all"]["success"]
    bounds = " ".join(f"{100 * written[end]:.1f}%" for end in ("low", "high"))
    assert f"{100 * written['value']:.1f}% [{bounds}]" in page.inner_text("#evaluations [data-name='after']")
    assert page.inner_text("#change tr[data-label='all']").split("\t")[4] == "+50.0%"


def test_a_text_of_a_million_characters_is_shown_in_part_and_then_whole(page: Any, served: Served) -> None:
    [row] = served.ask("trajectories", task="long")["rows"]
    look(page, served, "trajectory", id=row["id"])
    assert len(page.inner_text("#turn-1 pre.said")) < 5_000
    page.click("#turn-1 .more >> nth=0")
    assert page.evaluate("document.querySelector('#turn-1 pre.said').textContent.length") == 2**20


CONTRAST = """() => {
  const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const back = light(getComputedStyle(document.body).backgroundColor);
  const texts = [...document.querySelectorAll("p, td, th, h2, h3, a:not([aria-current]), .note, .badge")];
  return Math.min(...texts.map((text) => light(getComputedStyle(text).color))
    .map((front) => (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05)));
}"""
"""The lowest contrast of any text against the page, by WCAG's formula."""


def test_all_text_has_contrast_in_light_and_dark(page: Any, served: Served) -> None:
    for view in VIEWS:
        look(page, served, view)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(CONTRAST) >= 4.5, (view, theme)


def test_a_run_that_grows_while_it_is_drawn_is_shown(page: Any, serve: Serve, tmp_path: Path) -> None:
    asked: list[str] = []

    def slowly(route: Any) -> None:
        asked.append(route.request.url)
        log_step(folder, len(asked))
        time.sleep(2.5)  # the page looks for growth every 2 s
        route.continue_()

    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        page.route("**/api/series*", slowly)
        look(page, serve(folder.path), "overview")
        assert asked
        page.unroute_all(behavior="ignoreErrors")


def test_an_exported_file_shows_every_view_without_a_server(page: Any, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    write_export(open_runs([run], tmp_path / "cache"), out)
    assert not re.search(r'(src|href)="(?!#)', out.read_text())
    page.context.set_offline(True)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{out.as_uri()}#/overview")
    page.wait_for_selector("#chart-success canvas")
    assert readout(page, "success")["success/rate"] == str(figures(3)["success/rate"])
    for number, (view, complete) in enumerate(EXPORTED_VIEWS.items(), start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f'main[data-view="{view}"] {complete}')
    assert page.locator("nav a").count() == len(EXPORTED_VIEWS)
    page.goto(f"{out.as_uri()}#/trajectories")
    page.keyboard.press("t")
    page.reload()
    page.wait_for_selector("#list")
    page.fill("#filter-task", "ace")
    page.press("#filter-task", "Enter")
    page.wait_for_selector("#total .number:text-is('9')")
    page.click("#list tbody a >> nth=1")
    page.wait_for_selector("#turn-2")
    page.select_option("#tokens", "logprob")
    page.wait_for_selector("#turn-1 .token")
    page.click("#side")
    page.wait_for_selector(".side >> nth=1")
    assert {url.partition("#")[0] for url in requests} == {out.as_uri()}


def test_a_run_that_crashed_at_its_start_says_why(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        folder.end(Ending(How.CRASHED, f"ValueError: no such model {HOSTILE}"))
    page.goto(serve(folder.path).url)
    page.wait_for_selector('.ended[data-state="crashed"]')
    card = page.inner_text('[data-run="run"]')
    assert "ValueError: no such model <script>" in card
    assert "training.log" in card
    assert texts(page, "#runs small.bad") == ["crashed"]


def test_no_name_is_in_two_modules_of_the_page() -> None:
    # they are concatenated: a second function of one name would silently take the place of the first
    declared = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
    names = [name for module in MODULES for name in declared.findall((PAGE / f"{module}.js").read_text())]
    assert [name for name, count in Counter(names).items() if count > 1] == []
