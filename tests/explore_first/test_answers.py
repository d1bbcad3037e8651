import random

import pytest

from tests.explore_first.sample_answers import CALLS
from turnwise.explore.first.answers import answer_of_value, is_fit_answer
from turnwise.explore.first.arithmetic import ARITHMETIC
from turnwise.explore.first.document import Scalar
from turnwise.explore.first.operations import OPERATIONS
from turnwise.explore.first.query import Form
from turnwise.rewards.answer import matches
from turnwise.types import Matcher


def test_the_demonstrated_text_states_the_answer_of_every_query() -> None:
    for _, _, document in CALLS:
        for operation in OPERATIONS.values():
            for query in operation(document, random.Random(1)):
                answer, text = answer_of_value(query.value, query.form)
                assert matches(answer, text), query.noun


@pytest.mark.parametrize(
    ("value", "form", "right", "wrong"),
    [
        (12, Form.NUMBER, "12", "13"),
        ("12.50", Form.NUMBER, "12.5", "12.6"),
        (1.0825, Form.NUMBER, "1.0825", "1.083"),
        (18.5, Form.ROUNDED, "18.50", "18.6"),
        (0.00001234, Form.NUMBER, "0.00001234", "0.0001"),
        ("Ann Lee", Form.TEXT, "ann lee", "Ann"),
        ("/data/A.txt", Form.TEXT, "/data/A.txt", "/data/a.txt"),
        ("b.txt", Form.TEXT, "b.txt", "btxt"),
        ("2025-03-05", Form.DATE, "2025-03-05", "2025-03-06"),
    ],
)
def test_answers_accept_what_is_right_and_nothing_else(
    value: Scalar, form: Form, right: str, wrong: str
) -> None:
    answer, text = answer_of_value(value, form)
    assert matches(answer, text)
    assert matches(answer, right)
    assert not matches(answer, wrong)


def test_case_matters_in_paths_and_not_in_words() -> None:
    assert answer_of_value("/a/b", Form.TEXT)[0].matcher is Matcher.EXACT
    assert answer_of_value("works_at", Form.TEXT)[0].matcher is Matcher.EXACT
    assert answer_of_value("New York", Form.TEXT)[0].matcher is Matcher.NORMALISED


@pytest.mark.parametrize("value", [0, 1, True, False, "", " ", "none", "True", "N/A", "0"])
def test_an_answer_that_can_be_guessed_is_not_fit(value: Scalar) -> None:
    assert is_fit_answer(value, "What is it?") == "the answer can be guessed"


@pytest.mark.parametrize(
    ("value", "question"),
    [
        (250, "Convert 250 EUR."),
        (1250, "Of 1,250 items?"),
        ("open", "Is the state “open”?"),
        ("Ann Lee", "Ask ann lee."),
    ],
)
def test_an_answer_in_the_question_is_not_fit(value: Scalar, question: str) -> None:
    assert is_fit_answer(value, question) == "the answer is in the question"


def test_long_answers_and_several_lines_are_not_fit() -> None:
    assert "longer than" in is_fit_answer("x" * 81, "What?")
    assert "several lines" in is_fit_answer("a\nb", "What?")


@pytest.mark.parametrize("value", [12, 2.5, "Ann", "pen", "/data/a.txt", "2025-03-05"])
def test_short_particular_answers_are_fit(value: Scalar) -> None:
    assert is_fit_answer(value, "Is the door open at 1 Main Street?") == ""


@pytest.mark.parametrize(
    ("name", "first", "second", "result"),
    [
        ("difference", 12, 5, 7),
        ("difference", 2.5, 1.25, 1.25),
        ("addition", 12, 5, 17),
        ("ratio", 10, 4, 2.5),
        ("percentage", 5, 20, 25.0),
        ("change", 20, 25, 25.0),
    ],
)
def test_arithmetic_by_hand(name: str, first: float, second: float, result: float) -> None:
    assert ARITHMETIC[name].value(first, second) == result
    assert ARITHMETIC[name].noun("the a", "the b").count("the ") >= 2


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("difference", 5, 5),
        ("difference", 4, 5),
        ("ratio", 5, 0),
        ("ratio", 1, 1e6),
        ("percentage", 5, 0),
        ("change", 0, 5),
    ],
)
def test_degenerate_arithmetic_is_refused(name: str, first: float, second: float) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        ARITHMETIC[name].value(first, second)
