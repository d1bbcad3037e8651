"""Which number a message states, in which unit, and when it states none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.rewards.numbers import MAX_CHARS, is_close, stated_number

STATED: dict[float, tuple[str, ...]] = {
    1234.5: ("The price is $1,234.50.", "1234.5"),
    1234567: ("**1,234,567**",),
    -5.2: ("-5.2%", "−5.2 %", "–5.2%"),
    -5: ("-$5", "$-5", "minus 5", "negative $5"),
    -1234.5: ("(1,234.50)", "($1,234.50)"),
    -12: ("Net income was $(12).",),
    5: ("+5",),
    0.5: (".5",),
    1.2e9: ("$1.2 billion", "1.2 billion dollars", "$1.2B"),
    340e6: ("about 340 million",),
    5.5e9: ("5.5bn",),
    12e3: ("12k",),
    12e6: ("12 M",),
    1.5e6: ("1.5e6",),
    182.31: (
        *("USD 182.31", "US$182.31", "\\boxed{182.31}", "`182.31`", "１８２.３１", "- 182.31", "1. 182.31"),
        "On 2024-06-14 AAPL closed at $182.31.",
        "On June 14, 2024 at 16:00 it was 182.31",
        "On 14 June it was 182.31",
    ),
    199.62: ("The 52-week high in Q3 was 199.62.",),
    5000: ("Its 10-K says 5,000 employees",),
    42: ("It is 42. Yes, 42!",),
    4.35e6: ("4.35 million, or 4,350,000",),
    105: ("100 + 5 = 105\nAnswer: 105",),
    2: ("open 1, close 2\nThe final answer is 2.",),
    4: ("Prices were 3, 4 and 5.\n\n4",),
}


@pytest.mark.parametrize(("value", "text"), [(value, text) for value in STATED for text in STATED[value]])
def test_a_clear_message_states_its_number(value: float, text: str) -> None:
    stated = stated_number(text)
    assert stated is not None
    assert stated.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        *("", "no idea", "181, 182 and 183", "181 182 183", "181\n182\n183", "- 181\n- 182\n- 183"),
        *("1. 181\n2. 182", "Answer: 181\nAnswer: 182", "Answer: 181 or 182", "181 or Answer: 182"),
        *("181-183", "181–183", "between 181 and 183", "182 ± 50", "181/182", "1.234,56", "1,23", "10²"),
        *("5½", "3rd", "2024-06-14", "٤٢", "1" * (MAX_CHARS + 1)),
    ],
)
def test_a_message_that_hedges_or_says_nothing_states_no_number(text: str) -> None:
    assert stated_number(text) is None


def test_the_last_line_counts_after_a_calculation_but_not_after_other_bare_claims() -> None:
    assert stated_number("close 180, change 2\n180 + 2\nResult: 182") is not None
    assert stated_number("180\nso 180 + 2\n182") is None


def test_numbers_of_the_question_may_be_repeated_with_the_answer() -> None:
    question = "Average close of the last 5 days, in 2024?"
    stated = stated_number("Over 5 days in 2024 it was 182.31", given=question)
    assert stated is not None
    assert stated.value == 182.31
    assert stated_number("Over 5 days in 2024 it was 182.31") is None
    assert stated_number("It was 182.31 or 182.32", given=question) is None
    # Naming only the question's own numbers commits to none of them.
    assert stated_number("5 or 7", given="Is it 5 or 7?") is None


@pytest.mark.parametrize(
    ("text", "units"),
    [
        *(("$5", {"$"}), ("5 dollars", {"$"}), ("5 USD", {"$"}), ("5%", {"%"}), ("5 percent", {"%"})),
        *(("5 percentage points", {"percentage point"}), ("5 bps", {"basis point"}), ("€5", {"€"})),
        *(("HK$5", {"hk$"}), ("50 cents", {"cent"}), ("5 million shares", {"share"}), ("25x", {"x"})),
        *(("5% or $5", {"%", "$"}), ("5", set())),
    ],
)
def test_every_unit_of_a_number_is_seen(text: str, units: set[str]) -> None:
    stated = stated_number(text)
    assert stated is not None
    assert stated.units == units


def test_tolerance_is_a_share_above_one_and_absolute_within_it() -> None:
    assert is_close(101, 100, 0.01)
    assert not is_close(101.1, 100, 0.01)
    assert is_close(0.31, 0.3, 0.01)
    assert not is_close(0.32, 0.3, 0.01)
    assert is_close(-101, -100, 0.01)
    assert not is_close(100, -100, 0.01)
    assert not is_close(float("inf"), 1e300, 1.0)
    assert not is_close(1_000_000_000_000, 1_000_000_000_001, 0.0)


def test_large_numbers_are_read_to_the_last_digit() -> None:
    stated = stated_number("It is 12,345,678,901,234,567.")
    assert stated is not None
    assert stated.value == 12_345_678_901_234_567
    assert stated_number("12345678901234567 or 12345678901234568") is None
    assert stated_number("4.35 million, so 4,350,000") is not None


@given(
    st.floats(-1e12, 1e12).map(lambda value: round(value, 2)), st.sampled_from(["{:,.2f}", "{:.2f}", "{}"])
)
@settings(max_examples=60, deadline=None)
def test_a_number_is_read_back_however_it_is_written(value: float, form: str) -> None:
    stated = stated_number(f"It is {form.format(value)}.")
    assert stated is not None
    assert stated.value == pytest.approx(value, rel=1e-9)


@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=8, unique=True),
    st.sampled_from([" ", "\n", " or ", "; "]),
)
@settings(max_examples=60, deadline=None)
def test_a_list_of_different_numbers_never_states_one(numbers: list[int], joint: str) -> None:
    assert stated_number(joint.join(map(str, numbers))) is None
