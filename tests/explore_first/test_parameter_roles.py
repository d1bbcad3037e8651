"""Parameters of tools that change something: which name what exists, and which are new."""

import pytest

from turnwise.explore.first.parameter_roles import Role, core_name, creates, role_of
from turnwise.explore.survey.parameters import Kind, Parameter
from turnwise.types import Tool


@pytest.mark.parametrize(
    ("tool", "parameter", "role"),
    [
        ("create_entities", "name", Role.NEW),
        ("create_branch", "branch_name", Role.NEW),
        ("add_observations", "entityName", Role.EXISTING),
        ("add_observations", "contents", Role.CONTENT),
        ("delete_observations", "observations", Role.EXISTING),
        ("delete_note", "path", Role.EXISTING),
        ("delete_note", "confirmPath", Role.CONFIRMATION),
        ("move_file", "source", Role.EXISTING),
        ("move_file", "destination", Role.NEW),
        ("create_relations", "to", Role.EXISTING),
        ("rename_sheet", "new_name", Role.NEW),
        ("edit_file", "oldText", Role.OLD_TEXT),
        ("edit_file", "newText", Role.CONTENT),
        ("search_and_replace", "find_text", Role.OLD_TEXT),
        ("replace_cells", "query", Role.OLD_TEXT),
    ],
)
def test_the_role_follows_from_the_names(tool: str, parameter: str, role: Role) -> None:
    subject = Tool(tool, "", {}, "s", tool)
    assert role_of(Parameter(parameter, Kind.TEXT), subject, is_new=creates(subject)) is role


def test_the_words_of_a_role_are_not_part_of_the_name() -> None:
    assert core_name("newPath") == "path"
    assert core_name("source") == ""
