"""The sizes of a run, found from its memory plan: micro-batch, recomputation, cache and parallel episodes.

What a run holds throughout comes first. The engine's cache gets what the episodes in play can fill, but at
most half of the rest. The micro-batch gets what is left. Keys that the recipe sets are kept.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from turnwise.config import DEFAULT_SIZES, Recipe, Sizes
from turnwise.models.device_memory import Memory, memory_of
from turnwise.models.devices import choose_device
from turnwise.setup.memory.memory import (
    MemoryPlan,
    RecipeModels,
    UnsupportedArchitecture,
    outline_models,
    plan_memory,
)

MARGIN = 0.1
"""Share of the memory that is not planned: torch's allocator fragments it, and plans are estimates."""
CPU_SHARE = 0.5
"""Share of a machine's memory for a run on its CPU; servers and other programs need the rest."""
MAX_TOKENS = 65_536
"""The most tokens of a micro-batch; a GPU is busy with far fewer."""
ENOUGH_TOKENS = 16_384
"""With recomputation, a micro-batch of more tokens gains less than a larger cache does."""
BUSY_TOKENS = 8_192
"""With fewer tokens at a time, a fast GPU waits for kernels to be launched, so fewer tokens for the sake of
fewer recomputed layers are no gain."""
OFFLOAD_TOKENS = 60_000
"""Tokens whose recomputation in all layers takes as long as a step of the optimizer from host memory, as
measured on an H200."""
HOST_SHARE = 0.5
"""Share of the host's free memory for an optimizer that would fit the GPU too."""
MAX_PARALLEL = 128
"""The most episodes at a time that a plan finds; each may have its own server processes."""
UNIT = 1_024
"""Tokens of micro-batches and caches are a multiple of it."""


@dataclass(frozen=True, slots=True)
class SizedRecipe:
    """A recipe with all sizes set, and its plan."""

    recipe: Recipe
    plan: MemoryPlan


def plan_for_recipe(recipe: Recipe, memory: Memory | None = None) -> MemoryPlan:
    """Plan for the recipe's device with the sizes that a run would have; `memory` is that of the device.

    If this machine does not have the device and `memory` is None, unset sizes have their defaults.
    """
    memory = memory or memory_for(recipe.model.device, recipe.hardware.num_processes)
    return find_sizes(recipe, memory).plan


