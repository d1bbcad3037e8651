"""Rows in the layouts of the older system, about companies of the embedded world."""

import json
from collections.abc import Sequence
from typing import Any

OFFERED = ["list_slack_channels", "send_slack_message", "fmp_get_quote", "fmp_get_company_profile"]

Call = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and what the server of that day returned."""

QUOTE: Call = ("fmp_get_quote", {"symbol": "KALDJ"}, "**KALDJ**\nPrice: $213.88")
CHANNELS: Call = ("list_slack_channels", {}, "**Available Public Channels found:** #general")
FAILED: Call = ("fmp_get_quote", {"symbol": "NOSUCH"}, "Error getting the quote of NOSUCH")


def inputs_row(
    task_id: str = "a01",
    calls: Sequence[Call] = (QUOTE, CHANNELS),
    answer: str = "The quote and the channels are there.",
    **criteria: Any,
) -> dict[str, Any]:
    """As in `data/inputs`: the conversation is the prompt, thoughts and calls are messages of their own."""
    question = f"Look up the quote of KALDJ and list the channels ({task_id})."
    metadata = {"task_id": task_id, "category": "a", "complexity": "easy", "question": question}
    wanted = {
        "min_tool_calls": 2,
        "reasoning_quality_threshold": 60,
        "error_recovery_demonstrated": False,
        "expected_tools": ["fmp_get_quote"],
    }
    return {
        "data_source": "synthetic",
        "prompt": [{"role": "user", "content": question}, *_messages(calls), *_answer(answer)],
        "env_class": "financial_tool_agent",
        "reward_spec": {
            "method": "rule",
            "ground_truth": {
                "success_criteria": wanted | criteria,
                "actual_performance": {
                    "tool_calls_made": len(calls),
                    "reasoning_score": 95,
                    "extracted_tool_sequence": [name for name, *_ in calls],
                },
            },
        },
        "extra_info": {
            "timestamp": "2026-01-01T00:00:00",
            "complexity": "easy",
            "query_complexity": 21,
            "tools_available": OFFERED,
            "task_metadata": metadata,
            "execution_metrics": {"max_iterations_allowed": 8, "min_tool_calls_required": 2},
        },
        "task_metadata": metadata,
    }


def processed_row(calls: Sequence[Call] = (QUOTE,), answer: str = "There it is.") -> dict[str, Any]:
    """As in `data/processed`: the conversation is in `extra_info`, calls are JSON texts."""
    names = [name for name, *_ in calls]
    conversation: list[dict[str, Any]] = [
        {"role": "system", "content": "You have tools."},
        {"role": "user", "content": "What is the quote of KALDJ?"},
    ]
    for name, arguments, result in calls:
        call = {"function_call": {"name": name, "arguments": arguments}}
        said = f"Function result: {json.dumps({'function_name': name, 'result': result})}"
        conversation += [
            {"role": "assistant", "content": json.dumps(call)},
            {"role": "tool", "content": said},
        ]
    return {
        "prompt": [{"role": "user", "content": "What is the quote of KALDJ?"}],
        "reward_spec": {
            "ground_truth": {
                "tool_sequence": names,
                "final_state": {"tools_executed": len(names)},
                "expected_tools": names,
                "success_criteria": {
                    "must_use_tools": [],
                    "expected_outcome": None,
                    "validation_rules": [],
                    "expected_tools": names,
                },
            }
        },
        "extra_info": {
            "task_id": "d03",
            "complexity": "medium",
            "category": "general",
            "split": "train",
            "original_conversation": [*conversation, {"role": "assistant", "content": answer}],
        },
    }


def _messages(calls: Sequence[Call]) -> list[dict[str, str]]:
    messages = []
    for name, arguments, result in calls:
        call = json.dumps({"name": name, "arguments": arguments})
        messages += [
            {"role": "assistant", "content": "<think>\nThe next call.\n</think>"},
            {"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"},
            {
                "role": "tool",
                "content": f"<tool_response>\n{json.dumps({'content': result})}\n</tool_response>",
            },
        ]
    return messages


def _answer(answer: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": f"<think>\nDone.\n</think>\n\n{answer}"}]
