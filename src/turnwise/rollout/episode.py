"""Play one episode: the turns of a model and its tools, up to the trajectory."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace

from turnwise.protocols import PROBE_TOKENS, Chat, Engine, EngineDown, EnvironmentDown, Toolbox
from turnwise.types import (
    Fault,
    Finish,
    FormatErrorKind,
    Parsed,
    ProbeResult,
    Sampling,
    Stop,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Limits that end an episode if the model does not."""

    tokens_per_turn: int = 512
    tokens_per_episode: int = 4_096
    """Prompts, completions and tool output together."""
    seconds: float = 300.0
    """Wall time of one episode, including waits for the engine and for tools."""


async def play(
    task: Task,
    engine: Engine,
    chat: Chat,
    toolbox: Toolbox,
    *,
    episode_id: str,
    seed: int,
    limits: EpisodeLimits,
    sampling: Sampling,
) -> Trajectory:
    """Render → complete → parse → call → observe, until an answer, a limit or an infrastructure fault.

    Cancellation is raised; every other outcome is a `Stop`.
    """
    turns: list[Turn] = []
    playing = _play_turns(task, engine, chat, toolbox, turns, seed, limits, sampling)
    return await finish_episode(
        playing,
        turns,
        task,
        toolbox,
        episode_id=episode_id,
        seed=seed,
        limits=limits,
        temperature=sampling.temperature,
    )


