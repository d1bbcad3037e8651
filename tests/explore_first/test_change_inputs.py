"""Arguments for changes: what exists is taken from answers, what is created is new and fits its siblings."""

import random
from typing import Any

from turnwise.explore.first.change_inputs import ChangeInput, Inputs
from turnwise.explore.first.document import document_of
from turnwise.explore.first.drawn_texts import DrawnTexts, path_like
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.subjects import subjects_of, vocabulary_of
from turnwise.explore.first.values import Source, Value, ValueStore
from turnwise.types import Tool

TEXT = {"type": "string"}


def tool(tool_name: str, /, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(tool_name, "", schema, "s", tool_name)


READ = tool("read_note", path=TEXT)
NOTE = Observation(
    0, READ, {"path": Value("/w/home.md", "path", Source.ANSWER)}, document_of("The first line here")
)
GRAPH = Observation(
    1,
    tool("read_graph"),
    {},
    document_of('{"relations": [{"from": "Ann", "to": "Kite", "type": "leads"},'
                ' {"from": "Bob", "to": "Lark", "type": "audits"}]}'),
)  # fmt: skip


def first(changing: Tool, *observations: Observation, stage: int = 0) -> ChangeInput:
    subjects = subjects_of(observations or (NOTE,))
    chance = random.Random(0)
    inputs = Inputs(
        changing, subjects, "path", vocabulary_of(subjects), ValueStore(), DrawnTexts(chance), chance
    )
    return next(list(inputs.stages())[stage])


def test_a_deletion_names_what_exists_and_a_confirmation_repeats_it() -> None:
    made = first(tool("delete_note", path=TEXT, confirmPath=TEXT))
    assert made.arguments == {"path": "/w/home.md", "confirmPath": "/w/home.md"}
    assert not made.drawn


def test_a_move_goes_from_what_exists_to_a_new_name_beside_it() -> None:
    for names in (("source", "destination"), ("oldPath", "newPath")):
        made = first(tool("move_note", **dict.fromkeys(names, TEXT)))
        old, new = (made.arguments[name] for name in names)
        assert old == "/w/home.md"
        assert new.startswith("/w/")
        assert new.endswith(".md")
        assert new != old


def test_an_edit_replaces_a_line_that_a_reader_showed() -> None:
    edit = {"type": "array", "items": {"type": "object", "properties": {"oldText": TEXT, "newText": TEXT}}}
    made = first(tool("edit_note", path=TEXT, edits=edit))
    assert made.arguments["path"] == "/w/home.md"
    assert made.arguments["edits"] == [{"oldText": "The first line here", "newText": made.contents[0]}]


def test_what_is_created_of_existing_parts_is_no_existing_row() -> None:
    properties = {"from": TEXT, "to": TEXT, "type": TEXT}
    rows = {"type": "array", "items": {"type": "object", "properties": properties}}
    [created] = first(tool("create_relations", relations=rows), GRAPH).arguments["relations"]
    [deleted] = first(tool("delete_relations", relations=rows), GRAPH).arguments["relations"]
    assert deleted in (
        {"from": "Ann", "to": "Kite", "type": "leads"},
        {"from": "Bob", "to": "Lark", "type": "audits"},
    )
    assert created["from"] in ("Ann", "Bob")
    assert (created["from"], created["to"]) not in (("Ann", "Kite"), ("Bob", "Lark"))


def test_a_new_path_fits_its_siblings_and_prose_does_not_go_into_data() -> None:
    texts = DrawnTexts(random.Random(0))
    assert path_like("/a/b.md", texts).rpartition("/")[0] == "/a"
    assert path_like("/a/b.md", texts).endswith(".md")
    assert path_like("/a/b.json", texts, is_prose=True).endswith(".txt")
    assert "." not in path_like("/a", texts, is_folder=True)
    assert "/" not in path_like("", texts)


def test_the_same_seed_draws_the_same_change() -> None:
    creating = tool("create_note", path=TEXT, content=TEXT)
    assert first(creating).arguments == first(creating).arguments
