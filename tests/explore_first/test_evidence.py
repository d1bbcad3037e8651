"""What worked or failed for a parameter decides what is tried next."""

from random import Random
from typing import Any

from turnwise.explore.first.document import document_of
from turnwise.explore.first.proposals import proposals
from turnwise.explore.first.value_sources import values_of
from turnwise.explore.first.values import Source, Tier, Value, ValueStore
from turnwise.explore.survey.parameters import parameters_of
from turnwise.types import Tool

TEXT = {"type": "string"}
REPOSITORY = Value("/data/repository", "folder", Source.CONFIG)


def tool(name: str, description: str = "", **properties: Any) -> Tool:
    schema = {"properties": properties, "required": list(properties)}
    return Tool(f"git.{name}", description, schema, "git", name)


def proposed(of: Tool, store: ValueStore, limit: int = 10) -> list[dict[str, Any]]:
    found = proposals(of, store, Random(0), limit=limit)
    return [{name: value.value for name, value in arguments.items()} for arguments in found]


def git_store() -> ValueStore:
    """A folder with files, one call that worked with the folder, and one that failed with every file."""
    files = [Value(f"/data/repository/{name}.md", "file", Source.CONFIG) for name in "abc"]
    store = ValueStore([REPOSITORY, *files])
    status = tool("status", repo_path=TEXT)
    store.succeeded(status, {"repo_path": REPOSITORY})
    for file in files:
        store.failed(status, {"repo_path": file}, f"Error executing tool status: {file.value}")
    return store


def test_a_path_that_worked_once_stays_while_other_parameters_vary() -> None:
    show = tool("show", repo_path=TEXT, revision=TEXT)
    found = proposed(show, git_store(), limit=6)
    assert {arguments["repo_path"] for arguments in found[:4]} == {"/data/repository"}
    assert len({arguments["revision"] for arguments in found[:4]}) == 4


def test_ids_of_different_records_are_not_shared_between_tools() -> None:
    store = ValueStore()
    store.succeeded(tool("get_order", id=TEXT), {"id": Value("order-1", "id", Source.ANSWER)})
    assert {"id": "order-1"} not in proposed(tool("get_customer", id=TEXT), store)


def test_values_found_where_a_good_value_was_found_come_first() -> None:
    rows = '[{"commit": "c1", "author": "Ann"}, {"commit": "c2", "author": "Bob"}, {"commit": "c3"}]'
    store = ValueStore(values_of(0, document_of(rows)))
    diff = tool("diff", target=TEXT)
    [target] = parameters_of(diff)
    commit, author = (next(one for one in store if one.name == name) for name in ("commit", "author"))
    assert all(one.tier is Tier.ANY for one in store.ranked(target, limit=5, tool=diff))
    store.succeeded(diff, {"target": commit})
    store.failed(diff, {"target": author}, "Ref 'Ann' did not resolve")
    ranked = store.ranked(target, limit=5, tool=diff)
    assert [(one.value.value, one.tier) for one in ranked[:3]] == [
        ("c1", Tier.PROVEN),
        ("c2", Tier.FIT),
        ("c3", Tier.FIT),
    ]
    assert ranked[-1].tier is Tier.REFUSED


def test_an_error_blames_only_the_value_that_it_quotes() -> None:
    store = ValueStore()
    read = tool("read", path=TEXT, sheet=TEXT)
    call = {"path": Value("/a.xlsx", "path", Source.USER), "sheet": Value("Sums", "sheet", Source.DRAWN)}
    store.failed(read, call, "Sheet 'Sums' not found in the workbook")
    assert store.evidence.is_refused(read, "sheet", "Sums")
    assert not store.evidence.is_refused(read, "path", "/a.xlsx")
    assert not store.evidence.is_refused(read, "sheet", "Sum")


def test_an_untried_choice_is_suspected_before_the_value_that_an_error_quotes() -> None:
    store = ValueStore()
    trace = tool("trace", range=TEXT, direction={"enum": ["up", "down"]})
    call = {
        "range": Value("A1:B2", "range", Source.DRAWN),
        "direction": Value("up", "direction", Source.SCHEMA),
    }
    store.failed(trace, call, "A1:B2 holds no formula")
    assert not store.evidence.is_refused(trace, "range", "A1:B2")


def test_a_confirmation_repeats_the_value_that_it_confirms() -> None:
    delete = tool("delete_note", path=TEXT, confirmPath=TEXT)
    store = ValueStore([Value("a.md", "path", Source.USER), Value("b.md", "path", Source.USER)])
    found = proposed(delete, store, limit=2)
    assert found == [{"path": name, "confirmPath": name} for name in ("a.md", "b.md")]


def test_a_parameter_that_an_error_asks_for_counts_as_required() -> None:
    tags = {"enum": ["red"]}
    edit = Tool(
        "edit", "", {"properties": {"op": {"enum": ["add"]}, "tag": tags}, "required": ["op"]}, "s", "edit"
    )
    found = [
        {name: value.value for name, value in arguments.items()}
        for arguments in proposals(edit, ValueStore(), Random(0), limit=5, missing={"tag"})
    ]
    assert found == [{"op": "add", "tag": "red"}]


def test_the_example_in_a_description_is_tried_for_the_only_text() -> None:
    query = tool("query", "Run a query. Example: `SELECT sum(position) GROUP BY account`", query=TEXT)
    assert proposed(query, ValueStore())[0] == {"query": "SELECT sum(position) GROUP BY account"}


def test_an_optional_date_is_tried_although_no_date_is_known() -> None:
    month = Tool("days", "", {"properties": {"date": TEXT}}, "s", "days")
    assert {"date": "2024-03-15"} in proposed(month, ValueStore())
