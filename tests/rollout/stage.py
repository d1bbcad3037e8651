"""What rollout tests play with: a small Qwen3-style chat, real notebook servers, scripted completions."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.models.chat.tokenizers import qwen3
from turnwise.engines.scripted import ScriptedEngine
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.models.chat import RenderedChat, open_chat
from turnwise.rollout.collector import Collector, Lease, LeaseFailed
from turnwise.types import Answer, Group, Matcher, Message, Task, ToolCall, Truth

NOTEBOOK = Path(__file__).parents[1] / "mcp" / "servers" / "notebook.py"


def notebook(**options: Any) -> tuple[ServerSpec, ...]:
    block = {"command": sys.executable, "args": [str(NOTEBOOK)], "turnwise": options}
    return parse({"notebook": block}, {}, directory=Path.cwd())


def small_chat() -> RenderedChat:
    return open_chat(qwen3(), system_prompt="Use the tools.")


def task(name: str = "t", **more: Any) -> Task:
    prompt = (Message("user", f"Write {name} down, read it, say done."),)
    truth = Truth(answer=Answer("done", Matcher.NORMALISED))
    return Task(name, prompt, ("notebook",), truth, **more)


def tasks(count: int) -> list[Task]:
    return [task(f"t{number}") for number in range(count)]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("", name, arguments)


def script(chat: RenderedChat, *turns: str | Sequence[ToolCall]) -> list[tuple[int, ...]]:
    return [chat.say(turn) if isinstance(turn, str) else chat.say("", turn) for turn in turns]


def scripted(
    chat: RenderedChat, pool: Pool, tasks: Sequence[Task], turns: Callable[[Task], list[tuple[int, ...]]]
) -> ScriptedEngine:
    """An engine that plays `turns(task)` for every task, concurrently and again after a fault."""
    by_prompt = {chat.open(one.prompt, pool.tools): turns(one) for one in tasks}
    return ScriptedEngine(lambda text: chat.say(text)[:-1], min(chat.stop_ids), by_prompt=by_prompt)


async def gathered(collector: Collector, tasks: Iterable[Task], num_groups: int) -> list[Group]:
    async with asyncio.timeout(600), collector.collecting(tasks, num_groups) as groups:
        return [group async for group in groups]


def leasing(pool: Pool) -> Lease:
    @contextlib.asynccontextmanager
    async def lease(wanted: Task, episode_id: str) -> AsyncIterator[Any]:
        async with contextlib.AsyncExitStack() as leases:
            try:
                toolbox = await leases.enter_async_context(pool.lease(wanted.servers, episode_id))
            except ConnectFailed as error:
                raise LeaseFailed(str(error)) from None
            yield toolbox

    return lease
