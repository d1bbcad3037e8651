"""The tools of servers, each started once: names, costs in tokens, isolation, failures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from turnwise.mcp.calls.results import estimate_tokens
from turnwise.mcp.pool import Pool
from turnwise.mcp.processes.exposure import Exposure, refusal
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Tool


@dataclass(frozen=True, slots=True)
class ToolListing:
    """Servers by name: their tools and isolation, or why they could not be reached."""

    tools: Mapping[str, Sequence[Tool]]
    isolation: Mapping[str, str]
    exposures: Mapping[str, Exposure]
    """What an episode could change through each server that was reached."""
    failures: Mapping[str, str]

    @property
    def problems(self) -> dict[str, str]:
        """By server, why no episode may use it: it was not reached, or could change the user's own data."""
        refused = {
            name: refusal(exposure) for name, exposure in self.exposures.items() if exposure.is_refused
        }
        return {**self.failures, **refused}

    def as_json(self) -> dict[str, Any]:
        servers: dict[str, Any] = {}
        for server, tools in self.tools.items():
            described = [{**asdict(tool), "num_tokens": num_tokens(tool)} for tool in tools]
            servers[server] = {
                "isolation": self.isolation[server],
                "changes": str(self.exposures[server]),
                "tools": described,
            }
        for server, message in self.failures.items():
            servers[server] = {"error": message}
        return {"servers": servers}


def num_tokens(tool: Tool) -> int:
    """Estimate, without a tokenizer, the tokens of a tool in a prompt: its function schema as JSON."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return estimate_tokens(json.dumps({"type": "function", "function": function}, ensure_ascii=False))


async def list_tools(specs: Sequence[ServerSpec]) -> ToolListing:
    """Start every server once and ask it for its tools."""
    async with Pool(specs) as pool:
        failures = await pool.connect()
        reached = [spec.name for spec in specs if spec.name not in failures]
        return ToolListing(
            tools={name: [tool for tool in pool.tools if tool.server == name] for name in reached},
            isolation={name: str(pool.isolation(name)) for name in reached},
            exposures={name: pool.exposure(name) for name in reached},
            failures={name: str(error) for name, error in failures.items()},
        )