def memory_for(device: str, num_processes: int) -> Memory | None:
    """The memory for one of these processes; None if this machine does not have the device."""
    try:
        device = choose_device(device)
    except ValueError:
        return None
    device_memory = memory_of(device)
    if device == "cuda":  # each process has its own GPU
        return replace(device_memory, host=memory_of("cpu").free // num_processes)
    return Memory(device_memory.free // num_processes, device_memory.total // num_processes)


def with_engine_sizes(recipe: Recipe) -> Recipe:
    """The recipe with sizes for playing alone; they are found only for a GPU."""
    if not recipe.lacks_sizes or choose_device(recipe.model.device) != "cuda":
        return recipe
    memory = memory_for(recipe.model.device, recipe.hardware.num_processes)
    try:
        return find_sizes(recipe, memory, is_trained=False).recipe
    except UnsupportedArchitecture:
        return recipe


def find_sizes(recipe: Recipe, memory: Memory | None, *, is_trained: bool = True) -> SizedRecipe:
    """Find the sizes that are unset. The plan does not fit if even the smallest sizes are too large.

    Without training, the engine may use all of the memory. Raises ValueError for a mistake in the recipe and
    UnsupportedArchitecture for a model that is not planned.
    """
    try:
        device = choose_device(recipe.model.device)
    except ValueError:
        device = recipe.model.device
    models = outline_models(recipe)
    if memory is None:
        sized = recipe.with_sizes(recipe.sizes)
        return SizedRecipe(sized, plan_memory(sized, device, None, models, is_trained=is_trained))
    return _Search(recipe, device, memory, models, is_trained=is_trained).result()


class _Search:
    """The search for the largest sizes whose plan is within the memory."""

    def __init__(
        self, recipe: Recipe, device: str, memory: Memory, models: RecipeModels, *, is_trained: bool
    ) -> None:
        self._recipe, self._device, self._memory, self._models = recipe, device, memory, models
        self._is_trained = is_trained
        # On a CPU the free memory does not count: results must not depend on what else the machine runs.
        self._room = int(memory.total * CPU_SHARE if device == "cpu" else memory.free * (1 - MARGIN))
        self._longest = recipe.rollout.tokens_per_episode

    def result(self) -> SizedRecipe:
        """The optimizer is moved to host memory if nothing else fits, or if that saves more time."""
        largest = self._largest()
        sized = self._found(largest)
        if not (self._device == "cuda" and self._is_trained and self._recipe.can_offload):
            return sized
        is_too_large = sized.plan.num_bytes > self._room
        if not is_too_large and self._recomputed_tokens(sized) <= OFFLOAD_TOKENS:
            return sized
        moved = self._found(self._chosen(largest, offload=True))
        if is_too_large:
            return moved
        saved = self._recomputed_tokens(sized) - self._recomputed_tokens(moved)
        return moved if saved > OFFLOAD_TOKENS and self._is_host_enough(moved.plan) else sized

    def _recomputed_tokens(self, sized: SizedRecipe) -> float:
        """Tokens of a step, times the share of the layers that recompute them."""
        number, run = sized.recipe.policy.gradient_checkpointing, self._recipe.run
        share = float(number) if isinstance(number, bool) else (number or 0) / sized.plan.num_layers
        num_episodes = (
            run.tasks_per_step * self._recipe.rollout.group_size / self._recipe.hardware.num_processes
        )
        return share * num_episodes * self._longest / 2  # most episodes end long before their limit

    def _is_host_enough(self, plan: MemoryPlan) -> bool:
        return self._memory.host is None or plan.host_bytes <= self._memory.host * HOST_SHARE

    def _found(self, largest: Sizes) -> SizedRecipe:
        if self._fits(largest):
            return self._sized(largest)
        left = self._room - self._held_bytes(largest)
        least = self._chosen(largest, tokens_per_microbatch=self._longest)
        sizes = self._with_cache(least, left // 2 if self._is_trained else left)
        if not self._fits(sizes):
            least = self._chosen(least, gradient_checkpointing=True)
            enough = min(ENOUGH_TOKENS, largest.tokens_per_microbatch)
            step_bytes = self._plan(self._chosen(least, tokens_per_microbatch=enough)).step_bytes
            sizes = self._with_cache(least, max(left // 2, left - step_bytes))
        if not self._fits(sizes):
            sizes = self._with_cache(least, left - self._plan(least).step_bytes)
        if sizes.gradient_checkpointing:
            sizes = self._with_microbatch(sizes, min(BUSY_TOKENS, largest.tokens_per_microbatch))
            sizes = self._with_least_recomputed(sizes)
        return self._sized(self._with_microbatch(sizes, largest.tokens_per_microbatch))

    def _largest(self) -> Sizes:
        """The sizes if memory does not limit them."""
        recipe = self._recipe
        if self._device != "cuda":
            used = recipe.sizes.num_parallel_episodes * self._longest
            return self._chosen(DEFAULT_SIZES, **self._cache(min(DEFAULT_SIZES.cache_tokens, used)))
        num_groups = -(-recipe.run.tasks_per_step // recipe.hardware.num_processes)
        num_episodes = num_groups * recipe.rollout.group_size
        parallel = max(DEFAULT_SIZES.num_parallel_episodes, min(num_episodes, MAX_PARALLEL))
        parallel = recipe.rollout.num_parallel_episodes or parallel
        return self._chosen(
            DEFAULT_SIZES,
            tokens_per_microbatch=min(MAX_TOKENS, -(-num_episodes * self._longest // UNIT) * UNIT),
            num_parallel_episodes=parallel,
            max_batch=parallel,
            **self._cache(parallel * self._longest),
        )

    def _chosen(self, sizes: Sizes, **changes: Any) -> Sizes:
        """The sizes with these changes, but for keys that the recipe sets."""
        return self._recipe.sizes_or(replace(sizes, **changes))

    def _cache(self, num_tokens: int) -> dict[str, Any]:
        """The sizes of a cache for this number of tokens."""
        gib = math.floor(num_tokens * self._models.policy.kv_bytes / 2**30 * 100) / 100
        return {"cache_tokens": max(num_tokens, UNIT), "cache_gib": max(gib, 0.01)}

    def _cache_bytes(self, sizes: Sizes) -> int:
        """What the cache of these sizes takes beyond one of a single token; 0 if the recipe sets it."""
        smallest = self._chosen(sizes, cache_tokens=1, cache_gib=0.0)
        return self._plan(sizes).num_bytes - self._plan(smallest).num_bytes

    def _held_bytes(self, sizes: Sizes) -> int:
        """What is held throughout, without a cache that can be chosen."""
        plan = self._plan(sizes)
        return plan.num_bytes - plan.step_bytes - self._cache_bytes(sizes)

    def _with_cache(self, sizes: Sizes, num_bytes: int) -> Sizes:
        """The sizes with a cache of this many bytes; if it holds fewer episodes, fewer are played."""
        most = min(sizes.num_parallel_episodes * self._longest, self._largest().cache_tokens)
        full_bytes = self._cache_bytes(self._chosen(sizes, **self._cache(most)))
        if not full_bytes:
            return sizes  # the recipe sets it
        if num_bytes >= full_bytes:
            return self._chosen(sizes, **self._cache(most))
        num_tokens = max(2 * self._longest, num_bytes * most // full_bytes // UNIT * UNIT)
        # most episodes end long before their limit: a cache for half of it is rarely full
        parallel = max(2 * num_tokens // self._longest, self._recipe.rollout.group_size)
        parallel = min(parallel, sizes.num_parallel_episodes)
        max_batch = min(parallel, sizes.max_batch)
        return self._chosen(
            sizes, num_parallel_episodes=parallel, max_batch=max_batch, **self._cache(num_tokens)
        )

    def _with_least_recomputed(self, sizes: Sizes) -> Sizes:
        """The sizes with the fewest recomputed layers that fit; memory falls linearly with their number."""
        none = self._chosen(sizes, gradient_checkpointing=False)
        plan, kept = self._plan(sizes), self._plan(none)
        if kept.num_bytes <= self._room:
            return none
        if plan.num_bytes > self._room:
            return sizes
        share = (kept.num_bytes - self._room) / (kept.num_bytes - plan.num_bytes)
        number = math.ceil(share * plan.num_layers)
        while number > 1 and self._fits(replace(sizes, gradient_checkpointing=number - 1)):
            number -= 1
        while number < plan.num_layers:
            tried = replace(sizes, gradient_checkpointing=number)
            if self._fits(tried):
                return tried
            number += 1
        return sizes

    def _with_microbatch(self, sizes: Sizes, most: int) -> Sizes:
        """The sizes with the largest micro-batch that fits; between two sizes, memory grows linearly."""
        low, high = sizes.tokens_per_microbatch, self._chosen(sizes, tokens_per_microbatch=most)
        plan, largest = self._plan(sizes), self._plan(high)
        if high.tokens_per_microbatch <= low or plan.num_bytes > self._room:
            return sizes
        if largest.num_bytes <= self._room:
            return high
        share = (self._room - plan.num_bytes) / (largest.num_bytes - plan.num_bytes)
        num_tokens = low + int(share * (most - low))
        while num_tokens // UNIT * UNIT > low:
            tried = self._chosen(sizes, tokens_per_microbatch=num_tokens // UNIT * UNIT)
            if self._fits(tried):
                return tried
            num_tokens -= num_tokens // 8  # less than linear growth: all logits of a small batch are kept
        return sizes

    def _fits(self, sizes: Sizes) -> bool:
        return self._plan(sizes).num_bytes <= self._room

    def _sized(self, sizes: Sizes) -> SizedRecipe:
        return SizedRecipe(self._recipe.with_sizes(sizes), self._plan(sizes))

    def _plan(self, sizes: Sizes) -> MemoryPlan:
        recipe = self._recipe.with_sizes(sizes)
        return plan_memory(recipe, self._device, self._memory, self._models, is_trained=self._is_trained)
