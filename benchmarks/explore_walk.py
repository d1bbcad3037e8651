"""A random walk over the tools of a server: how many it reaches with no more than values that it has seen.

    python -m benchmarks.explore_walk mcp.json --calls 600

Every call takes a random tool and, for every parameter, a random value: of its schema, of an answer so far,
or drawn. A tool is reached when a call of it is answered without an error.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import load
from turnwise.types import Tool, ToolCall

WORD = re.compile(r"[\w@][\w@./:-]{0,60}[\w]")
RESTART = 80
"""Calls after which a fresh session begins."""


def values_in(data: Any) -> Iterator[Any]:
    """Yield the plain values of parsed JSON."""
    if isinstance(data, Mapping):
        for value in data.values():
            yield from values_in(value)
    elif isinstance(data, list):
        for value in data:
            yield from values_in(value)
    elif isinstance(data, str | int | float) and not isinstance(data, bool) and len(str(data)) < 200:
        yield data


def learn(text: str, known: list[Any]) -> None:
    """Keep the values of an answer."""
    try:
        found = list(values_in(json.loads(text)))
    except ValueError:
        found = WORD.findall(text)
    known += [value for value in dict.fromkeys(found) if value not in known][:200]


def drawn(schema: Mapping[str, Any], known: list[Any], rng: random.Random) -> Any:
    """Return a value for a parameter."""
    for key in ("enum", "examples"):
        if schema.get(key):
            return rng.choice(schema[key])
    texts = [value for value in known if isinstance(value, str)]
    numbers = [value for value in known if isinstance(value, int | float)]
    schema = rng.choice(schema.get("anyOf") or [schema])
    match schema.get("type"):
        case "object":
            return arguments(schema, known, rng)
        case "array":
            return [drawn(schema.get("items", {}), known, rng) for _ in range(rng.randint(1, 2))]
        case "boolean":
            return rng.random() < 0.5
        case "integer" | "number":
            return rng.choice(numbers) if numbers and rng.random() < 0.5 else rng.randint(0, 20)
    return rng.choice(texts) if texts and rng.random() < 0.9 else f"text {rng.randint(1, 99)}"


def arguments(schema: Mapping[str, Any], known: list[Any], rng: random.Random) -> dict[str, Any]:
    """Return arguments: the required ones, and now and then an optional one."""
    required = schema.get("required", ())
    return {
        name: drawn(one, known, rng)
        for name, one in schema.get("properties", {}).items()
        if name in required or rng.random() < 0.2
    }


async def walk(mcp: Path, num_calls: int, seconds: float, seed: int) -> tuple[list[Tool], set[str]]:
    """Walk over all servers; return the tools and the names of those that were reached."""
    rng, reached = random.Random(seed), set[str]()
    async with Pool(load(mcp)) as pool:
        await pool.connect()
        deadline = time.monotonic() + seconds
        for server in dict.fromkeys(tool.server for tool in pool.tools):
            tools = [tool for tool in pool.tools if tool.server == server]
            known: list[Any] = []
            for start in range(0, num_calls, RESTART):
                try:
                    async with pool.lease([server], f"walk/{server}/{start}") as toolbox:
                        for number in range(start, min(start + RESTART, num_calls)):
                            if time.monotonic() > deadline:
                                break
                            tool = rng.choice(tools)
                            call = ToolCall(f"{number}", tool.name, arguments(tool.input_schema, known, rng))
                            [answer] = await toolbox.call([call])
                            learn(answer.content, known)
                            reached |= set() if answer.is_error else {tool.name}
                except ConnectFailed:
                    break
        return list(pool.tools), reached


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mcp", type=Path, nargs="+")
    parser.add_argument("--calls", type=int, default=600, help="calls of each server")
    parser.add_argument("--seconds", type=float, default=120.0, help="time of each file")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for mcp in given.mcp:
        tools, reached = asyncio.run(walk(mcp, given.calls, given.seconds, given.seed))
        print(f"{mcp}: {len(reached)} of {len(tools)} tools", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
