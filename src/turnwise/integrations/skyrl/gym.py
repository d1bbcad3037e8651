"""The skyrl-gym environment `turnwise`, for SkyRL's own generator; less exact than `generator.py`.

The interface carries text: tokens are decoded and encoded again, tools are listed in the system prompt in the
Hermes format, and an episode lost to infrastructure can only be an error. For training, use the generator.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import skyrl_gym
from skyrl_gym.envs import registration
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from turnwise.chat import hermes
from turnwise.config import Recipe
from turnwise.integrations.skyrl.generator import task_in
from turnwise.integrations.skyrl.player import Servers
from turnwise.protocols import Toolbox
from turnwise.rollout.episode import act, numbered, observations, settle
from turnwise.types import Completion, Finish, Reward, Stop, Task, Turn
from turnwise.workbench import Workbench, limits_of, offered_tools

NAME = "turnwise"
_NO_POLICY = -1
Result = TypeVar("Result")


class EventLoopThread:
    """A thread with an event loop for servers and episodes, because an environment is synchronous."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.servers = Servers(recipe)
        self._loop: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="turnwise stage", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop.result()).result()

    def close(self) -> None:
        registration.deregister(NAME)
        self.wait(self._close())
        self._thread.join()

    def _run(self) -> None:
        async def stay() -> None:
            self._loop.set_result(asyncio.get_running_loop())
            await self._closing.wait()

        asyncio.run(stay())

    async def _close(self) -> None:
        await self.servers.close()
        self._closing.set()


def register(recipe: Recipe) -> EventLoopThread:
    """Register `skyrl_gym.make("turnwise", extras={"task": ...})`; the caller closes the thread."""
    thread = EventLoopThread(recipe)
    skyrl_gym.register(id=NAME, entry_point=lambda **options: TurnwiseEnv(thread, options["extras"]))
    return thread


class TurnwiseEnv(BaseTextEnv):
    """One episode; its tools are leased from `init` to its end."""

    def __init__(self, thread: EventLoopThread, extras: Mapping[str, Any]) -> None:
        super().__init__()
        self._thread = thread
        self._task: Task = task_in(extras)
        self._actions: asyncio.Queue[str] = asyncio.Queue()
        self._replies: asyncio.Queue[ConversationType] = asyncio.Queue()
        self._episode: asyncio.Task[Reward] | None = None

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """The messages of the task, with its tools in the system prompt."""
        self._thread.wait(self._open())
        return self._thread.wait(self._next())["observations"], {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play one turn; RuntimeError, not a reward of 0, if the episode is lost to infrastructure."""
        return self._thread.wait(self._next(action))

    def close(self) -> None:
        self._thread.wait(self._end())

    async def _open(self) -> None:
        self._episode = asyncio.create_task(self._play(), name=f"episode {self._task.id}")

    async def _end(self) -> None:
        if self._episode is not None:
            self._episode.cancel()
            await asyncio.wait([self._episode])

    async def _next(self, *actions: str) -> BaseTextEnvStepOutput:
        """Send the actions and wait for an observation or the end of the episode."""
        assert self._episode is not None, "call init first"
        for action in actions:
            self._actions.put_nowait(action)
        reply = asyncio.create_task(self._replies.get())
        await asyncio.wait({reply, self._episode}, return_when=asyncio.FIRST_COMPLETED)
        if reply.done():
            return {"observations": reply.result(), "reward": 0.0, "done": False, "metadata": {}}
        reply.cancel()
        reward = self._episode.result()
        return {"observations": [], "reward": reward.total, "done": True, "metadata": dict(reward.parts)}

    async def _play(self) -> Reward:
        bench = await self._thread.servers.bench()
        task, turns = self._task, list[Turn]()
        async with bench.lease(task, f"{task.id}/{id(self)}") as toolbox:
            self._replies.put_nowait(self._opening(bench))
            trajectory = await settle(
                self._turns(toolbox, turns),
                turns,
                task,
                toolbox,
                episode_id=task.id,
                seed=task.seed,
                limits=limits_of(self._thread.recipe),
                temperature=self._thread.recipe.rollout.temperature,
            )
        if trajectory.stop.is_infrastructure:
            raise RuntimeError(f"task {task.id!r} was lost to infrastructure: {trajectory.stop}")
        return await bench.rewards.score(trajectory)

    async def _turns(self, toolbox: Toolbox, turns: list[Turn]) -> Stop:
        for number in range(self._task.turn_limit):
            parsed = numbered(hermes.read_turn(await self._actions.get()), number)
            completion = Completion((), (), Finish.STOP, _NO_POLICY)
            turns.append(Turn((), completion, parsed, usage=(0, 0)))
            turns[-1], stop = await act(turns[-1], toolbox)
            if stop is not None:
                return stop
            contents = [content for _, content in observations(turns[-1])]
            text = contents[0] if parsed.error is not None else hermes.write_responses(contents)
            if number + 1 < self._task.turn_limit:
                self._replies.put_nowait([{"role": "user", "content": text}])
        return Stop.MAX_TURNS

    def _opening(self, bench: Workbench) -> ConversationType:
        offers = bench.chat.offers(offered_tools(self._task, bench.pool.tools))
        system = [bench.recipe.model.system_prompt, hermes.write_tools(offers)]
        messages = [{"role": message.role, "content": message.content} for message in self._task.prompt]
        return [{"role": "system", "content": "\n\n".join(filter(None, system))}, *messages]
