"""A task is refused where its truth does not hold or a tool that it needs is withheld."""

from dataclasses import replace

import pytest

from turnwise.tasks.live_conflicts import check_worlds, live_conflicts
from turnwise.types import Answer, DemoTurn, ExpectedWrite, LiveServer, Message, Task, ToolCall, Truth

POST = "send_slack_message"
SLACK = LiveServer("slack", "Slack", ("list_slack_channels",), {POST: "posts"}, may_write=False)
PLAIN = Task("t", (Message("user", "?"),), ("slack",), Truth(answer=Answer("x")))


def test_a_task_of_the_embedded_world_conflicts_with_a_live_server_that_it_uses() -> None:
    task = replace(PLAIN, world="embedded")
    assert [field for field, _ in live_conflicts(task, [SLACK])] == ["world"]
    assert [field for field, _ in live_conflicts(replace(task, servers=()), [SLACK])] == ["world"]
    assert list(live_conflicts(replace(task, servers=("fmp",)), [SLACK])) == []
    assert list(live_conflicts(task, [])) == []
    assert list(live_conflicts(PLAIN, [SLACK])) == []


@pytest.mark.parametrize(
    "task",
    [
        replace(PLAIN, truth=Truth(required_tools=(POST,))),
        replace(PLAIN, truth=Truth(milestones=(f"slack__{POST}",))),
        replace(PLAIN, truth=Truth(writes=(ExpectedWrite(POST, {}),))),
        replace(PLAIN, demonstration=(DemoTurn("", (ToolCall("1", POST, {}),)),)),
    ],
)
def test_a_task_that_needs_a_withheld_tool_is_refused_until_writing_is_allowed(task: Task) -> None:
    [(_, message)] = live_conflicts(task, [SLACK])
    assert 'tools.live_writes = ["slack"]' in message
    assert list(live_conflicts(task, [replace(SLACK, may_write=True)])) == []


def test_the_error_names_the_first_task_and_counts_the_others() -> None:
    tasks = [replace(PLAIN, id=name, world="embedded") for name in "abc"]
    with pytest.raises(ValueError, match=r"task 'a' is of the embedded world.*'slack' is live.*and 2 more"):
        check_worlds([PLAIN, *tasks], [SLACK])
