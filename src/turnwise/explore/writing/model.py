"""The model that writes: an OpenAI-compatible endpoint, or the model that is to be trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from turnwise.rollout.players.endpoint import endpoint_player
from turnwise.rollout.players.openai import ChatMessage, OpenAIEndpoint
from turnwise.rollout.players.policy import EpisodeLimits
from turnwise.system.environment import environment
from turnwise.types import Task, Trajectory
from turnwise.types.protocols import Toolbox

_MAX_TOKENS = 400
SOLVING = (
    "You solve tasks with the tools that you are given. Call tools until you know the answer, "
    "then answer in the form that the task asks for."
)


class WritingModel(Protocol):
    """What the writer needs of a model."""

    async def reply(self, instruction: str, text: str, seed: int) -> str:
        """Return the reply to a text. Raises EngineDown, or ValueError if the request is refused."""
        ...

    async def play(self, task: Task, toolbox: Toolbox, episode_id: str, seed: int) -> Trajectory: ...

    async def close(self) -> None: ...


class ModelSource(Protocol):
    """Where the writing model comes from."""

    async def opened(self) -> WritingModel: ...


@dataclass(frozen=True, slots=True)
class ChatModel:
    """The address of a model behind an OpenAI-compatible endpoint. Its key is read from OPENAI_API_KEY."""

    base_url: str
    model: str

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"writer: {self.base_url}: must begin with http:// or https://")

    async def opened(self) -> WritingModel:
        key = environment().get("OPENAI_API_KEY", "").strip()
        return EndpointModel(OpenAIEndpoint(self.base_url, self.model, key=key))


class EndpointModel:
    """A model behind an endpoint."""

    def __init__(self, endpoint: OpenAIEndpoint) -> None:
        self._endpoint = endpoint
        self._play = endpoint_player(endpoint, EpisodeLimits(), 0.0, SOLVING)

    async def reply(self, instruction: str, text: str, seed: int) -> str:
        messages: Sequence[ChatMessage] = (ChatMessage("system", instruction), ChatMessage("user", text))
        reply = await self._endpoint.chat(messages, max_tokens=_MAX_TOKENS, temperature=0.7, seed=seed)
        return reply.parsed.text.strip()

    async def play(self, task: Task, toolbox: Toolbox, episode_id: str, seed: int) -> Trajectory:
        return await self._play(task, toolbox, episode_id, seed, ())

    async def close(self) -> None:
        await self._endpoint.close()
