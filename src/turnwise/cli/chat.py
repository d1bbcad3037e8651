"""`turnwise chat`: a conversation with the agent and its real tools."""

import asyncio
import itertools
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from turnwise.config.sampling import check_temperature
from turnwise.rollout.collector import LeaseFailed
from turnwise.rollout.players.policy import observations, turn_seed, with_call_ids
from turnwise.setup.agent import Agent
from turnwise.setup.bench import Workbench, open_workbench
from turnwise.system.terminal import printable
from turnwise.types import Finish, Message, Parsed, Sampling, Task, ToolCall, ToolResult, Truth, Turn
from turnwise.types.protocols import EngineDown, Toolbox

MAX_TURNS = 10
"""The most turns the model takes per message: as many as the hardest tasks allow."""
HELP = "/new starts over, /quit or Ctrl-D leaves"

_RESULT_CHARS = 600


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A tool call and its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Halted:
    """Why the model stopped without an answer."""

    reason: str


class Talk:
    """One conversation: its token ids so far, and the tools of its lease."""

    def __init__(self, bench: Workbench, toolbox: Toolbox, *, temperature: float) -> None:
        self._bench = bench
        self._toolbox = toolbox
        self._sampling = Sampling(temperature=temperature, stop_ids=bench.chat.stop_ids)
        self._ids: list[int] = []
        self._num_turns = 0

    async def reply(self, text: str) -> AsyncIterator[Parsed | FinishedCall | Halted]:
        """Yield the model's turns and tool results for a message, as they happen, until it answers."""
        chat, limits = self._bench.chat, self._bench.run.limits()
        if self._ids:
            self._ids += chat.follow(self._ids, text)
        else:
            self._ids += chat.open([Message("user", text)], self._toolbox.tools)
        for _ in range(MAX_TURNS):
            room = limits.tokens_per_episode - len(self._ids)
            if room < 1:
                yield Halted(f"the conversation is longer than {limits.tokens_per_episode} tokens; {HELP}")
                return
            turn = await self._speak(min(limits.tokens_per_turn, room))
            yield turn.parsed
            if turn.completion.finish is Finish.LENGTH:
                yield Halted(f"cut off after {len(turn.completion.token_ids)} tokens")
                return
            if turn.parsed.error is None and not turn.parsed.calls:
                return
            if turn.parsed.calls:
                results = tuple(await self._toolbox.call(turn.parsed.calls))
                turn = replace(turn, results=results)
                for call, result in zip(turn.parsed.calls, results, strict=True):
                    yield FinishedCall(call, result)
            self._ids += chat.extend(self._ids, observations(turn))
        yield Halted(f"no answer after {MAX_TURNS} turns")

    async def _speak(self, max_tokens: int) -> Turn:
        chat = self._bench.chat
        sampling = replace(self._sampling, max_tokens=max_tokens)
        seed = turn_seed(self._bench.recipe.seed, self._num_turns)
        completion = await self._bench.engine.complete(self._ids, sampling, seed)
        is_cut = completion.finish is Finish.LENGTH
        parsed = with_call_ids(chat.parse(completion.token_ids, self._ids, is_cut=is_cut), self._num_turns)
        self._ids += completion.token_ids
        self._num_turns += 1
        return Turn((), completion, parsed)


async def talk(
    agent: Agent,
    *,
    temperature: float,
    console: Console,
    ask: Callable[[], Awaitable[str | None]],
) -> None:
    """Chat until `ask` returns None. Every conversation has a new lease, so no tool state carries over."""
    check_temperature(temperature)
    recipe = agent.run.recipe
    if recipe.environment:
        raise ValueError(
            f"environment is {recipe.environment!r}, which replies in place of a user: play it with "
            "`turnwise rollout`"
        )
    tasks = agent.run.tasks.get("train", ())
    # Nothing is scored here and a person is the user, so no judge, reward module or user's model is needed.
    run = agent.run.changed({"rewards": [{"name": "outcome"}], "user": {}})
    run.announce()
    shown = [task for task in tasks if task.demonstration] if recipe.engine.kind == "scripted" else ()
    offered = _like(tasks[0] if tasks else None)
    async with open_workbench(run, shown, model=agent.model) as bench:
        for number in itertools.count():
            try:
                async with bench.lease(offered, f"talk/{number}") as toolbox:
                    names = ", ".join(tool.name for tool in toolbox.tools)
                    _say(console, f"tools: {names or 'none'}\n{HELP}", "dim")
                    if await _converse(Talk(bench, toolbox, temperature=temperature), console, ask):
                        return
            except LeaseFailed as error:
                raise ValueError(str(error)) from None


async def _converse(talk: Talk, console: Console, ask: Callable[[], Awaitable[str | None]]) -> bool:
    """Hold one conversation; return True if the user wants to leave."""
    while (line := await ask()) is not None:
        text = line.strip()
        if text == "/quit":
            return True
        if text == "/new":
            return False
        if text.startswith("/"):
            _say(console, HELP, "dim")
        elif text:
            await _answer(talk, text, console)
    return True


async def _answer(talk: Talk, text: str, console: Console) -> None:
    try:
        async for event in talk.reply(text):
            match event:
                case Parsed():
                    _show_turn(event, console)
                case FinishedCall(_, result):
                    note = f"  {result.cause}, {result.seconds * 1000:.0f} ms: "
                    style = "red" if result.is_error else "green"
                    _say(console, result.content[:_RESULT_CHARS], style, label=note)
                case Halted(reason):
                    _say(console, reason, "yellow")
    except (EngineDown, LookupError, ValueError) as error:  # LookupError: a script has ended
        _say(console, f"{error}; {HELP}", "red")


def _show_turn(parsed: Parsed, console: Console) -> None:
    if parsed.reasoning:
        _say(console, parsed.reasoning, "italic dim", label="thought: ")
    if parsed.text:
        _say(console, parsed.text, "bold")
    if parsed.error is not None:
        _say(console, parsed.error.message, "red", label=f"{parsed.error.kind}: ")
    for call in parsed.calls:
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        _say(console, f"{call.name} {arguments}", "cyan", label="  calls ")


def _say(console: Console, text: str, style: str, *, label: str = "") -> None:
    """Print text of models and tools without interpreting markup or escapes."""
    console.print(Text.assemble((label, "dim"), (printable(text), style)), soft_wrap=True)


def _like(task: Task | None) -> Task:
    """Return a task that offers the same tools as the given one, or all tools if there is none."""
    if task is None:
        return Task("talk", (), (), Truth())
    return Task("talk", (), task.servers, Truth(), task.tools)


def lines_of(prompt: str) -> Callable[[], Awaitable[str | None]]:
    """Return a function that asks for a line on the terminal or reads it from a pipe; None at the end."""

    async def ask() -> str | None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()

        def settle(line: str | None) -> None:
            if not answer.done():
                answer.set_result(line)

        def read_line() -> None:
            try:
                line: str | None = input(prompt if sys.stdin.isatty() else "")
            except (EOFError, UnicodeDecodeError):
                line = None
            loop.call_soon_threadsafe(settle, line)

        # A daemon thread, so that Ctrl-C does not wait for another line.
        threading.Thread(target=read_line, name="turnwise-input", daemon=True).start()
        return await answer

    return ask
