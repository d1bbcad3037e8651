"""The model that is to be trained, as the writer of explored tasks."""

import contextlib
from dataclasses import dataclass

from turnwise.config import ModelConfig, Recipe
from turnwise.models.chat import RenderedChat
from turnwise.rollout.players.policy import EpisodeLimits, play
from turnwise.setup.bench import chat_of, open_engine
from turnwise.setup.memory import with_engine_sizes
from turnwise.types import Finish, Message, Sampling, Task, Trajectory
from turnwise.types.protocols import Engine, Toolbox

_MAX_TOKENS = 400


@dataclass(frozen=True, slots=True)
class OwnModel:
    """A model, which is loaded when it is needed."""

    model: str
    """Its name or folder, as in `model.path`."""

    async def opened(self) -> "LocalModel":
        recipe = Recipe(model=ModelConfig(path=self.model))
        async with contextlib.AsyncExitStack() as exits:
            chat = chat_of(recipe.model)
            engine = await open_engine(with_engine_sizes(recipe), exits)
            return LocalModel(engine, chat, exits.pop_all())
        raise AssertionError("opening either returns or raises")


class LocalModel:
    def __init__(self, engine: Engine, chat: RenderedChat, exits: contextlib.AsyncExitStack) -> None:
        self._engine = engine
        self._chat = chat
        self._exits = exits

    async def reply(self, instruction: str, text: str, seed: int) -> str:
        """Return the reply to a text."""
        ids = self._chat.open([Message("system", instruction), Message("user", text)], [])
        sampling = Sampling(temperature=0.7, max_tokens=_MAX_TOKENS)
        completion = await self._engine.complete(ids, sampling, seed)
        is_cut = completion.finish is Finish.LENGTH
        return self._chat.parse(completion.token_ids, ids, is_cut=is_cut).text.strip()

    async def play(self, task: Task, toolbox: Toolbox, episode_id: str, seed: int) -> Trajectory:
        """Play a task with its tools, greedily."""
        return await play(
            task,
            self._engine,
            self._chat,
            toolbox,
            episode_id=episode_id,
            seed=seed,
            limits=EpisodeLimits(),
            sampling=Sampling(temperature=0.0),
        )

    async def close(self) -> None:
        await self._exits.aclose()
