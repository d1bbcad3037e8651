"""Play one episode: the turns of a model and its tools, up to the trajectory."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace

from turnwise.rollout.conversation import PLAIN, Conversation, EpisodeRules
from turnwise.rollout.earlier_attempts import earlier_turn, num_ended_alike
from turnwise.rollout.episode_clock import EpisodeClock
from turnwise.tasks.user_side import UserMessage
from turnwise.types import Completion, Finish, Parsed, Sampling, ServerLoss, Stop, Task, Trajectory, Turn
from turnwise.types.protocols import (
    Chat,
    Engine,
    EngineDown,
    EnvironmentDown,
    EnvironmentSlow,
    Toolbox,
    UserDown,
    UserModel,
)


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Limits that end an episode if the model does not."""

    tokens_per_turn: int = 512
    tokens_per_episode: int = 4_096
    """Prompts, completions and tool output together."""
    seconds: float = 300.0
    """Time of an episode's calls, and apart from it the time of everything else."""


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
    user_model: UserModel | None = None,
    given: Sequence[Sequence[int]] = (),
    rules: EpisodeRules = PLAIN,
    lost: Sequence[Trajectory] = (),
) -> Trajectory:
    """Render → complete → parse → call → observe, until the last answer, a limit or an infrastructure fault.

    `given`: completions of the demonstration's first turns. They are played for the model, with real calls.
    `lost`: its attempts that infrastructure ended; their turns are repeated while the model reads the same.
    Cancellation is raised; every other outcome is a `Stop`.
    """
    conversation = Conversation(
        task, toolbox, episode_id=episode_id, seed=seed, user_model=user_model, rules=rules, lost=lost
    )
    return await finish_episode(
        _play_turns(conversation, engine, chat, seed, limits, sampling, given),
        conversation,
        limits=limits,
        temperature=sampling.temperature,
    )


async def finish_episode(
    playing: Coroutine[None, None, Stop],
    conversation: Conversation,
    *,
    limits: EpisodeLimits,
    temperature: float = 1.0,
) -> Trajectory:
    """Await the turns, run the probes of the last exchange, and build the trajectory."""
    started = time.perf_counter()
    stop, user_losses = await _stop_of(playing, conversation, limits)
    if not (stop.is_infrastructure or stop.is_forfeit):
        stop = await conversation.probe(conversation.message) or stop
    scores: Mapping[str, float | str] = {}
    if not (stop.is_infrastructure or stop.is_forfeit):
        try:
            scores = await conversation.toolbox.environment.score()
        except EnvironmentDown as error:
            stop = _environment_stop(conversation, error)
    return Trajectory(
        task=conversation.task,
        episode_id=conversation.episode_id,
        seed=conversation.seed,
        turns=tuple(conversation.turns),
        stop=stop,
        tools=tuple(conversation.toolbox.tools),
        probes=tuple(conversation.probes),
        losses=(*conversation.toolbox.losses, *user_losses),
        seconds=time.perf_counter() - started,
        temperature=temperature,
        scores={name: value for name, value in scores.items() if not isinstance(value, str)},
        notes={name: value for name, value in scores.items() if isinstance(value, str)},
        endings=tuple(conversation.endings),
        last_reply=conversation.last_reply,
    )


async def _stop_of(
    playing: Coroutine[None, None, Stop], conversation: Conversation, limits: EpisodeLimits
) -> tuple[Stop, tuple[ServerLoss, ...]]:
    """Await the turns; return why they ended, and the loss of the user's model."""
    clock = EpisodeClock(limits.seconds, lambda: conversation.toolbox.busy_seconds)
    try:
        async with clock.limited():
            return await playing, ()
    except TimeoutError:
        return Stop.SLOW_CALLS if clock.has_slow_calls else Stop.TIME_UP, ()
    except EngineDown:
        return Stop.ENGINE_DOWN, ()
    except EnvironmentDown as error:
        return _environment_stop(conversation, error), ()
    except UserDown as error:
        return Stop.USER_DOWN, (ServerLoss("user", str(error)),)


def _environment_stop(conversation: Conversation, error: EnvironmentDown) -> Stop:
    """Return whose fault it is: a method that takes too long after the same turns again is the model's."""
    is_again = num_ended_alike(conversation.lost, conversation.turns, Stop.ENVIRONMENT_DOWN) > 0
    return Stop.BROKE_SERVER if is_again and isinstance(error, EnvironmentSlow) else Stop.ENVIRONMENT_DOWN


