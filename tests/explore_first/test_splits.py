"""Entities, splits and the order of verification: test tasks share nothing with training."""

from collections import Counter
from dataclasses import replace

from tests.explore_first.sample_answers import NUMBER, TEXT, record, rows, tool
from turnwise.explore.first.acceptance import Queue
from turnwise.explore.first.connections import connections_of, links_of
from turnwise.explore.first.document import Document
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.entities import EntityReader, normal_path, roots_of
from turnwise.explore.first.material import material_of
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.shapes.chain import chain
from turnwise.explore.first.splits import assigned, held_out_combinations
from turnwise.explore.first.values import Source, Value
from turnwise.tasks.proof.case import Case, Conclusion
from turnwise.types import Answer, Difficulty, Tool

READ = tool("read_file", path=TEXT)
LIST = tool("list_folder", path=TEXT)
CONVERT = tool("convert", amount=NUMBER, unit={"type": "string", "enum": ["kg", "lb"]})


def seen(number: int, called: Tool, document: Document | None = None, **arguments: object) -> Observation:
    given = {name: Value(value, name, Source.ANSWER) for name, value in arguments.items()}
    return Observation(number, called, given, document or record(size=number))


def draft(shape: str, *tools: str, entities: tuple[str, ...] = (), number: int = 0) -> Draft:
    case = Case({}, "", (), lambda _: Conclusion(Answer("x"), "x"))
    key = f"{shape} {tools} {entities} {number}"
    return Draft(shape, case, ("?",) * 8, tools, ("server",), entities, Difficulty.EASY, key)


def test_spellings_of_a_path_are_one_entity() -> None:
    roots = roots_of(
        [Value("/data/wiki", "folder", Source.CONFIG), Value("/data/wiki/a", "f", Source.CONFIG)]
    )
    assert roots == ("/data/wiki",)
    spellings = ("Home.md", "./Home.md", "/data/wiki/Home.md", "/data/wiki//Home.md/", "home.md")
    assert {normal_path(text, roots) for text in spellings} == {"home.md"}


def test_the_configured_folder_and_options_of_the_schema_are_no_entities() -> None:
    reader = EntityReader([], ["/data/wiki"])
    assert reader.of(LIST, {"path": "/data/wiki/"}) == ()
    assert reader.of(READ, {"path": "/data/wiki/Home.md"}) == ("home.md",)
    [whole] = reader.of(CONVERT, {"amount": 2.5, "unit": "kg"})
    assert whole != reader.of(CONVERT, {"amount": 2.5, "unit": "lb"})[0]


def test_a_value_that_most_calls_share_is_no_entity_beside_another() -> None:
    sheet = tool("read_sheet", book=TEXT, sheet=TEXT)
    calls = [seen(number, sheet, book="shop.xlsx", sheet=f"Sheet {number}") for number in range(5)]
    assert EntityReader(calls).entities(calls[2]) == ("sheet 2",)


def test_every_split_gets_its_share_and_no_entity_is_in_two() -> None:
    groups = [((f"customer {number}",), 3.0) for number in range(40)]
    leads = [((f"customer {number}",), (f"order {number}",)) for number in range(40)]
    groups += [((f"order {number}",), 2.0) for number in range(40)]
    splits = assigned(groups, leads, seed=0)
    counts = Counter(splits.by_entity.values())
    assert counts["test"] >= 10
    assert counts["validation"] >= 10
    for number in range(40):
        assert splits.split_of((f"customer {number}", f"order {number}")), (
            "what belongs together stays together"
        )


def test_a_folder_may_be_named_in_all_splits_but_not_asked_about_in_test() -> None:
    files = [f"people/{number}.txt" for number in range(20)]
    splits = assigned([((name,), 1.0) for name in (*files, "people")], [(("people",), files)], seed=0)
    assert splits.split_of(("people",)) == "train"
    assert {splits.split_of(("people", name)) for name in files} == {"train", "validation", "test"}


def test_a_call_that_every_task_makes_is_for_training_only() -> None:
    assert assigned([], [], seed=0).split_of(()) == "train"


def test_held_out_combinations_have_test_tasks_and_leave_every_tool_to_training() -> None:
    splits = assigned([((f"e{number}",), 1.0) for number in range(40)], [], seed=0)
    tested = next(entity for entity, split in splits.by_entity.items() if split == "test")
    drafts = [draft("look_up", name) for name in "abcd"]
    drafts += [draft("chain", *pair, entities=(tested,)) for pair in ("ab", "bc", "cd", "da")]
    drafts += [draft("chain", "a", "e", entities=(tested,))]
    [held_out] = held_out_combinations(drafts, splits, seed=0)
    assert "e" not in held_out, "no other combination teaches it"


def test_a_round_takes_its_share_of_every_split_and_the_rest_when_others_are_used_up() -> None:
    many = [(draft("look_up", "a", number=number), "train") for number in range(100)]
    few = [(draft("chain", "b", "c", number=number), "test") for number in range(10)]
    queue = Queue([*many, *few], per_kind=20)
    counts = Counter(split for _, split in queue.take(20))
    assert counts == {"train": 17, "test": 3}
    rest: list[str] = []
    while chosen := queue.take(20):
        rest += [split for _, split in chosen]
    assert Counter(rest) == {"train": 83, "test": 7}, "a kind may have more if there is no other"
    assert queue.rest() == []


def test_a_name_in_a_listing_is_linked_to_the_path_of_its_file() -> None:
    listed = rows(("entries",), {"name": "a.txt"}, {"name": "b.txt"}, {"name": "c.txt"})
    calls = [
        seen(0, LIST, listed, path="/data/notes"),
        seen(1, READ, path="/data/notes/a.txt"),
        seen(2, READ, path="./b.txt"),
        seen(3, READ, path="elsewhere/c.txt"),
    ]
    found = connections_of(calls, ["/data/notes"])
    assert [(one.value, one.prefix) for one in found] == [("a.txt", "/data/notes/"), ("b.txt", "./")]
    [link] = links_of(found)
    assert (link.source_tool, link.field, link.target_tool, link.num_calls) == (
        "list_folder",
        "name",
        "read_file",
        2,
    )


def test_a_number_is_linked_only_where_the_names_agree() -> None:
    order = tool("get_order", order_id=NUMBER)
    calls = [
        seen(0, LIST, record(order_id=5011, value=5011), path="x"),
        seen(1, CONVERT, amount=5011, unit="kg"),
        seen(2, order, order_id=5011),
    ]
    assert [one.target.tool.name for one in connections_of(calls)] == ["get_order"]
    renamed = replace(calls[0], document=record(value=5011))
    assert connections_of([renamed, calls[1]]) == []


def test_a_chain_does_not_come_back_to_a_value_that_its_question_names() -> None:
    orders = tool("list_orders", customer_id=TEXT)
    order = tool("get_order", order_id=TEXT)
    customer = tool("get_customer", customer_id=TEXT)
    listed = rows(("orders",), {"order_id": "O-1", "total": 5}, {"order_id": "O-2", "total": 9})
    calls = [
        seen(0, orders, listed, customer_id="C102"),
        seen(1, order, record(order_id="O-2", customer_id="C102"), order_id="O-2"),
        seen(2, customer, record(city="Cork", customer_id="C102"), customer_id="C102"),
    ]
    found = list(chain(material_of(calls, (), seed=0)))
    assert not [
        one.tools for one in found if one.tools[-1] == "get_customer" and one.tools[0] == "list_orders"
    ]
    assert [one.tools for one in found if one.tools == ("get_order", "get_customer")]
