import random
from dataclasses import replace

import pytest

from tests.explore_first.sample_answers import CALLS, ISSUES, PRODUCTS, TODO, items, record, rows
from turnwise.explore.first.document import Document, Field, Scalar, Table
from turnwise.explore.first.operations import OPERATIONS
from turnwise.explore.first.operations.columns import MAX_QUERIES, label_column, row_noun
from turnwise.explore.first.query import Form, Measure, Query

DOCUMENTS = [document for _, _, document in CALLS]


def asked(operation: str, document: Document, seed: int = 1) -> list[Query]:
    return list(OPERATIONS[operation](document, random.Random(seed)))


def answers(operation: str, document: Document) -> dict[str, Scalar]:
    return {query.noun: query.value for query in asked(operation, document)}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_query_can_be_read_again_and_is_the_same_for_a_seed(operation: str, document: Document) -> None:
    queries = asked(operation, document)
    assert len(queries) <= MAX_QUERIES
    assert len({query.key for query in queries}) == len(queries)
    assert [query.key for query in asked(operation, document)] == [query.key for query in queries]
    for query in queries:
        assert query.read(document) == query.value
        assert not isinstance(query.value, bool)
        with pytest.raises(LookupError):
            query.read(Document("", is_cut=True))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_cut_table_is_not_asked_about(operation: str) -> None:
    assert asked(operation, replace(PRODUCTS, is_cut=True)) == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_hostile_documents_yield_nothing_that_breaks_a_sentence(operation: str) -> None:
    long = "x" * 200_000
    hostile = Document(
        "{…}",
        (Field(("a\nb",), "v"), Field(("k",), long), Field(("“",), "w"), Field(("n",), float("inf"))),
        (
            Table(("rows\n",), ("na\nme", "name"), ({"na\nme": "a", "name": long}, {"name": "b\nc"})),
            items(*range(5_000), path=("numbers",)),
            Table(("empty",), (), ()),
        ),
    )
    for query in asked(operation, hostile):
        assert "\n" not in query.noun
        assert len(query.noun) < 300
        assert len(str(query.value)) < 100


def test_a_field_is_asked_for_unless_its_value_has_two_names() -> None:
    document = record(population=880, mayor="Ann Lee", capital="Berlin", seat="Berlin", open=True, note="")
    assert answers("field", document) == {"the population": 880, "the mayor": "Ann Lee"}


def test_a_field_says_which_part_it_belongs_to() -> None:
    document = Document(
        "{…}",
        (
            Field(("owner", "login"), "ann"),
            Field(("rates", "USD"), 1.08),
            Field(("rates", "GBP"), 0.84),
            Field(("rates", "JPY"), 162.1),
        ),
    )
    nouns = answers("field", document)
    assert nouns["the login of the owner"] == "ann"
    assert nouns["the value for “GBP” in the rates"] == 0.84


def test_the_only_row_of_a_result_is_read_like_an_object() -> None:
    one = Document("[…]", (Field((0, "name"), "Ann"),))
    [query] = asked("field", one)
    assert (query.noun, query.value) == ("the name", "Ann")
    with pytest.raises(LookupError):
        query.read(Document("[…]", (Field((0, "name"), "Ann"), Field((1, "name"), "Bob"))))


def test_a_time_is_asked_for_as_its_date() -> None:
    [query] = asked("field", record(created_at="2025-03-05T10:00:00Z"))
    assert (query.noun, query.value, query.form) == ("the creation date", "2025-03-05", Form.DATE)


def test_a_row_is_found_by_its_name_and_must_be_the_only_one() -> None:
    query = next(query for query in asked("row_where", PRODUCTS) if "“Gear”" in query.noun)
    assert query.noun in (
        "the price of the entry whose name is “Gear”",
        "the quantity of the entry whose name is “Gear”",
    )
    with pytest.raises(LookupError):
        query.read(
            rows((), {"name": "Gear", "price": 1, "quantity": 2}, {"name": "Gear", "price": 3, "quantity": 4})
        )


def test_the_extreme_row_needs_a_single_winner() -> None:
    nouns = answers("extreme", ISSUES)
    assert nouns["the title of the issue with the highest number of comments"] == "Add dark mode"
    assert nouns["the title of the issue with the earliest creation date"] == "Crash on start"
    assert nouns["the lowest number of comments among the issues"] == 2
    tied = rows(
        ("issues",), *({"title": title, "comments": count} for title, count in (("a", 5), ("b", 5), ("c", 2)))
    )
    assert "the title of the issue with the highest number of comments" not in answers("extreme", tied)


