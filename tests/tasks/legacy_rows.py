"""Rows in the layouts of the older system, about companies of the embedded world."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Call = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and what the server returned then."""

QUOTE: Call = ("fmp_get_quote", {"symbol": "KALDJ"}, "**KALDJ**\nPrice: $213.88")
CHANNELS: Call = ("list_slack_channels", {}, "**Available Public Channels found:** #general")
FAILED: Call = ("fmp_get_quote", {"symbol": "NOSUCH"}, "Error getting the quote of NOSUCH")


def stored_row(name: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())
    return row


def inputs_row(
    task_id: str = "a01",
    calls: Sequence[Call] = (QUOTE, CHANNELS),
    answer: str = "The quote and the channels are there.",
    **criteria: Any,
) -> dict[str, Any]:
    """As in `data/inputs`: the conversation is the prompt, thoughts and calls are messages of their own."""
    row = stored_row("inputs_row")
    question = f"Look up KALDJ with fmp_get_quote and list the channels ({task_id})."
    metadata = {"task_id": task_id, "category": "a", "complexity": "easy", "question": question}
    row["task_metadata"] = row["extra_info"]["task_metadata"] = metadata
    truth = row["reward_spec"]["ground_truth"]
    truth["success_criteria"] |= criteria
    names = [name for name, *_ in calls]
    truth["actual_performance"] |= {"tool_calls_made": len(names), "extracted_tool_sequence": names}
    said = [("user", question)]
    for name, arguments, result in calls:
        call = json.dumps({"name": name, "arguments": arguments})
        said += [
            ("assistant", "<think>\nThe next call.\n</think>"),
            ("assistant", f"<tool_call>\n{call}\n</tool_call>"),
            ("tool", f"<tool_response>\n{json.dumps({'content': result})}\n</tool_response>"),
        ]
    said.append(("assistant", f"<think>\nDone.\n</think>\n\n{answer}"))
    row["prompt"] = [{"role": role, "content": content} for role, content in said]
    return row


def processed_row(calls: Sequence[Call] = (QUOTE,), answer: str = "There it is.") -> dict[str, Any]:
    """As in `data/processed`: the conversation is in `extra_info`, calls are JSON texts."""
    row = stored_row("processed_row")
    names = [name for name, *_ in calls]
    truth = row["reward_spec"]["ground_truth"]
    truth |= {"tool_sequence": names, "final_state": {"tools_executed": len(names)}, "expected_tools": names}
    truth["success_criteria"]["expected_tools"] = names
    conversation = row["extra_info"]["original_conversation"]
    for name, arguments, result in calls:
        call = json.dumps({"function_call": {"name": name, "arguments": arguments}})
        output = f"Function result: {json.dumps({'function_name': name, 'result': result})}"
        conversation += [{"role": "assistant", "content": call}, {"role": "tool", "content": output}]
    conversation.append({"role": "assistant", "content": answer})
    return row
