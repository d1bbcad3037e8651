"""Which tasks an evaluation plays where it does not play all of them."""

from turnwise.tasks.selection import across_families
from turnwise.types import Message, Task, Truth


def some(**families: int) -> list[Task]:
    return [
        Task(f"{family}-{number}", (Message("user", "?"),), (), Truth(), family=family)
        for family, count in families.items()
        for number in range(count)
    ]


def test_a_few_tasks_come_from_every_family_in_the_files_order() -> None:
    chosen = across_families(some(a=10, b=10, c=1), 5)
    assert [task.id for task in chosen] == ["a-0", "a-1", "b-0", "b-1", "c-0"]


def test_all_tasks_are_taken_where_no_number_is_given_or_there_are_fewer() -> None:
    tasks = some(a=3)
    assert across_families(tasks, None) == across_families(tasks, 9) == tuple(tasks)