def test_rows_are_counted_by_the_values_of_a_column() -> None:
    nouns = answers("count", ISSUES)
    assert nouns["the number of issues"] == 4
    assert nouns["the number of issues whose state is “open”"] == 3
    flags = rows(
        ("tasks",), {"id": 1, "is_closed": True}, {"id": 2, "is_closed": True}, {"id": 3, "is_closed": False}
    )
    assert answers("count", flags)["the number of tasks that are closed"] == 2


def test_only_quantities_are_added_up() -> None:
    assert answers("total", PRODUCTS) == {
        "the total quantity of all entries": 75,
        "the total price of all entries": 18.5,
    }
    places = rows(
        ("cities",),
        {"name": "Rome", "latitude": 41.9, "year": 1990, "zip": 118, "temperature": 20.1},
        {"name": "Oslo", "latitude": 59.9, "year": 1991, "zip": 150, "temperature": 8.2},
        {"name": "Bonn", "latitude": 50.7, "year": 1992, "zip": 531, "temperature": 12.4},
    )
    assert answers("total", places) == {}
    assert list(answers("mean", places)) == ["the average temperature of all cities"]


def test_means_and_sums_of_fractions_are_rounded() -> None:
    forms = {query.noun: (query.value, query.form) for query in asked("mean", PRODUCTS)}
    assert forms["the average quantity of all entries"] == (18.75, Form.ROUNDED)


def test_rows_are_found_by_rank_and_by_place() -> None:
    nouns = answers("ordered", ISSUES)
    assert nouns["the title of the issue with the second highest number of comments"] == "Speed up search"
    assert answers("ordered", PRODUCTS)["the name of the second entry"] == "Nut"
    listed = Document("[…]", (), (items("home", "food", path=("tags",)),))
    assert answers("ordered", listed)["the last tag"] == "food"


def test_things_with_dates_are_not_called_first_and_last_by_their_place_in_a_list() -> None:
    assert not any(" first " in noun or " last " in noun for noun in answers("ordered", ISSUES))


def test_a_tie_makes_a_rank_ambiguous() -> None:
    tied = rows(
        (), *({"name": name, "size": size} for name, size in (("a", 9), ("b", 5), ("c", 5), ("d", 1)))
    )
    assert not any("second largest" in noun for noun in answers("ordered", tied))


def test_plain_text_is_asked_about_by_its_lines() -> None:
    nouns = answers("lines", TODO)
    assert nouns["the number of lines that are not empty"] == 3
    assert nouns["the first line"] == "buy milk and butter"
    assert nouns["the line that contains the word “plumber”"] == "call the plumber"
    assert answers("lines", Document("Name: Ann\nCity: Bonn"))["the city"] == "Bonn"
    assert answers("lines", PRODUCTS) == {}


def test_lines_in_a_table_are_left_to_the_operation_for_lines() -> None:
    text = Document("one line\nother line", (), (items("one line", "other line", path=("lines",)),))
    assert asked("count", text) == asked("ordered", text) == []
    assert asked("lines", text) != []


def test_ids_and_hashes_do_not_name_a_row_where_a_name_does() -> None:
    digest = "0123456789abcdef" * 2
    assert label_column(rows((), {"id": 1, "title": "a"}, {"id": 2, "title": "b"}).tables[0]) == "title"
    assert label_column(rows((), {"sha": digest}, {"sha": digest[::-1]}).tables[0]) is None
    assert label_column(rows((), {"name": "a"}, {"name": "A"}).tables[0]) is None


def test_a_row_is_called_by_the_name_of_its_table() -> None:
    names = ("issues", "data", "forecast", "children", "bad\nname")
    assert [row_noun(items("a", "b", path=(name,))) for name in names] == [
        "issue",
        "entry",
        "forecast entry",
        "child",
        "entry",
    ]


@pytest.mark.parametrize("name", ["t", "ln", "mc", "fm", "err", "qz_val"])
def test_keys_that_are_no_words_are_not_asked_about(name: str) -> None:
    assert asked("field", record(**{name: "Anna"})) == []


def test_a_part_whose_name_is_no_word_is_left_out_of_the_question() -> None:
    assert answers("field", Document("{…}", (Field(("fm", "city"), "Turku"),))) == {"the city": "Turku"}


@pytest.mark.parametrize(
    "fields",
    [
        {"password": "hunter22"},
        {"modified": 1794884561547},
        {"message": "Document footnotes are valid", "valid": True},
        {"total": "6 files, 0 directories"},
        {"size": 4096, "isDirectory": True},
        {"directory": "/srv/data"},
        {"uri": "file:///srv/a.txt"},
        {"result": "Text formatted successfully in paragraph 3."},
        {"path": "$[0].name"},
    ],
)
def test_what_nobody_would_ask_for_is_not_asked(fields: dict[str, Scalar]) -> None:
    assert asked("field", record(**fields)) == []


