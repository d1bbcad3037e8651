"""Reading episodes in a real browser: filters, search, groups, turns, results, refusals and tokens."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
    Row,
    episode,
    good,
    malformed,
    new_run,
    play_step,
    played,
    result,
    task,
    trace_step,
    turn,
)
from tests.dashboard.serving import Serve, Served, heading, look, texts, wait_for_texts
from turnwise.dashboard.command import open_runs, write_export
from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Answer, Cause, FollowUp, Matcher, Reward, StateProbe, Stop, Truth, Turn

FAILED = Reward(0.0, {"outcome": 0.0})


def calls(row: Row) -> list[str]:
    return [call["name"] for turn in row["trajectory"]["turns"] for call in turn["parsed"]["calls"]]


def has_cause(row: Row, cause: str) -> bool:
    turns = row["trajectory"]["turns"]
    return any(result["cause"] == cause for turn in turns for result in turn["results"])


def words(row: Row) -> list[str]:
    return [turn["parsed"]["text"] for turn in row["trajectory"]["turns"]]


def steps_done(row: Row) -> int:
    done = {"before": 0, "step-000002": 2, "after": 4}
    return int(row["step"]) if row["source"] == "train" else done[row["source"]]


FILTERS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "source": ("step-000002", lambda row: row["source"] == "step-000002"),
    "first": ("2", lambda row: steps_done(row) >= 2),
    "last": ("1", lambda row: steps_done(row) <= 1),
    "task": ("AC", lambda row: "ac" in row["trajectory"]["task"]["id"]),
    "family": ("sums", lambda row: row["trajectory"]["task"]["family"] == "sums"),
    "difficulty": ("hard", lambda row: row["trajectory"]["task"]["difficulty"] == "hard"),
    "low": ("0.25", lambda row: row["reward"]["total"] >= 0.25),
    "high": ("0.5", lambda row: row["reward"]["total"] <= 0.5),
    "success": ("0", lambda row: row["reward"]["parts"]["outcome"] < 1),
    "stop": ("max_turns", lambda row: row["trajectory"]["stop"] == "max_turns"),
    "fault": ("model", lambda row: has_cause(row, "tool_error")),
    "tool": ("send", lambda row: "send" in calls(row)),
    "error": ("timeout", lambda row: has_cause(row, "timeout")),
    "check": ("ending", lambda row: row["trajectory"]["stop"] == "max_turns"),
    "search": ("I do_not know", lambda row: "I do not know" in words(row)),
}
"""By the name of the field: a value, and whether an episode of the files passes the filter."""


def test_every_filter_leaves_the_tries_that_fit_and_is_a_pill_while_in_use(page: Any, served: Served) -> None:
    rows = played(served.run)
    look(page, served, "trajectories", list="tries")
    for name, (value, fits) in FILTERS.items():
        wanted = sorted(row["trajectory"]["task"]["id"] for row in rows if fits(row))
        assert 0 < len(wanted) < len(rows)
        if name != "search":
            page.click("#more-filters summary")
        field = page.locator(f"#filter-{name}")
        if field.evaluate("(field) => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
            field.press("Enter")
        page.wait_for_selector(f"#total:text-is('{len(wanted)}')")
        assert sorted(texts(page, "#list tbody a.to")) == wanted, name
        if name == "search":
            page.fill("#filter-search", "")
            page.click(".seg button:text-is('tries')")
        else:
            page.click(".pill.on")
        page.wait_for_selector(f"#total:text-is('{len(rows)}')")


def test_groups_are_listed_with_their_tries_and_filtered_by_kind_and_step(page: Any, served: Served) -> None:
    look(page, served, "trajectories", source="train")
    assert heading(page) == "In training so far 40% of the groups could teach something."
    row = page.inner_text("#list tr:has-text('ace') >> nth=0")
    for said in ("What does ace cost?", "step 3 · quotes, easy", "1 of 2", "51.9", "I do not know"):
        assert said in row
    page.click(".seg button:text-is('divided')")
    wait_for_texts(page, "#list tbody a.to", ["What does ace cost?"] * 4)
    page.locator(".bar-of-step[data-step='1']").dispatch_event("click")
    wait_for_texts(page, "#list tbody a.to", ["What does ace cost?"])
    assert [words for words in texts(page, ".pill.on") if "step" in words] == ["step 1 ×"]


def sorted_run(root: Path) -> Path:
    wrong = turn(0, calls=[("quote", {}, result())]), turn(1, "It is 187.48.")
    truth = Truth(answer=Answer(185.48, Matcher.NUMERIC, 0.001), writes=(), required_tools=("quote",))
    with new_run(root) as folder:
        silent = StoredEpisode(episode(task("b"), [turn(0, "")], stop=Stop.MAX_TURNS), FAILED)
        missed = StoredEpisode(episode(replace(task("sum"), truth=truth), wrong), FAILED)
        play_step(folder, 0, [silent, good(task("C")), missed, good(task("z"))])
    return folder.path


HEADS = {
    "task": ["b", "C", "sum", "z"],
    "answer": ["C", "z", "sum", "b"],
    "failed": ["sum", "b", "C", "z"],
    "calls": ["C", "sum", "z", "b"],
}
"""By column: the tasks in the order of the first click. Ties are in the order of the file."""


@pytest.mark.parametrize("is_exported", [False, True])
def test_the_list_of_tries_sorts_by_its_heads(
    page: Any, serve: Serve, tmp_path: Path, is_exported: bool
) -> None:
    run = sorted_run(tmp_path)
    root = f"file://{tmp_path}/report.html"
    if is_exported:
        write_export(open_runs([run], tmp_path / "cache"), tmp_path / "report.html")
    page.goto(f"{root if is_exported else serve(run).url}#/trajectories?list=tries")
    page.wait_for_selector("#list")
    for head, wanted in HEADS.items():
        page.click(f"#sort-{head}")
        page.wait_for_selector(f"th[aria-sort] #sort-{head}")
        assert texts(page, "#list tbody a.to") == wanted, head
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort='ascending'] #sort-calls")
    assert page.evaluate("document.activeElement.id") == "sort-calls"


@pytest.mark.parametrize("is_exported", [False, True])
def test_words_in_a_result_lead_to_their_turn(
    page: Any, serve: Serve, run: Path, tmp_path: Path, is_exported: bool
) -> None:
    if is_exported:
        write_export(open_runs([run], tmp_path / "cache"), tmp_path / "report.html")
    page.goto(f"file://{tmp_path}/report.html#/overview" if is_exported else f"{serve(run).url}#/overview")
    page.wait_for_selector("main[data-view='overview']")
    page.keyboard.press("/")
    page.wait_for_selector("#filter-search:focus")
    page.keyboard.type('"no such symbol"')
    page.wait_for_selector("#list mark")
    assert "tool result, turn 1" in page.inner_text("#list tbody tr >> nth=0")
    page.click("#list .place >> nth=0")
    page.wait_for_selector("#turn-1.at:has-text('no such symbol')")


ASKED = replace(
    task("sum"),
    truth=Truth(answer=Answer(185.48, Matcher.NUMERIC, 0.001), writes=(), required_tools=("quote",)),
)
ANSWERS = (
    "It is 9.",
    "It is 185.48.",
    "The total: 9.0",
    "It is 185.48.",
    "9",
    HOSTILE,
    "It is 185.48.",
    "It is 9.",
)


def member(number: int) -> StoredEpisode:
    """All members look up ACE; those with an odd number then BEE."""
    turns = [turn(0, "I look.", [("quote", {"symbol": "ACE"}, result())])]
    if number % 2:
        turns.append(turn(1, calls=[("quote", {"symbol": "BEE"}, result("7"))]))
    turns.append(turn(2, ANSWERS[number]))
    is_right = "185.48" in ANSWERS[number]
    reward = Reward(float(is_right), {"outcome": float(is_right)})
    return StoredEpisode(episode(ASKED, turns, member=number), reward)


@pytest.fixture(params=["live", "exported"])
def root(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> str:
    """The address of a page with one group of eight."""
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [member(number) for number in range(8)])
        trace_step(folder, 0, ["sum/0.0"])
    if request.param == "live":
        return serve(folder.path).url
    write_export(open_runs([folder.path], tmp_path / "cache"), tmp_path / "report.html")
    return f"file://{tmp_path}/report.html"


def test_a_groups_cells_span_the_tries_that_did_the_same(page: Any, root: str) -> None:
    page.goto(f"{root}#/trajectory?id=1&group=1")
    page.wait_for_selector("#matrix tbody tr")
    assert heading(page) == "3 of 8 tries succeeded. They part in turn 2."
    assert page.locator("#matrix td.act[rowspan='8']").count() == 1, "the first turn of all"
    assert page.get_attribute("#matrix td:has-text('BEE')", "rowspan") == "4"
    assert page.inner_text("#matrix td.act >> nth=0").startswith("8 tries")
    heads = [words.partition(" · ")[0] for words in texts(page, "#matrix th")]
    assert heads == [
        "turn 1",
        "turn 2",
        "turn 3",
        "said",
        "answer",
        "tools",
        "writes",
        "reward",
        "credit",
        "turns",
        "tokens",
    ]
    row = texts(page, "#matrix [data-member='2'] td")
    assert row[-7:] == ["✓\nholds", "✓\nholds", "✓\nholds", "1", "+0.625", "3", "12"]
    assert texts(page, "#matrix [data-member='1'] td")[-3] == "+0.5", "the credit that the update used"
    assert "diff" in page.inner_html("#matrix td.act:has-text('It is 9.')"), "what differs from a success"
    for link, target in {
        "#matrix [data-member='2'] td.end a.to": "#turn-3",
        "#matrix td:has-text('BEE') a.n": "#turn-2.at",
        "#matrix [data-member='2'] td:nth-last-child(3) a": "#turn-1 .tok",
    }.items():
        page.goto(f"{root}#/trajectory?id=1&group=1")
        page.click(link)
        page.wait_for_selector(target)
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"{root}#/trajectory?id=1&group=1")
    page.wait_for_selector(".branch")
    assert page.locator("section.phone .tag.ok").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_tries_that_do_the_same_are_one_row_of_cells_and_sixteen_are_shown(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path) as folder:
        one = member(0)
        play_step(
            folder,
            0,
            [replace(one, trajectory=replace(one.trajectory, episode_id=str(n))) for n in range(18)],
        )
    look(page, serve(folder.path), "trajectory", id=1, group=1)
    assert heading(page) == "0 of 16 tries succeeded. All did the same."
    assert "16 of its 18 tries are shown." in page.inner_text("#answer")
    assert page.locator("#matrix td.act").count() == 2


def test_j_and_k_step_through_the_tries_in_place(page: Any, root: str) -> None:
    page.goto(f"{root}#/trajectory?id=1")
    page.wait_for_selector("#tokens-1 summary")
    page.click("#tokens-1 summary")
    page.wait_for_selector("#turn-1 .tok")
    page.evaluate("window.scrollTo(0, 10)")
    page.keyboard.press("j")
    page.wait_for_selector(".eyebrow:has-text('try 2 of 8')")
    assert page.evaluate("[scrollY, document.getElementById('tokens-1').open]") == [10, True]
    page.keyboard.press("k")
    page.wait_for_selector(".eyebrow:has-text('try 1 of 8')")
    page.click("#side")
    page.wait_for_selector("#matrix, .branch")


def test_a_conversation_has_a_verdict_for_each_message_everywhere(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    follow_up = FollowUp(f"And yesterday? {HOSTILE}", Truth(answer=Answer("50.1")))
    asked = replace(task("talk"), conversation=(follow_up, FollowUp("Thanks.", follow_up.truth)))
    turns = [turn(0, "51.9"), replace(turn(1, "I do not know"), user=follow_up.message, message=1)]
    told = replace(episode(asked, turns, stop=Stop.MAX_TURNS), endings=(Stop.ANSWERED,))
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [StoredEpisode(told, FAILED)])
    served = serve(folder.path)
    look(page, served, "trajectories", list="tries")
    assert page.inner_text("#list .messages").split() == ["1✓", "2✗", "3✗"]
    page.click("#list a.to")
    page.wait_for_selector("#verdicts")
    assert heading(page) == "✗ Wrong: 1 of 3 messages as asked."
    first, second, third = texts(page, "#verdicts li")
    assert first == "message 1: expected 51.9, said 51.9: answer ✓"
    assert second.startswith("message 2: expected 50.1, no answer: ending ✗, answer ✗")
    assert third == "message 3: expected 50.1, no answer: sent ✗"
    said = page.inner_text(".talk")
    assert said.index("51.9") < said.index("And yesterday? <script>") < said.index("I do not know")
    assert "1 of 3 as asked" in page.inner_text("#messages")
    page.click("#side")
    page.wait_for_selector("#matrix")
    assert texts(page, "#matrix th")[3:6] == ["message 1", "message 2", "message 3"]


def test_numbers_that_stand_in_no_earlier_text_are_marked_and_values_used_later_underlined(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    found = result('{"price": 263.51, "volume": 58120}')
    turns = [
        turn(0, calls=[("quote", {"symbol": "ACE", "day": 20261119}, found)]),
        turn(1, "263.51 and 777.25"),
    ]
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [StoredEpisode(episode(task("ace"), turns), FAILED)])
    look(page, serve(folder.path), "trajectory", id=1)
    assert texts(page, "mark.invented") == ["20261119", "777.25"]
    assert "In turn 1 it wrote 20261119, a number that stands in no earlier text." in page.inner_text(
        "#answer"
    )
    assert texts(page, ".leaf.used") == ["263.51"]


def show(
    page: Any, serve: Serve, root: Path, *turns: Turn, model: str = "embedded", **settings: object
) -> None:
    with new_run(root, model=model) as folder:
        play_step(folder, 0, [StoredEpisode(episode(task("a"), turns), FAILED)])
        trace_step(folder, 0, ["a/0.0"])
    look(page, serve(folder.path), "trajectory", id=1, **settings)


def test_a_malformed_turn_shows_what_was_written_and_where_it_is_wrong(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    written = 'I call.\n<tool_call>{"name": "quote", "arguments": {"symbol": "ACE" "limit": 3}}</tool_call>'
    show(page, serve, tmp_path, malformed(written), malformed("x</tool_call>"))
    assert page.inner_text("#turn-1 pre.written") == written
    assert page.inner_text("#turn-1 mark.wrong") == '"'
    place = written.index('"limit"') - written.index("<tool_call>") + 1
    assert f"the complaint is about line 2, character {place}:" in page.inner_text("#turn-1")
    assert "not a call, the model's fault" in page.inner_text("#turn-1")
    assert "In turn 1 a call could not be read (bad json): the model's fault." in page.inner_text("#answer")


def test_without_a_tokenizer_ids_stand_for_tokens(page: Any, serve: Serve, tmp_path: Path) -> None:
    show(page, serve, tmp_path, malformed("x</tool_call>"), model="nowhere", tokens="surprise")
    assert "tokenizer is not on this machine" in page.inner_text("#turn-1 .malformed")
    assert "ids stand for tokens" in page.inner_text("#chooser")


ROWS = [{"id": 12345678901234567890 + number, "item": f"item {number}"} for number in range(57)]
RESULT = json.dumps({"orders": ROWS, "price": 51.90, "page": {"next": None, "of": [1, 2]}}).replace(
    "51.9", "51.90"
)
NOT_DRAWN = ["[" * 50_000, '{"a": 1', "[1,]", '{"a":' * 40 + "1" + "}" * 40, json.dumps({"k": "x" * 300_000})]


def test_json_is_a_tree_its_rows_a_table_and_every_digit_stays(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    hostile = json.dumps(
        {HOSTILE: [{HOSTILE: HOSTILE, "__proto__": 1}, {HOSTILE: "x" * 5_000}], "many": list(range(99))}
    )
    contents = [RESULT, hostile, *NOT_DRAWN, '{"price": 12345678901234567890, "price": 51.90}']
    show(page, serve, tmp_path, turn(0, calls=[("quote", {}, result(content)) for content in contents]))
    assert texts(page, ".rows-of tbody tr >> nth=3 >> td") == ["12345678901234567893", '"item 3"'], "exactly"
    page.click("text=show all 57 rows")
    assert page.locator(".rows-of >> nth=0 >> tbody tr").count() == 57
    assert "price: 51.90" in page.inner_text(".json")
    page.click("button.raw >> nth=0")
    assert page.inner_text("pre.result >> nth=0").startswith('{"orders": [{"id": 123')
    shown = [words[:60] for words in texts(page, "pre.result")]
    assert [words[:60] for words in NOT_DRAWN] == shown[2:], "shown as it is"
    assert texts(page, ".kv .leaf") == ["12345678901234567890", "51.90"], "a key that is given twice, twice"
    assert page.query_selector("main script, main img") is None


SCHEMA = {
    "type": "object",
    "properties": {
        "symbol": {"type": "string"},
        "page": {"type": "object", "properties": {"size": {"type": "integer"}}},
    },
    "required": ["symbol"],
    "additionalProperties": False,
}
REFUSED = {
    '{"symbol": 5, "page": {}}': ['"symbol": 5', "symbol"],
    '{"symbol": "ACE", "page": {"size": "ten"}}': ['"size": "ten"', "size"],
    '{"symbl": "ACE", "other": 1}': ['"symbl": "ACE"', '"other": 1', "symbl", "other"],
    "{}": [],
}
"""By arguments: what is marked in them and in the error, in this order."""


def refusal(arguments: str) -> Turn:
    with pytest.raises(BadArguments) as raised:
        ArgumentChecker("quote", SCHEMA, may_guess=False).check(json.loads(arguments))
    refused = result(f"error: {raised.value}", Cause.BAD_ARGUMENTS)
    return turn(0, calls=[("quote", json.loads(arguments), refused)])


def test_refused_arguments_are_marked_where_the_error_names_them(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    show(page, serve, tmp_path, *map(refusal, REFUSED))
    found = [texts(page, f"#turn-{number} mark.wrong") for number in range(1, len(REFUSED) + 1)]
    assert found == list(REFUSED.values())


def test_tokens_are_coloured_by_push_credit_surprise_ratio_and_mask(page: Any, served: Served) -> None:
    [row] = served.ask("trajectories", task="ace", first=3, last=3, success=0)["rows"]
    look(page, served, "trajectory", id=row["id"], tokens="push")
    page.wait_for_selector("#turn-2 .tok")
    assert texts(page, "#tokens-1 summary span") == ["4 tokens · unsure at “%” and “$”"] or texts(
        page, "#tokens-1 summary span"
    )[0].startswith("4 tokens · unsure at")
    shades = "(all) => all.map((one) => one.className.replace('tok ', ''))"
    wanted = {
        "push": ["minus", "null stopped", "null stopped", "minus"],
        "credit": ["minus", "minus stopped", "minus stopped", "minus"],
        "surprise": ["surprise"] * 4,
        "ratio": ["null", "plus stopped", "minus stopped", "null"],
    }
    for mode, first in wanted.items():
        page.goto(f"{served.url}#/trajectory?run=run&id={row['id']}&tokens={mode}")
        page.wait_for_selector(f"#chooser [data-value='{mode}'][aria-pressed='true']")
        page.wait_for_timeout(200)
        assert page.eval_on_selector_all("#turn-1 .tok", shades) == first, mode
    assert "from 0.5 to 4; underlined: clipped or dropped, 3 of 8 tokens" in page.inner_text("#legend")
    page.goto(f"{served.url}#/trajectory?run=run&id={row['id']}&tokens=mask")  # an older address
    page.wait_for_selector("#turn-1 .tok.own")
    assert page.eval_on_selector_all("#turn-1 .tok", shades) == ["off"] * 5 + ["own"] * 4
    [other, _] = served.ask("trajectories", task="bee", source="train", first=3, last=3)["rows"]
    page.goto(f"{served.url}#/trajectory?run=run&id={other['id']}&tokens=ratio")
    page.wait_for_selector("#legend:has-text('not of this one')")  # why its ratios are missing


def test_episodes_without_verdict_turns_or_end_are_shown(page: Any, serve: Serve, tmp_path: Path) -> None:
    asked = replace(task("asked"), truth=Truth(probes=(StateProbe("quote", {}, "51.9"),)))
    with new_run(tmp_path) as folder:
        unjudged = StoredEpisode(episode(asked, [turn(0, "done")]), Reward(0.0, {"own:part": 0.0}))
        play_step(folder, 0, [unjudged])
        play_step(folder, 1, [StoredEpisode(episode(task("none"), []), FAILED)])
        given = replace(turn(0, calls=[("quote", {}, result())]), is_given=True)
        play_step(
            folder,
            2,
            [StoredEpisode(episode(task("inside"), [given, turn(1, "51.9")]), Reward(1.0, {"outcome": 1.0}))],
        )
    served = serve(folder.path)
    wanted = {
        "asked": "Not judged: its reward could not be computed.",
        "none": "✗ Wrong: no answer; it ended with answered.",
        "inside": "Started after 1 turn of the plan: no success of the task.",
    }
    for name, words in wanted.items():
        [row] = served.ask("trajectories", task=name)["rows"]
        page.goto("about:blank")
        look(page, served, "trajectory", id=row["id"])
        assert heading(page) == words
    assert "given from the task's plan" in page.inner_text("#turn-1")


def test_a_long_text_is_shown_in_part_and_a_long_episode_is_drawn_as_it_comes_near(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    turns = [
        turn(number, f"look {number}", [("quote", {"n": number}, result("x" * 2**16))])
        for number in range(64)
    ]
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [StoredEpisode(episode(task("long"), turns), FAILED)])
    served = serve(folder.path)
    look(page, served, "trajectory", id=1)
    assert page.locator("#turn-12").count() == 1
    assert page.locator("#turn-60").count() == 0
    assert len(page.inner_text("#turn-1 pre.result")) < 5_000
    page.click("#turn-1 .more >> nth=0")
    assert page.evaluate("document.querySelector('#turn-1 pre.result').textContent.length") == 2**16
    page.evaluate("window.scrollTo(0, 1e6)")
    page.wait_for_selector("#turn-64")
    page.goto("about:blank")
    look(page, served, "trajectory", id=1, turn=50)
    page.wait_for_selector("#turn-50.at")
    assert abs(page.locator("#turn-50").bounding_box()["y"]) < 400
