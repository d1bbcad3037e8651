"""`turnwise.play`: known solutions and cheats are played and scored without a model."""

from typing import Any

import pytest

import turnwise as tw


class Boxes:
    """The key is in box 3; the first sentence ends the episode."""

    def reset(self, task: tw.Task) -> str:
        self.opened: set[int] = set()
        return "One of the boxes 1 to 5 holds a key. Find it."

    def tools(self) -> list[Any]:
        return [self.open_box]

    def open_box(self, number: int) -> str:
        """Open a box."""
        self.opened.add(number)
        return "the key" if number == 3 else "empty"

    def step(self, said: Any) -> Any:
        if isinstance(said, str):
            return "", True
        return [self.open_box(**call.arguments) for call in said], False

    def score(self) -> dict[str, float]:
        return {"outcome": float(3 in self.opened)}


def opened(number: int) -> list[tw.ToolCall]:
    return [tw.ToolCall("1", "open_box", {"number": number})]


TASK = tw.Task(id="boxes")


def test_a_solution_earns_its_score_and_a_cheat_does_not() -> None:
    solved = tw.play(TASK, [opened(1), opened(3), "In box 3."], environment=Boxes)
    assert solved.trajectory.stop == "ended"
    assert [result.content for _, result in solved.trajectory.calls] == ["empty", "the key"]
    assert solved.reward.total == 1
    assert tw.play(TASK, ["In box 3."], environment=Boxes).reward.total == 0


def test_an_episode_ends_after_the_last_reply() -> None:
    played = tw.play(TASK, [opened(2)], environment=Boxes)
    assert played.trajectory.stop == "max_turns"
    assert played.reward.total == 0
    with pytest.raises(ValueError, match="replies: give at least one"):
        tw.play(TASK, [], environment=Boxes)


def test_plain_tools_and_a_row_of_a_task_file_are_played_as_well() -> None:
    def price(symbol: str) -> float:
        """Latest price of a stock."""
        return {"ACME": 12.5}[symbol]

    task = {"question": "What does ACME cost?", "answer": 12.5}
    replies: list[str | list[tw.ToolCall]] = [[tw.ToolCall("1", "price", {"symbol": "ACME"})], "12.5"]
    assert tw.play(task, replies, tools=[price]).reward.total == 1
