"""Example tasks that `turnwise init` writes to be replaced, and how they are recognised later."""

from typing import Any

from turnwise.types import Task

_MARK = "Replace this placeholder"


def placeholder_row(task_id: str, server: str, tool: str) -> dict[str, Any]:
    """A row of a task file with a question and an answer that are still to be written."""
    return {
        "id": task_id,
        "prompt": f"{_MARK} by a question that the tool {tool} helps to answer. Answer with the number only.",
        "servers": [server],
        "truth": {"answer": {"value": f"{_MARK} by the number, without quotes", "matcher": "numeric"}},
    }


def placeholder_in(task: Task) -> tuple[str, str] | None:
    """The first field that nobody has replaced yet, and what is wrong with it; None if all are written."""
    answer = task.truth.answer
    written = {
        "prompt": next((message.content for message in task.prompt), ""),
        "truth.answer.value": answer.value if answer is not None else "",
    }
    for field, text in written.items():
        if isinstance(text, str) and text.startswith(_MARK):
            return field, f"{task.id} is still the placeholder that `turnwise init` wrote: replace it"
    return None
