"""What proves a change: a text that is new, or one that is gone from an answer that still shows the rest."""

from turnwise.explore.first.change_evidence import Seen, probes_for
from turnwise.explore.first.change_inputs import ChangeInput
from turnwise.types import StateProbe, Tool

LIST = Tool("list", "", {}, "notes", "list")
READ = Tool("read", "", {}, "notes", "read")


def seen(before: str, after: str, original: str = "", **arguments: str) -> Seen:
    return Seen(READ if arguments else LIST, arguments, before, after, original)


def test_a_drawn_text_that_only_the_later_answer_has_proves_the_change() -> None:
    made = ChangeInput({"text": "amber lantern"}, drawn=["amber lantern"])
    assert probes_for(made, [seen('{"a": 1}', '{"a": "amber lantern"}')]) == (
        StateProbe("list", {}, "amber lantern"),
    )
    assert not probes_for(made, [seen("", "found amber lantern", query="amber lantern")])


def test_a_removal_is_proven_by_an_answer_that_still_shows_the_rest() -> None:
    made = ChangeInput({"path": "/a/old.md"}, existing=["/a/old.md"])
    before, after = '["old.md", "kept.md"]', '["kept.md"]'
    assert probes_for(made, [seen(before, after)]) == (StateProbe("list", {}, "kept.md", "old.md"),)
    assert not probes_for(made, [seen('["old.md"]', "[]")])
    assert not probes_for(made, [seen(before, "")])


def test_a_removal_that_earlier_changes_made_possible_proves_nothing() -> None:
    made = ChangeInput({"kind": "leads"}, existing=["leads"])
    before, after = '["leads", "audits"]', '["audits"]'
    assert not probes_for(made, [seen(before, after, original='["leads", "leads", "audits"]')])
    assert probes_for(made, [seen(before, after, original=before)])


def test_a_replacement_is_one_probe_for_both_texts() -> None:
    made = ChangeInput({"old": "first line", "new": "amber"}, drawn=["amber"], quoted=["first line"])
    assert probes_for(made, [seen("first line\nsecond", "amber\nsecond", path="/a")]) == (
        StateProbe("read", {"path": "/a"}, "amber", "first line"),
    )


def test_values_next_to_each_other_say_what_is_new() -> None:
    made = ChangeInput({"from": "Ann", "to": "Bob"}, existing=["Ann", "Bob"])
    before = '[{"from": "Ann", "to": "Eve"}, {"from": "Cy", "to": "Bob"}]'
    after = f'{before[:-1]}, {{"from": "Ann", "to": "Bob"}}]'
    assert [probe.contains for probe in probes_for(made, [seen(before, after)])] == ['Ann", "to": "Bob']


def test_a_number_or_a_switch_is_looked_for_at_its_field() -> None:
    made = ChangeInput({"id": 7, "is_done": True})
    before, after = '{"id": 7, "is_done": false}', '{"id": 7, "is_done": true}'
    assert [probe.contains for probe in probes_for(made, [seen(before, after)])] == ['is_done": true']


def test_a_side_effect_of_reading_is_no_change_to_ask_for() -> None:
    made = ChangeInput({"fruit": "apples"})
    answers = [seen('{"fruit": "apples",\n"stock": 12}', '{"fruit": "apples",\n"stock": 11}', fruit="apples")]
    assert probes_for(made, answers)
    assert not probes_for(made, answers, is_expected=False)


def test_a_cut_answer_proves_nothing() -> None:
    made = ChangeInput({"text": "amber"}, drawn=["amber"])
    assert not probes_for(made, [seen("x", "amber\n[... 9 of 99 characters cut ...]\n")])


def test_a_clock_in_a_new_line_is_not_looked_for() -> None:
    made = ChangeInput({"name": "notes"})
    assert not probes_for(made, [seen("notes", "notes\nmodified 2025-03-01 10:30", name="notes")])
