"""Play an episode with an OpenAI-compatible endpoint, for evaluation and not for training.

Such an endpoint returns no token ids: its turns have none, and their `policy_version` is -1.
"""

import time
from collections.abc import Awaitable, Callable

from turnwise.engines.openai import ChatMessage, OpenAIEndpoint
from turnwise.protocols import Toolbox
from turnwise.rollout.episode import EpisodeLimits, finish_episode, respond, turn_seed, with_call_ids
from turnwise.types import Completion, Stop, Task, Trajectory, Turn

NO_POLICY = -1


def endpoint_player(
    endpoint: OpenAIEndpoint, limits: EpisodeLimits, temperature: float, system_prompt: str
) -> Callable[[Task, Toolbox, str, int], Awaitable[Trajectory]]:
    """A player for a Collector that samples from the endpoint."""

    async def play_one(task: Task, toolbox: Toolbox, episode_id: str, seed: int) -> Trajectory:
        turns: list[Turn] = []
        playing = _play_turns(task, endpoint, toolbox, turns, seed, limits, temperature, system_prompt)
        return await finish_episode(
            playing,
            turns,
            task,
            toolbox,
            episode_id=episode_id,
            seed=seed,
            limits=limits,
            temperature=temperature,
        )

    return play_one


async def _play_turns(
    task: Task,
    endpoint: OpenAIEndpoint,
    toolbox: Toolbox,
    turns: list[Turn],
    seed: int,
    limits: EpisodeLimits,
    temperature: float,
    system_prompt: str,
) -> Stop:
    messages = [ChatMessage("system", system_prompt)] if system_prompt else []
    messages += [ChatMessage(message.role, message.content) for message in task.prompt]
    said = ""
    for number in range(task.turn_limit):
        started = time.perf_counter()
        reply = await endpoint.chat(
            messages,
            toolbox.tools,
            max_tokens=limits.tokens_per_turn,
            temperature=temperature,
            seed=turn_seed(seed, number) % 2**31,
        )
        parsed = with_call_ids(reply.parsed, number)
        completion = Completion((), (), reply.finish, NO_POLICY)
        usage = (reply.num_prompt_tokens, reply.num_completion_tokens)
        seconds = time.perf_counter() - started
        turns.append(Turn((), completion, parsed, engine_seconds=seconds, usage=usage, user=said))
        turns[-1], said, stop = await respond(turns[-1], toolbox)
        if stop is not None:
            return stop
        messages.append(ChatMessage("assistant", parsed.text, parsed.calls))
        if parsed.error is not None:
            messages.append(ChatMessage("user", f"error: {parsed.error.message}"))
        if said:
            messages.append(ChatMessage("user", said))
        for call, result in zip(parsed.calls, turns[-1].results, strict=True):
            messages.append(ChatMessage("tool", result.content, call_id=call.id))
    return Stop.MAX_TURNS
