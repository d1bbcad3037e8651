"""Takes orders, gives groups played by Ray actors all over a cluster: each with servers of its own.

An actor that dies takes nothing along: an order is answered once, with a whole group, or sent again. Ray
starts the actor anew; the servers of the dead one end with it, for their pipes do.
"""

import asyncio
import math
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from turnwise.config import Recipe
from turnwise.integrations.skyrl.player import Order, Outcome, Player
from turnwise.rollout.collector import CollectionFailed

if TYPE_CHECKING:
    from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface

RESTART_SECONDS = 300.0
"""For which an order whose worker died is sent again: after that something is wrong with it, or with all."""
_PAUSE_SECONDS = 0.5
"""Before that: one that is being started anew refuses at once."""
_MANY = 10_000
"""Orders that an actor takes at once; its player's own limit is on episodes."""


class Workers:
    """`num_workers` actors, spread over the nodes; an order goes to whichever has the fewest."""

    def __init__(
        self, recipe: Recipe, client: "InferenceEngineInterface", model: str, num_workers: int
    ) -> None:
        actor = ray.remote(Player).options(
            num_cpus=1, max_restarts=-1, max_concurrency=_MANY, scheduling_strategy="SPREAD"
        )
        self.actors: list[Any] = [
            actor.remote(recipe, client, model, num_workers) for _ in range(num_workers)
        ]
        self._num_open = Counter(dict.fromkeys(range(num_workers), 0))

    async def play(self, order: Order) -> Outcome:
        """CollectionFailed when worker after worker dies with it."""
        last, num_resent, given_up_at = -1, 0, math.inf
        while time.monotonic() < given_up_at:
            number = min(self._num_open, key=lambda each: (each == last, self._num_open[each]))
            self._num_open[number] += 1
            try:
                outcome: Outcome = await self.actors[number].play.remote(order)
            except RayTaskError as error:
                raise error.cause from None  # what the player raised, as itself
            except RayActorError:  # died, or not yet there again
                last, num_resent = number, num_resent + 1
                given_up_at = min(given_up_at, time.monotonic() + RESTART_SECONDS)
            else:
                return replace(outcome, num_resent=num_resent)
            finally:
                self._num_open[number] -= 1
            await asyncio.sleep(_PAUSE_SECONDS)
        raise CollectionFailed(f"task {order.task.id!r}: its workers died, {num_resent} times in a row")

    async def close(self) -> None:
        """End every worker's servers, then the workers."""
        closing = [actor.close.remote() for actor in self.actors]
        await asyncio.gather(*closing, return_exceptions=True)
        for actor in self.actors:
            ray.kill(actor)
