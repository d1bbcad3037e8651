"""Entities, splits and the order of verification: test tasks share nothing with training."""

from collections import Counter

from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.program import Program, Step
from turnwise.explore.splits import EntitySplits, assigned, held_out_combinations
from turnwise.explore.verdicts.acceptance import Queue


def draft(shape: str, *tools: str, entities: tuple[str, ...] = (), number: int = 0) -> Draft:
    steps = tuple(Step("server", name, {"of": entities, "number": number}) for name in tools)
    return Draft(Program(shape, steps), ("?",) * 8, entities)


def test_every_split_gets_its_share_and_what_belongs_together_stays_together() -> None:
    groups = [((f"customer {number}", f"order {number}"), 1.0) for number in range(40)]
    splits = assigned(groups, seed=0)
    counts = Counter(splits.by_entity.values())
    assert counts["test"] >= 10
    assert counts["validation"] >= 10
    assert all(splits.split_of(entities) for entities, _ in groups)


def test_only_training_and_test_share_no_entity() -> None:
    splits = EntitySplits({"a": "train", "b": "test", "c": "validation"})
    assert splits.split_of(("a", "b")) == ""
    assert splits.split_of(("a", "c")) == "train"
    assert splits.split_of(("b", "c")) == "test"


def test_a_call_that_names_nothing_or_what_all_splits_name_is_for_training_only() -> None:
    splits = EntitySplits({"a": "test"}, frozenset({"folder"}))
    assert splits.split_of(()) == splits.split_of(("folder",)) == "train"
    assert splits.split_of(("folder", "a")) == "test"


def test_held_out_combinations_have_test_tasks_and_leave_every_tool_to_training() -> None:
    splits = assigned([((f"e{number}",), 1.0) for number in range(40)], seed=0)
    tested = next(entity for entity, split in splits.by_entity.items() if split == "test")
    drafts = [draft("look_up", name, number=number) for name in "abcd" for number in range(10)]
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
