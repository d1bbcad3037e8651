"""Functions by name: what can be imported, and what only this process has."""

import json

import pytest

from turnwise.system.python_functions import find_function, function_name, is_given


def score() -> float:
    return 1.0


class Scorer:
    @staticmethod
    def inner() -> float:
        return 0.0


def test_a_function_of_a_module_is_named_by_import_and_found_again() -> None:
    for function in (score, Scorer.inner, json.dumps):
        name = function_name(function)
        assert not is_given(name)
        assert find_function(name, "reward") is function


def test_what_cannot_be_imported_is_named_for_this_process() -> None:
    def local() -> float:
        return 0.5

    assert function_name(local) == "python:local"
    assert function_name(lambda: 1.0) == "python:lambda"
    assert function_name(Scorer()) == "python:Scorer"  # type: ignore[arg-type]
    assert find_function("python:local", "reward", {"python:local": local}) is local


def test_two_functions_of_one_name_are_numbered_and_the_same_one_is_not() -> None:
    first, second = (lambda: 1.0), (lambda: 2.0)
    given = {"python:lambda": first}
    assert function_name(first, given) == "python:lambda"
    assert function_name(second, given) == "python:lambda_2"


def test_a_script_s_function_is_not_importable() -> None:
    def main() -> None: ...

    main.__module__, main.__qualname__ = "__main__", "main"
    assert function_name(main) == "python:main"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("python:local", "reward 'python:local' was given in Python"),
        ("nowhere:f", "nowhere cannot be imported"),
        ("json:nothing", "has no attribute 'nothing'"),
        ("json:__doc__", "is a str, not a function"),
        ("json", "write it as module:function"),
    ],
)
def test_a_name_that_leads_nowhere_is_a_value_error(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_function(name, "reward")
