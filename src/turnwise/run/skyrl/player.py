"""Players: play orders for groups with the tools, rewards and limits of a recipe.

A player opens its servers with its first order and keeps them until it is closed or its event loop ends,
because SkyRL's interface never closes a generator.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from turnwise.config import Recipe
from turnwise.rollout import collector as rollout
from turnwise.rollout.collector import CollectionFailed, Collector
from turnwise.rollout.pace import Slots
from turnwise.rollout.players.policy import play
from turnwise.run.skyrl.engine import SessionEngine
from turnwise.setup.bench import Workbench, open_workbench
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve
from turnwise.types import Group, Sampling, Stop, Task, Trajectory
from turnwise.types.protocols import Toolbox

if TYPE_CHECKING:
    from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface


@dataclass(frozen=True, slots=True)
class Order:
    """A request for one group; it determines all sampled tokens, whichever player plays it."""

    task: Task
    spares: tuple[Task, ...]
    """Tasks that replace, one after the other, a task lost to infrastructure; (): no replacement."""
    group_size: int
    temperature: float
    top_p: float
    seed: int
    policy_version: int
    is_evaluation: bool = False
    """Whether it is played by the rules of evaluations."""


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """The result of an order."""

    group: Group | None
    """The complete group of the task or of a spare; None if all were lost."""
    failures: Counter[Stop]
    """Episodes lost to infrastructure, by stop, including those that were retried."""
    message: str = ""
    """Why the last group was lost, if `group` is None."""
    num_calls: int = 0
    num_successes: int = 0
    num_resent: int = 0
    """How often the order was sent again because its worker had died or was restarting."""


class Players(Protocol):
    """Plays orders: a `Player` in this process, or `workers.Workers` on a cluster."""

    async def play(self, order: Order) -> OrderOutcome: ...

    async def close(self) -> None: ...


class Player:
    """Plays any number of orders concurrently over one pool of servers; one of `num_workers` players."""

    def __init__(
        self, recipe: Recipe, client: "InferenceEngineInterface", model: str, num_workers: int = 1
    ) -> None:
        self._client = client
        self._model = model
        self._numbers = itertools.count()
        self._pace = Slots(recipe.sizes.num_parallel_episodes).pace()
        self._servers = RecipeServers(recipe, num_workers)

    async def play(self, order: Order) -> OrderOutcome:
        """Play one order; ValueError for a user's mistake, while infrastructure faults are in the outcome."""
        bench = await self._servers.bench()
        # the same task may be played twice at the same time, once as the spare of another task
        number = next(self._numbers)
        plan = bench.run.collection(order.group_size, order.seed)
        collector = Collector(
            self._playing(bench, order, number), _leasing(bench, number), bench.rewards, plan, self._pace
        )
        played: list[Group] = []
        message = ""
        try:
            async with collector.collecting((order.task, *order.spares), 1) as groups:
                played = [group async for group in groups]
        except CollectionFailed as error:
            message = str(error)
        progress = collector.progress
        group = played[0] if played else None
        return OrderOutcome(group, progress.failures, message, progress.num_calls, progress.num_successes)

    async def close(self) -> None:
        """Close the servers; all orders must have ended."""
        await self._servers.close()

    def _playing(self, bench: Workbench, order: Order, number: int) -> rollout.Player:
        limits = bench.run.limits()
        sampling = Sampling(temperature=order.temperature, top_p=order.top_p)

        async def play_one(
            task: Task, toolbox: Toolbox, episode_id: str, seed: int, lost: Sequence[Trajectory] = ()
        ) -> Trajectory:
            engine = SessionEngine(
                self._client,
                model=self._model,
                session=f"{order.policy_version}/{number}/{episode_id}",
                policy_version=order.policy_version,
            )
            try:
                return await play(
                    task,
                    engine,
                    bench.chat,
                    toolbox,
                    episode_id=episode_id,
                    seed=seed,
                    limits=limits,
                    sampling=sampling,
                    user_model=bench.user_model,
                    rules=bench.run.rules(is_evaluation=order.is_evaluation),
                    lost=lost,
                )
            finally:
                await engine.finish()

        return play_one


class RecipeServers:
    """The tools and rewards of a recipe, opened on first use, until closed or until the event loop ends."""

    def __init__(self, recipe: Recipe, num_workers: int = 1) -> None:
        self._recipe = recipe
        self._num_workers = num_workers
        self._holder: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Workbench] | None = None
        self._closing = asyncio.Event()

    async def bench(self) -> Workbench:
        """The opened workbench; every call raises ValueError if it cannot be opened."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            # in a separate task: the same task must open and close the servers, and the cancellation of a
            # caller while they open must not close them
            self._holder = asyncio.create_task(self._hold(self._ready), name="turnwise servers")
        return await asyncio.shield(self._ready)

    async def _hold(self, ready: "asyncio.Future[Workbench]") -> None:
        try:
            run = resolve(RunRequest(self._recipe), self._recipe)
            opening = open_workbench(run, with_engine=False, num_workers=self._num_workers)
            async with opening as bench:
                ready.set_result(bench)
                await self._closing.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def close(self) -> None:
        self._closing.set()
        if self._holder is not None:
            await self._holder


def _leasing(bench: Workbench, number: int) -> rollout.Lease:
    return lambda task, episode_id: bench.lease(task, f"{number}/{episode_id}")
