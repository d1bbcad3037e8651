"""One episode explains itself: malformed turns, results, refused arguments and the colours of tokens."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
    episode,
    malformed,
    new_run,
    play_step,
    result,
    task,
    trace_step,
    turn,
)
from tests.dashboard.serving import Serve, look, texts
from turnwise.dashboard.views.malformed import place_of
from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments
from turnwise.models.chat import hermes
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Cause, Reward, Turn

FAILED = Reward(0.0, {"outcome": 0.0})


def show(
    page: Any, serve: Serve, root: Path, *turns: Turn, model: str = "embedded", **settings: object
) -> None:
    with new_run(root, model=model) as folder:
        play_step(folder, 0, [StoredEpisode(episode(task("a"), turns), FAILED)])
        trace_step(folder, 0, ["a/0.0"])
    look(page, serve(folder.path), "trajectory", id=1, **settings)


BROKEN = {
    'I call.\n<tool_call>{"name": "quote", "arguments": {"symbol": "ACE" "limit": 3}}</tool_call>': '"limit"',
    '<tool_call>{"name": "quote", "arguments": {}} and more</tool_call>': "and",
    '<tool_call>{"name": "quote", "arguments": {}}': "<tool_call>",
    '<tool_call>{"name": "quote", "arguments": 5}</tool_call>': '"arguments": 5',
    "It was <tool_response>51.9</tool_response>": "<tool_response>51.9",
    "<think>I wonder": "<think>",
    '<think><tool_call>{"name": "a", "arguments": {}}</tool_call></think>': "<tool_call>",
    "x</tool_call>": "</tool_call>",
    "<tool_call>5</tool_call>": "<tool_call>5",
    "": "",
}
"""By completion: what stands at the place of the parser's complaint."""


@pytest.mark.parametrize("written", BROKEN)
def test_the_place_of_the_parsers_complaint_is_found(written: str) -> None:
    error = hermes.read_turn(written).error
    assert error is not None
    place = place_of(written, error.kind)
    assert (place is None) == (written == "")
    assert place is None or written[place:].startswith(BROKEN[written])


@pytest.mark.parametrize("text", ["", "<tool_call>" + "[" * 100_000, "<tool_call>" + "9" * 10_000, HOSTILE])
def test_any_text_has_a_place_or_none(text: str) -> None:
    for kind in ("bad_json", "unclosed", "truncated", "faked_response", "bad_call", "no such kind"):
        assert (place_of(text, kind) or 0) <= len(text)


def test_a_malformed_turn_shows_what_was_written_and_where_it_is_wrong(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    written = next(iter(BROKEN))
    show(page, serve, tmp_path, malformed(written))
    assert page.inner_text("#turn-1 pre.written") == written
    assert page.inner_text("#turn-1 mark") == '"'
    assert "not valid JSON: expecting ',' delimiter" in page.inner_text("#turn-1 .fault")
    place = written.index('"limit"') - written.index("<tool_call>") + 1
    assert f"the complaint is about line 2, character {place}:" in page.inner_text("#turn-1")


def test_without_a_tokenizer_a_malformed_turn_says_why_its_text_is_missing(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    show(page, serve, tmp_path, malformed("x</tool_call>"), model="nowhere")
    assert "tokenizer is not on this machine" in page.inner_text("#turn-1 .malformed")


ROWS = [{"id": 12345678901234567890 + number, "item": f"item {number}"} for number in range(57)]
RESULT = json.dumps({"orders": ROWS, "price": 51.90, "page": {"next": None, "of": [1, 2]}}).replace(
    "51.9", "51.90"
)


def test_a_json_result_is_a_tree_and_its_rows_a_table(page: Any, serve: Serve, tmp_path: Path) -> None:
    show(page, serve, tmp_path, turn(0, calls=[("quote", {}, result(RESULT))]))
    assert texts(page, ".rows-of th") == ["id", "item"]
    assert texts(page, ".rows-of tbody tr >> nth=3 >> td") == ["12345678901234567893", '"item 3"'], "exactly"
    assert page.locator(".rows-of tbody tr").count() == 20
    page.click("text=show all 57 rows")
    assert page.locator(".rows-of tbody tr").count() == 57
    assert "price: 51.90" in page.inner_text(".json")
    page.click("summary:has-text('page')")
    assert "next: null" not in page.inner_text(".json")
    page.click("button.raw")
    assert page.inner_text("pre.result").startswith('{"orders": [{"id": 123')
    assert not page.is_visible(".json")


NOT_DRAWN = [
    *("[" * 50_000, '{"a": 1', '{"a": 1} x', "[1,]", "{'a': 1}", '{"a":' * 40 + "1" + "}" * 40),
    json.dumps({"k": "x" * 300_000}),
]


def test_a_result_that_is_no_json_or_too_large_is_shown_as_it_is(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    calls = [("quote", {}, result(content)) for content in NOT_DRAWN]
    show(page, serve, tmp_path, turn(0, calls=calls))
    assert [words[:100] for words in texts(page, "pre.result")] == [words[:100] for words in NOT_DRAWN]


def test_hostile_json_is_drawn_as_text(page: Any, serve: Serve, tmp_path: Path) -> None:
    rows = [{HOSTILE: HOSTILE, "__proto__": 1}, {HOSTILE: "x" * 5_000}]
    content = json.dumps({HOSTILE: rows, "constructor": {HOSTILE: []}, "many": list(range(99))})
    show(page, serve, tmp_path, turn(0, calls=[("quote", {}, result(content))]))
    words = page.inner_text(".json")
    assert "<script>window.broken = 1</script>" in words
    assert "show all 5,002 characters" in words
    assert "show all 99 entries" in words
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
    found = [texts(page, f"#turn-{number} mark") for number in range(1, len(REFUSED) + 1)]
    assert found == list(REFUSED.values())


def test_token_colours_have_a_scale_with_numbers(page: Any, serve: Serve, tmp_path: Path) -> None:
    show(page, serve, tmp_path, turn(0, "a"), turn(1, "b"), tokens="logprob")
    assert texts(page, "#scale .swatch")[:4] == ["0", "−0.5", "−1", "−1.5"]
    colours = "(all) => all.map((one) => getComputedStyle(one).backgroundColor)"
    scale = page.eval_on_selector_all("#scale .swatch", colours)
    assert page.eval_on_selector_all("#turn-1 .token", colours) == [scale[0], scale[1], scale[3], scale[8]]
    page.select_option("#tokens", "ratio")
    page.wait_for_selector("#scale:has-text('ratio')")
    assert texts(page, "#scale .swatch") == [
        "< 0.84",
        "0.84 to 0.95",
        "0.95 to 1",
        "1 to 1.05",
        "1.05 to 1.2",
        "> 1.2",
    ]
    scale = page.eval_on_selector_all("#scale .swatch", colours)
    assert page.eval_on_selector_all("#turn-1 .token", colours)[1:3] == [scale[5], scale[0]], "1.3 and 0.5"