def player(
    engine: Engine,
    chat: Chat,
    limits: EpisodeLimits,
    sampling: Callable[[Task], Sampling] = lambda task: Sampling(),
    user_model: UserModel | None = None,
    given: Callable[[Task], Sequence[Sequence[int]]] = lambda task: (),
    rules: EpisodeRules = PLAIN,
) -> Callable[[Task, Toolbox, str, int, Sequence[Trajectory]], Awaitable[Trajectory]]:
    """A player for a Collector: `play` with all but the task, its tools, the id, the seed and `lost` bound.

    `given`: completions of its demonstration's first turns, which an episode of the task starts with.
    """

    async def play_one(
        task: Task, toolbox: Toolbox, episode_id: str, seed: int, lost: Sequence[Trajectory] = ()
    ) -> Trajectory:
        return await play(
            task,
            engine,
            chat,
            toolbox,
            episode_id=episode_id,
            seed=seed,
            limits=limits,
            sampling=sampling(task),
            user_model=user_model,
            given=given(task),
            rules=rules,
            lost=lost,
        )

    return play_one


async def _play_turns(
    conversation: Conversation,
    engine: Engine,
    chat: Chat,
    seed: int,
    limits: EpisodeLimits,
    sampling: Sampling,
    given: Sequence[Sequence[int]],
) -> Stop:
    turns, task = conversation.turns, conversation.task
    ids: list[int] = []
    begun = await _play_given(conversation, chat, ids, given)
    if isinstance(begun, Stop):
        return begun
    new_ids, said = begun
    for number in range(len(turns), task.turn_limit):
        ids += new_ids
        room = limits.tokens_per_episode - len(ids)
        if room < 1:
            return Stop.CONTEXT_FULL
        max_tokens = min(limits.tokens_per_turn, room)
        earlier = earlier_turn(conversation.lost, turns, new_ids, said)
        if earlier is not None:
            completion, seconds = earlier.completion, earlier.engine_seconds
        else:
            wanted = replace(sampling, max_tokens=max_tokens, stop_ids=chat.stop_ids)
            started = time.perf_counter()
            completion = await engine.complete(ids, wanted, turn_seed(seed, number))
            seconds = time.perf_counter() - started
        is_cut = completion.finish is Finish.LENGTH
        parsed = with_call_ids(chat.parse(completion.token_ids, ids, is_cut=is_cut), number)
        message = conversation.message
        turns.append(
            Turn(tuple(new_ids), completion, parsed, engine_seconds=seconds, user=said, message=message)
        )
        ids += completion.token_ids
        if is_cut and max_tokens == room:
            return Stop.CONTEXT_FULL
        reached = await conversation.advance()
        if isinstance(reached, Stop):
            return reached
        said = reached.text if reached is not None else ""
        new_ids = next_ids(chat, ids, turns[-1], reached)
    return Stop.MAX_TURNS


async def _play_given(
    conversation: Conversation, chat: Chat, ids: list[int], given: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], str] | Stop:
    """Play given turns, and extend `ids` by what is read and said in them.

    Return the ids that follow them and what the user says, or why the episode ended.
    """
    said = ""
    new_ids = tuple(chat.open(conversation.task.prompt, conversation.tools))
    for number, spoken in enumerate(given):
        parsed = with_call_ids(chat.parse(spoken, [*ids, *new_ids], is_cut=False), number)
        read, nothing = (*new_ids, *spoken), Completion((), (), Finish.STOP, 0)
        message = conversation.message
        conversation.turns.append(Turn(read, nothing, parsed, user=said, message=message, is_given=True))
        ids += read
        reached = await conversation.advance()
        if isinstance(reached, Stop):
            return reached
        said = reached.text if reached is not None else ""
        new_ids = next_ids(chat, ids, conversation.turns[-1], reached)
    return new_ids, said


def next_ids(chat: Chat, ids: Sequence[int], turn: Turn, said: UserMessage | None) -> tuple[int, ...]:
    """The ids between a turn and the next: the results of its calls, what the user says, or both."""
    observed = observations(turn)
    new_ids = chat.extend(ids, observed) if observed else ()
    if said is None:
        return new_ids
    # After results, `follow` ends the turn that they open: the model said nothing in it.
    return (*new_ids, *chat.follow([*ids, *new_ids], said.text, said.added, said.withdrawn))


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
