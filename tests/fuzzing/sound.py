"""Valid inputs of every kind, for the fuzzer to damage."""

from functools import cache
from typing import Any

from pydantic import TypeAdapter

from turnwise.types import (
    Answer,
    Cause,
    Completion,
    Finish,
    Message,
    Parsed,
    Stop,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
    Truth,
    Turn,
)

MCP_JSON = {
    "mcpServers": {
        "files": {
            "command": "npx",
            "args": ["-y", "server", "${HOME}", "--token=${TOKEN:-x}"],
            "env": {"KEY": "${KEY:-sk-123456}"},
            "cwd": ".",
            "turnwise": {"isolation": "process", "num_warm": 1, "allow": ["read_*"], "timeout_seconds": 5.0},
        },
        "web": {"url": "https://example.com/mcp?key=1", "headers": {"Authorization": "Bearer x"}},
    }
}

RECIPE = """
seed = 3
[model]
path = "embedded"
[rollout]
group_size = 4
temperature = 1.0
final_temperature = 0.5
seconds = 30.0
[[rewards]]
name = "outcome"
weight = 1.0
[curriculum]
kind = "schedule"
points = [[0, [1.0, 0.0, 0.0]], [10, [0.0, 1.0, 0.0]]]
[algorithm]
preset = "grpo"
"""

SETTINGS = (
    "rollout.temperature",
    "rollout.group_size",
    "seed",
    "model.path",
    "engine.kind",
    "rewards",
    "a.b.c",
)

TASK = {
    "id": "t1",
    "prompt": [{"role": "user", "content": "What does ACME cost?"}],
    "servers": ["market"],
    "truth": {
        "answer": {"value": 3.5, "matcher": "numeric", "tolerance": 0.01, "unit": "USD"},
        "writes": [{"tool": "post", "arguments": {"text": "x"}}],
        "probes": [{"tool": "read", "arguments": {}, "contains": "x", "lacks": "y"}],
        "required_tools": ["quote"],
        "min_tool_calls": 1,
    },
    "difficulty": "easy",
    "max_turns": 4,
    "seed": 7,
    "demonstration": [
        {
            "text": "",
            "calls": [{"id": "c", "name": "quote", "arguments": {"symbol": "ACME"}}],
            "results": [{"call_id": "c", "content": "3.5"}],
        }
    ],
}

LEGACY_TASK = {
    "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "What does ACME cost?"}],
    "reward_spec": {
        "ground_truth": {
            "answer": "3.5",
            "success_criteria": {"must_use_tools": ["quote"], "min_tool_calls": 1, "tone": {"kind": True}},
            "tool_sequence": [{"tool": "quote", "server": "market"}],
            "actual_performance": {"extracted_tool_sequence": ["quote"]},
        }
    },
    "extra_info": {
        "task_metadata": {"complexity": "easy", "category": "quotes", "task_id": "a01"},
        "tools_available": ["quote"],
        "max_turns": 5,
        "split": "train",
        "execution_metrics": {"complexity_config_used": {"max_iterations": 3}},
        "original_conversation": [
            {"role": "user", "content": "What does ACME cost?"},
            {
                "role": "assistant",
                "content": '<tool_call>{"name": "quote", "arguments": {"symbol": "ACME"}}</tool_call>',
                "tool_calls": [{"function": {"name": "quote", "arguments": '{"symbol": "ACME"}'}}],
            },
            {"role": "tool", "content": '{"result": "3.5"}'},
            {"role": "assistant", "content": "It costs 3.5."},
        ],
    },
}

SCHEMA = {
    "type": "object",
    "properties": {
        "symbol": {"type": "string", "enum": ["A", "B"], "pattern": "^(a+)+$"},
        "days": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "uniqueItems": True, "minItems": 1},
    },
    "required": ["symbol"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "properties": {"a": {"$ref": "#/$defs/item"}}, "minProperties": 0}},
}
ARGUMENTS = {"symbol": "A", "days": 3, "items": [{"a": {}}, 1, 1.0, True]}

RPC = (
    {"jsonrpc": "2.0", "id": 3, "result": {"content": [{"type": "text", "text": "x"}], "isError": False}},
    {"jsonrpc": "2.0", "id": 4, "error": {"code": -32600, "message": "no", "data": [1]}},
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
    {"jsonrpc": "2.0", "id": "a", "method": "sampling/createMessage", "params": {}},
)

REPLY = {
    "choices": [
        {
            "message": {
                "content": "x",
                "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}

ASKS = {
    "holding": "",
    "asks": [
        {"prompt_ids": [1, 2], "max_tokens": 4, "temperature": 1.0, "top_p": 0.9, "stop_ids": [2], "seed": 5}
    ],
}
ENGINE_LINE = {"number": 0, "token_ids": [1, 2], "logprobs": [-0.5, -1.0], "finish": "stop"}
ENGINE_STATE = {
    **{"protocol": 1, "kind": "transformers", "model": "m", "holding": "", "base": "", "version": 0},
    **{"takes_batches": True, "max_weights_bytes": 100},
}

METRICS_LINE = {
    "step": 1,
    "kind": "train",
    "time": 1.5,
    "metrics": {"reward/mean": 0.5, "loss": None},
    "histograms": {"ratio": {"edges": [0.0, 1.0], "counts": [1, 2, 3]}},
    "alarms": [{"name": "kl", "level": "warn", "value": 1.0, "threshold": 0.5, "message": "high"}],
}
TOKENS_LINE = {
    **{"step": 1, "episode": "t1/0.0", "num_tokens": 2, "old": [-1.0, -1.0], "new": [-1.0, -1.0]},
    **{"ratio": 1.0, "advantage": 0.5, "clip": ".."},
}
TOOL = {
    **{"name": "quote", "server": "market", "server_tool": "quote", "description": "", "input_schema": {}},
    **{"is_read_only": True, "is_idempotent": True},
}
CASSETTE_LINES = (
    {"v": 1, "kind": "tools", "server": "market", "tools": [TOOL]},
    {
        **{"v": 1, "kind": "call", "index": 0, "episode": "e", "server": "market", "tool": "quote"},
        **{"arguments": "{}", "state": "", "occurrence": 0, "content": "3.5", "cause": "ok", "seconds": 0.1},
    },
)


@cache
def trajectory_lines() -> tuple[dict[str, Any], ...]:
    """The two lines of a stored episode, as a run writes them."""
    call, result = ToolCall("c0", "quote", {"symbol": "ACME"}), ToolResult("c0", "3.5", Cause.OK, 0.1)
    turns = (
        Turn((1, 2), Completion((3,), (-0.5,), Finish.STOP, 1), Parsed(calls=(call,)), (result,), 0.5, 0.1),
        Turn((4,), Completion((5,), (-0.5,), Finish.STOP, 1), Parsed("It costs 3.5."), (), 0.5, 0.0),
    )
    task = Task("t1", (Message("user", "What does ACME cost?"),), ("market",), Truth(answer=Answer("3.5")))
    played = TypeAdapter(Trajectory).dump_python(
        Trajectory(task, "t1/0.0", 5, turns, Stop.ANSWERED, (), seconds=1.2), mode="json"
    )
    reward = {"total": 1.0, "parts": {"format": 1.0}}
    return (
        {"kind": "tools", "digest": "d", "tools": [TOOL]},
        {"kind": "trajectory", "step": 1, "reward": reward, "tools": "d", "trajectory": played},
    )