async def finish_episode(
    playing: Coroutine[None, None, Stop],
    turns: list[Turn],
    task: Task,
    toolbox: Toolbox,
    *,
    episode_id: str,
    seed: int,
    limits: EpisodeLimits,
    temperature: float = 1.0,
) -> Trajectory:
    """Await the turns, run the probes of the task, and build the trajectory."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(limits.seconds):
            stop = await playing
    except TimeoutError:
        stop = Stop.TIME_UP
    except EngineDown:
        stop = Stop.ENGINE_DOWN
    except EnvironmentDown:
        stop = Stop.ENVIRONMENT_DOWN
    probes: tuple[ProbeResult, ...] = ()
    if not stop.is_infrastructure:
        probes, is_down = await _probe(task, toolbox)
        stop = Stop.TOOL_DOWN if is_down else stop
    scores: Mapping[str, float] = {}
    if not stop.is_infrastructure:
        try:
            scores = await toolbox.environment.score()
        except EnvironmentDown:
            stop = Stop.ENVIRONMENT_DOWN
    return Trajectory(
        task=task,
        episode_id=episode_id,
        seed=seed,
        turns=tuple(turns),
        stop=stop,
        tools=tuple(toolbox.tools),
        probes=probes,
        losses=tuple(toolbox.losses),
        seconds=time.perf_counter() - started,
        temperature=temperature,
        scores=scores,
    )


def player(
    engine: Engine, chat: Chat, limits: EpisodeLimits, sampling: Sampling
) -> Callable[[Task, Toolbox, str, int], Awaitable[Trajectory]]:
    """A player for a Collector: `play` with engine, chat, limits and sampling bound."""

    async def play_one(task: Task, toolbox: Toolbox, episode_id: str, seed: int) -> Trajectory:
        return await play(
            task, engine, chat, toolbox, episode_id=episode_id, seed=seed, limits=limits, sampling=sampling
        )

    return play_one


async def _play_turns(
    task: Task,
    engine: Engine,
    chat: Chat,
    toolbox: Toolbox,
    turns: list[Turn],
    seed: int,
    limits: EpisodeLimits,
    sampling: Sampling,
) -> Stop:
    new_ids = chat.open(task.prompt, toolbox.tools)
    ids: list[int] = []
    said = ""
    for number in range(task.turn_limit):
        ids += new_ids
        room = limits.tokens_per_episode - len(ids)
        if room < 1:
            return Stop.CONTEXT_FULL
        max_tokens = min(limits.tokens_per_turn, room)
        wanted = replace(sampling, max_tokens=max_tokens, stop_ids=chat.stop_ids)
        started = time.perf_counter()
        completion = await engine.complete(ids, wanted, turn_seed(seed, number))
        engine_seconds = time.perf_counter() - started
        is_cut = completion.finish is Finish.LENGTH
        parsed = with_call_ids(chat.parse(completion.token_ids, ids, is_cut=is_cut), number)
        turns.append(Turn(tuple(new_ids), completion, parsed, engine_seconds=engine_seconds, user=said))
        ids += completion.token_ids
        if is_cut and max_tokens == room:
            return Stop.CONTEXT_FULL
        turns[-1], said, stop = await respond(turns[-1], toolbox)
        if stop is not None:
            return stop
        new_ids = chat.follow(ids, said) if said else chat.extend(ids, observations(turns[-1]))
    return Stop.MAX_TURNS


async def respond(turn: Turn, toolbox: Toolbox) -> tuple[Turn, str, Stop | None]:
    """Make the calls of the turn, or reply to its text: the turn, the reply, and a Stop if the episode ends.

    The reply is empty after calls and format errors: `observations` has what the model reads then.
    """
    turn, stop = await execute_calls(turn, toolbox)
    said = ""
    if stop is Stop.ANSWERED:
        started = time.perf_counter()
        said = await toolbox.environment.hear(turn.parsed.text)
        turn = replace(turn, tool_seconds=time.perf_counter() - started)
        stop = None if said else stop
    return turn, said, Stop.ENDED if toolbox.environment.is_over else stop


async def execute_calls(turn: Turn, toolbox: Toolbox) -> tuple[Turn, Stop | None]:
    """Make the calls of the turn; a Stop means that the episode ends with this turn."""
    parsed = turn.parsed
    if parsed.error is not None and parsed.error.kind is FormatErrorKind.TRUNCATED:
        return turn, Stop.TRUNCATED
    if parsed.error is not None:
        return turn, None
    if not parsed.calls:
        return turn, Stop.ANSWERED
    started = time.perf_counter()
    results = tuple(await toolbox.call(parsed.calls))
    acted = replace(turn, results=results, tool_seconds=time.perf_counter() - started)
    is_down = any(result.fault is Fault.INFRA for result in results)
    return acted, Stop.TOOL_DOWN if is_down else None


def observations(turn: Turn) -> list[tuple[str, str]]:
    """The next input of the model: the results of its calls, or the format error of its turn."""
    if turn.parsed.error is not None:
        return [("", f"error: {turn.parsed.error.message}")]
    pairs = zip(turn.parsed.calls, turn.results, strict=True)
    return [(call.name, result.content) for call, result in pairs]


def turn_seed(seed: int, number: int) -> int:
    """A separate random stream per turn; the large odd factor keeps the streams of different seeds apart."""
    return (seed * 0x9E3779B97F4A7C15 + number) % 2**63


def with_call_ids(parsed: Parsed, number: int) -> Parsed:
    """The turn with call ids that are unique in the episode: `turn.position`."""
    calls = tuple(replace(call, id=f"{number}.{position}") for position, call in enumerate(parsed.calls))
    return replace(parsed, calls=calls)


async def _probe(task: Task, toolbox: Toolbox) -> tuple[tuple[ProbeResult, ...], bool]:
    """Call the probes, which read the final state of the servers; True if a server failed."""
    probes = task.truth.probes
    if not probes:
        return (), False
    calls = [ToolCall(f"probe.{number}", probe.tool, probe.arguments) for number, probe in enumerate(probes)]
    results = await toolbox.call(calls, max_tokens=PROBE_TOKENS)
    answers = tuple(
        ProbeResult(probe, result.content, result.is_error)
        for probe, result in zip(probes, results, strict=True)
    )
    return answers, any(result.fault is Fault.INFRA for result in results)
