"""Play orders with Ray actors on a cluster; every actor has its own servers.

If an actor dies, or an outcome is lost with its node, the order is sent again, so that every order is
answered exactly once, with a complete group. Ray restarts the actor. The servers of the dead actor end with
it, because their pipes close.
"""

import asyncio
import math
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

from turnwise.config import Recipe
from turnwise.rollout.collector import CollectionFailed
from turnwise.run.skyrl.player import Order, OrderOutcome, Player

if TYPE_CHECKING:
    from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface

RESTART_SECONDS = 300.0
"""How long an order is sent again after its worker died; after that, the order or the cluster is at fault."""
_PAUSE_SECONDS = 0.5
"""Pause before an order is sent again: an actor that is restarting fails at once."""
_MAX_ORDERS = 10_000
"""Concurrent orders per actor; its player limits the episodes."""


class Workers:
    """`num_workers` actors, distributed over the nodes; an order goes to the actor with the fewest."""

    def __init__(
        self, recipe: Recipe, client: "InferenceEngineInterface", model: str, num_workers: int
    ) -> None:
        actor = ray.remote(Player).options(
            num_cpus=1, max_restarts=-1, max_concurrency=_MAX_ORDERS, scheduling_strategy="SPREAD"
        )
        self.actors: list[Any] = [
            actor.remote(recipe, client, model, num_workers) for _ in range(num_workers)
        ]
        self._num_open = Counter(dict.fromkeys(range(num_workers), 0))

    async def play(self, order: Order) -> OrderOutcome:
        """Play one order; CollectionFailed if its workers keep dying."""
        last, num_resent, deadline = -1, 0, math.inf
        while time.monotonic() < deadline:
            number = min(self._num_open, key=lambda actor: (actor == last, self._num_open[actor]))
            self._num_open[number] += 1
            try:
                outcome: OrderOutcome = await self.actors[number].play.remote(order)
            except RayTaskError as error:
                raise error.cause from None  # the error of the player, unwrapped
            except (RayActorError, ObjectLostError):  # died, is restarting, or the outcome died with its node
                last, num_resent = number, num_resent + 1
                deadline = min(deadline, time.monotonic() + RESTART_SECONDS)
            else:
                return replace(outcome, num_resent=num_resent)
            finally:
                self._num_open[number] -= 1
            await asyncio.sleep(_PAUSE_SECONDS)
        raise CollectionFailed(f"task {order.task.id!r}: its workers died {num_resent} times in a row")

    async def close(self) -> None:
        """Close the servers of all workers, then the workers."""
        closing = [actor.close.remote() for actor in self.actors]
        await asyncio.gather(*closing, return_exceptions=True)
        for actor in self.actors:
            ray.kill(actor)