def test_codes_are_no_quantities_to_compute_with() -> None:
    measures = {
        query.noun: query.measure
        for query in asked("field", record(permissions=644, price=7, size=90, pressure=3))
    }
    assert measures == {
        "the number of permissions": Measure.NONE,
        "the price": Measure.AMOUNT,
        "the size": Measure.DETAIL,
        "the pressure": Measure.RATE,
    }


def test_numbers_that_number_the_rows_are_not_added_up() -> None:
    sales = rows(
        (), *({"seller": f"s{number}", "sale": 500 + number, "price": number * number} for number in range(5))
    )
    assert answers("total", sales) == {"the total price of all entries": 30}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[[Larkspur]]", "Larkspur"),
        ("# Team folder", "Team folder"),
        ("- **Anna**", "Anna"),
        ("plain", "plain"),
    ],
)
def test_markdown_is_no_part_of_an_answer(text: str, answer: str) -> None:
    assert [query.value for query in asked("field", record(owner=text))] == [answer]


def test_markdown_that_words_do_not_remain_of_is_not_asked_for() -> None:
    assert asked("field", record(heading="# Larkspur, 2025-03-11")) == []


def test_numbers_with_many_decimals_are_rounded_and_residue_is_not_shown() -> None:
    values = {
        query.noun: (query.value, query.form)
        for query in asked("field", record(length=12.3456789012, sum=0.1 + 0.2, tiny=0.0123456789))
    }
    assert values == {"the length": (12.35, Form.ROUNDED), "the sum": (0.3, Form.NUMBER)}


def test_a_whole_mean_has_no_decimals() -> None:
    [query] = asked("mean", rows((), *({"name": f"n{stock}", "stock": stock} for stock in (4, 7, 10))))
    assert (query.value, query.form) == (7, Form.NUMBER)
    assert isinstance(query.value, int)


def test_what_most_rows_have_is_not_asked_of_one_row() -> None:
    listed = rows((), *({"name": f"n{number}", "kind": "file", "owner": f"o{number}"} for number in range(4)))
    assert not any("kind" in query.noun for query in asked("row_where", listed))
    assert any("owner" in query.noun for query in asked("row_where", listed))


def test_rows_beyond_a_limit_are_counted() -> None:
    nouns = answers("above", ISSUES)
    assert nouns["the number of issues whose creation date is after 2025-03-02"] == 1
    prices = rows(("parts",), *({"name": f"p{price}", "price": price} for price in (12.5, 38, 61, 74, 90)))
    assert answers("above", prices) == {
        "the number of parts whose price is higher than 60": 3,
        "the number of parts whose price is lower than 60": 2,
    }


def test_quantities_of_the_rows_of_a_kind() -> None:
    parts = rows(
        ("parts",),
        *(
            {"name": f"p{price}", "kind": kind, "price": price}
            for kind, price in (("gear", 10), ("gear", 14), ("gear", 21), ("nut", 2), ("nut", 4), ("bolt", 3))
        ),
    )
    nouns = answers("grouped", parts)
    assert nouns["the total price of all parts whose kind is “gear”"] == 45
    assert nouns["the average price of all parts whose kind is “nut”"] == 3
    assert nouns["the name of the part with the highest price among those whose kind is “gear”"] == "p21"


def test_lines_of_data_are_not_asked_for() -> None:
    table = "name,town,age\nAnn Lee,Bonn,31\nBob Ray,Graz,44"
    code = '{\n "currency": "EUR",\n "language": "en"'
    for text in (table, code):
        document = Document(text, (), (items(*text.split("\n"), path=("lines",)),))
        assert asked("lines", document) == []


def test_key_value_lines_are_read_as_fields_only() -> None:
    assert (
        asked("lines", Document("Name: Ann\nTown: Bonn", (Field(("Name",), "Ann"), Field(("Town",), "Bonn"))))
        == []
    )


def test_a_tag_is_not_said_to_have_a_tag() -> None:
    tags = rows(
        ("tags",),
        *({"tag": name, "count": count} for name, count in (("a", 5), ("b", 3), ("c", 2), ("d", 1))),
    )
    assert answers("extreme", tags)["the tag with the highest count"] == "a"


def test_a_commit_history_has_commits() -> None:
    assert row_noun(items("a", "b", path=("Commit history",))) == "commit"
