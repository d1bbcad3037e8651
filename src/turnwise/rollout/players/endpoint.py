"""Play an episode with an OpenAI-compatible endpoint, for evaluation and not for training.

Such an endpoint returns no token ids: its turns have none, and their `policy_version` is -1.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from turnwise.rollout.conversation import PLAIN, Conversation, EpisodeRules
from turnwise.rollout.earlier_attempts import earlier_turn
from turnwise.rollout.players.openai import ChatMessage, OpenAIEndpoint
from turnwise.rollout.players.policy import EpisodeLimits, finish_episode, turn_seed, with_call_ids
from turnwise.types import Completion, Stop, Task, Trajectory, Turn
from turnwise.types.protocols import Toolbox, UserModel

NO_POLICY = -1


def endpoint_player(
    endpoint: OpenAIEndpoint,
    limits: EpisodeLimits,
    temperature: float,
    system_prompt: str,
    user_model: UserModel | None = None,
    rules: EpisodeRules = PLAIN,
) -> Callable[[Task, Toolbox, str, int, Sequence[Trajectory]], Awaitable[Trajectory]]:
    """A player for a Collector that samples from the endpoint."""

    async def play_one(
        task: Task, toolbox: Toolbox, episode_id: str, seed: int, lost: Sequence[Trajectory] = ()
    ) -> Trajectory:
        conversation = Conversation(
            task, toolbox, episode_id=episode_id, seed=seed, user_model=user_model, rules=rules, lost=lost
        )
        return await finish_episode(
            _play_turns(conversation, endpoint, seed, limits, temperature, system_prompt),
            conversation,
            limits=limits,
            temperature=temperature,
        )

    return play_one


async def _play_turns(
    conversation: Conversation,
    endpoint: OpenAIEndpoint,
    seed: int,
    limits: EpisodeLimits,
    temperature: float,
    system_prompt: str,
) -> Stop:
    turns, task, said = conversation.turns, conversation.task, ""
    messages = [ChatMessage("system", system_prompt)] if system_prompt else []
    messages += [ChatMessage(message.role, message.content) for message in task.prompt]
    while len(turns) < task.turn_limit:
        turn = earlier_turn(conversation.lost, turns, (), said)
        if turn is None:
            turn = await _sampled(conversation, endpoint, messages, said, limits, temperature, seed)
        turns.append(replace(turn, results=(), message=conversation.message))
        reached = await conversation.advance()
        if isinstance(reached, Stop):
            return reached
        parsed = turns[-1].parsed  # as it was carried out: mended, or with a hint
        messages.append(ChatMessage("assistant", parsed.text, parsed.calls))
        if parsed.error is not None:
            messages.append(ChatMessage("user", f"error: {parsed.error.message}"))
        for call, result in zip(parsed.calls, turns[-1].results, strict=True):
            messages.append(ChatMessage("tool", result.content, call_id=call.id))
        said = reached.text if reached is not None else ""
        if said:
            messages.append(ChatMessage("user", said))
    return Stop.MAX_TURNS


async def _sampled(
    conversation: Conversation,
    endpoint: OpenAIEndpoint,
    messages: Sequence[ChatMessage],
    said: str,
    limits: EpisodeLimits,
    temperature: float,
    seed: int,
) -> Turn:
    number = len(conversation.turns)
    started = time.perf_counter()
    reply = await endpoint.chat(
        messages,
        conversation.tools,  # which tools were added or withdrawn, an endpoint sees from this list
        max_tokens=limits.tokens_per_turn,
        temperature=temperature,
        seed=turn_seed(seed, number) % 2**31,
    )
    return Turn(
        (),
        Completion((), (), reply.finish, NO_POLICY),
        with_call_ids(reply.parsed, number),
        engine_seconds=time.perf_counter() - started,
        usage=(reply.num_prompt_tokens, reply.num_completion_tokens),
        user=said,
    )
