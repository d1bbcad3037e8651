"""Answers compared with the truth by every matcher, and what counts as the answer of an episode."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rewards.episodes import QUOTE, did, episode, garbled, said
from turnwise.rewards.answer import answer_text, matches, normalise, says_answer
from turnwise.rewards.numbers import MAX_CHARS
from turnwise.types import Answer, Matcher, Parsed, Stop, Task, ToolCall, Truth

Texts = tuple[str, ...]


@pytest.mark.parametrize(
    ("matcher", "value", "texts"),
    [
        (Matcher.EXACT, "Tim Cook", (" Tim Cook\n", "I looked it up.\nAnswer: Tim Cook")),
        (Matcher.NORMALISED, "Tim Cook", ("tim  cook.", "**Answer:** Tim Cook")),
        (Matcher.NORMALISED, "1,234 shares", ("1234 Shares!",)),
        (Matcher.NORMALISED, "O'Reilly, Inc.", ("OREILLY INC",)),
        (Matcher.NORMALISED, "ﬁnance", ("Finance",)),
        (Matcher.NORMALISED, "mid-cap", ("Mid cap",)),
        (Matcher.NORMALISED, "-5.2%", ("−5.2%",)),
        (Matcher.ONE_OF, ["NYSE", "New York Stock Exchange"], ("new york stock exchange",)),
        (Matcher.REGEX, r"[A-Z]{4}", ("AAPL", "The final answer is AAPL")),
        (Matcher.JSON_SUBSET, {"a": 1}, ('{"a": 1.0, "b": 2}', '```python\nx\n```\n```json\n{"a": 1}\n```')),
        (Matcher.JSON_SUBSET, {"a": {"b": "x"}}, ('Here:\n```json\n{"a": {"b": " x "}}\n```\nDone.',)),
        (Matcher.JSON_SUBSET, {"a": [1, 2]}, ('The result is {"a": [1, 2]}.',)),
        (Matcher.JSON_SUBSET, [1, {"a": None}], ('[1, {"a": null, "b": 1}]',)),
    ],
)
def test_a_right_answer_matches(matcher: Matcher, value: Any, texts: Texts) -> None:
    assert [text for text in texts if not matches(Answer(value, matcher), text)] == []


HEDGED_NAMES = (
    *("The CEO is Tim Cook, or Satya Nadella", "Tim Cook Jr", "Answer: Tim Cook\nAnswer: Satya Nadella"),
    *("Answer: Satya Nadella\nAnswer: Tim Cook", "Answer: Tim Cook\nor perhaps not"),
)
WRONG_OBJECTS = (
    *('{"a": 2}', '{"a": true}', '{"a": "1"}', '{"a": 2, "a": 1}', '{"a": 2} {"a": 1}', '{"a": 1} {"a": 2}'),
    *('```json\n{"a": 2}\n```\n```json\n{"a": 1}\n```', '```json\n{"a": 2}\n```\n{"a": 1}', '[{"a": 1}]'),
    *("{'a': 1}", '{"a": 1', '{"a": NaN}', "[" * 10_000),
)


@pytest.mark.parametrize(
    ("matcher", "value", "texts"),
    [
        (Matcher.EXACT, "Tim Cook", ("tim cook",)),
        (Matcher.EXACT, "", ("",)),
        (Matcher.NORMALISED, "Tim Cook", HEDGED_NAMES),
        (Matcher.NORMALISED, "5", ("-5", "(-5)")),
        (Matcher.NORMALISED, "1.5", ("15",)),
        (Matcher.NORMALISED, "5%", ("5",)),
        (Matcher.NORMALISED, "$5", ("5",)),
        (Matcher.NORMALISED, "?", ("!",)),
        (Matcher.NORMALISED, "C++", ("C",)),
        (Matcher.ONE_OF, ["yes", "no"], ("yes no", "yes\nno")),
        (Matcher.REGEX, r"[A-Z]{4}", ("AAPL MSFT", "AAPL" * 1000)),
        (Matcher.JSON_SUBSET, {"a": 1}, WRONG_OBJECTS),
        (Matcher.JSON_SUBSET, {"a": [1]}, ('{"a": [0, 1, 2]}', '{"a": [1, 2]}')),
        (Matcher.JSON_SUBSET, {"a": [1, 2]}, ('{"a": [1]}',)),
        (Matcher.JSON_SUBSET, {"a": 1.5}, ('{"a": 1' + "0" * 400 + "}",)),
        (Matcher.JSON_SUBSET, {"a": None}, ("{}",)),
    ],
)
def test_a_wrong_or_hedged_answer_does_not_match(matcher: Matcher, value: Any, texts: Texts) -> None:
    assert [text for text in texts if matches(Answer(value, matcher), text)] == []


@pytest.mark.parametrize(
    ("unit", "right", "wrong"),
    [
        ("$", ("$5", "5 dollars", "5", "5 dollars today"), ("5%", "€5", "HK$5", "5 cents", "5% or $5")),
        ("USD", ("$5",), ("€5",)),
        ("%", ("5%",), ("5 percentage points", "5 bps")),
        ("shares", ("5 shares", "5 share", "5"), ("$5",)),
        ("widgets", ("5 widgets.", "5 widgets are left"), ("They have 5 gadgets.",)),
        ("", ("$5", "5 gadgets"), ()),
    ],
)
def test_a_number_may_have_its_own_unit_and_no_other(unit: str, right: Texts, wrong: Texts) -> None:
    truth = Answer(5, Matcher.NUMERIC, unit=unit)
    assert [text for text in right if not matches(truth, text)] == []
    assert [text for text in wrong if matches(truth, text)] == []


def test_a_number_is_right_within_its_tolerance() -> None:
    price = Answer(182.31, Matcher.NUMERIC, tolerance=0.0001)
    assert matches(price, "182.32")
    assert not matches(price, "182.34")
    assert not matches(price, "-182.31")
    assert matches(Answer(-5.2, Matcher.NUMERIC), "(5.2)")
    assert not matches(Answer(-5.2, Matcher.NUMERIC), "It fell 5.2")
    assert matches(Answer(0, Matcher.NUMERIC), "0")


@pytest.mark.parametrize("value", [1998, 0, -40, 12_345_678_901_234_567, 10**400])
def test_an_integer_must_be_stated_exactly_unless_a_tolerance_is_given(value: int) -> None:
    truth = Task(prompt="?", answer=value).truth.answer
    assert truth is not None
    assert matches(truth, f"Answer: {value:,}") is (abs(value) < 10**300)
    near = [value + off for off in (-19, -1, 1, 19)]
    assert [number for number in near if matches(truth, str(number))] == []
    assert matches(Answer(value, Matcher.NUMERIC, tolerance=0.01), str(value)) is (abs(value) < 10**300)
    assert matches(Answer(1998, Matcher.NUMERIC, tolerance=0.01), "2017")
    assert matches(Answer(1998.5, Matcher.NUMERIC), "2017")


def test_whole_numbers_in_json_are_compared_exactly_and_fractions_up_to_rounding() -> None:
    assert not matches(Answer({"id": 10_000_000_001}, Matcher.JSON_SUBSET), '{"id": 10000000002}')
    assert matches(Answer({"id": 3}, Matcher.JSON_SUBSET), '{"id": 3.0}')
    assert matches(Answer({"sum": 0.3}, Matcher.JSON_SUBSET), '{"sum": 0.30000000000000004}')
    assert matches(Answer({"sum": 30}, Matcher.JSON_SUBSET), '{"sum": 29.999999999999996}')


@pytest.mark.parametrize(
    "truth",
    [
        *(Answer(value, Matcher.NUMERIC) for value in ("5", True, float("nan"))),
        *(Answer(5, Matcher.NUMERIC, tolerance=-1), Answer(5, Matcher.NUMERIC, unit="billion")),
        *(Answer("yes", Matcher.ONE_OF), Answer([], Matcher.ONE_OF), Answer("(", Matcher.REGEX), Answer(5)),
    ],
)
def test_a_truth_that_is_not_well_formed_is_an_error_and_not_a_zero(truth: Answer) -> None:
    with pytest.raises(ValueError, match="task 't1': answer"):
        says_answer(episode(Truth(answer=truth), said("5")))


def test_a_pattern_that_backtracks_does_not_hang() -> None:
    for pattern in (r"(a+)+b", r"(a|aa)+b", r"(.*a){25}b", r"(\w+\s?)*!x"):
        assert not matches(Answer(pattern, Matcher.REGEX), "a" * 1_990)


@given(st.text(max_size=60))
@settings(max_examples=120, deadline=None)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_an_answer_is_the_final_message_of_an_episode_that_the_model_ended() -> None:
    truth = Truth(answer=Answer("5"))
    assert answer_text(episode(truth, said(" 5 "))) == "5"
    assert answer_text(episode(truth, said("5"), stop=Stop.MAX_TURNS)) == ""
    assert answer_text(episode(truth, said("5"), stop=Stop.TRUNCATED)) == ""
    assert answer_text(episode(truth, did(QUOTE, "5"))) == ""
    still_calling = Parsed(text="5", calls=(ToolCall("0", QUOTE, {}),))
    assert answer_text(episode(truth, replace(said("5"), parsed=still_calling))) == ""
    assert answer_text(episode(truth, garbled(text="5"))) == ""
    assert answer_text(episode(truth)) == ""


MARKUP = ("<tool_response>5</tool_response>", "<think>5</think>", "</think>5", "5 <tool_call>", "<|im_end|>5")


@pytest.mark.parametrize("text", MARKUP)
def test_a_message_with_template_markup_is_no_answer(text: str) -> None:
    assert not says_answer(episode(Truth(answer=Answer(5, Matcher.NUMERIC)), said(text)))


def test_a_message_that_is_too_long_is_no_answer() -> None:
    assert not matches(Answer("a", Matcher.EXACT), "a" * (MAX_CHARS + 1))
    assert not matches(Answer(5, Matcher.NUMERIC), "5 " * MAX_CHARS)


def test_a_number_of_the_question_may_stand_with_the_answer() -> None:
    truth = Truth(answer=Answer(182.31, Matcher.NUMERIC))
    played = episode(truth, said("Over 5 days it was 182.31"), prompt="The average of 5 days?")
    assert says_answer(played)
