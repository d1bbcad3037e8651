"""The memory plan of a recipe: what a run holds in memory, part by part, without loading a weight.

What depends on the architecture is not estimated by a formula. The model is built on the meta device, the
forward and backward pass of an update run there, and the memory that they would hold is counted.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from turnwise.config import Recipe, override_recipe
from turnwise.planning.outline import outline
from turnwise.planning.passes import (
    PassMemory,
    SizedModel,
    head_bytes,
    measure_model,
    sampling_bytes,
    training_memory,
)
from turnwise.planning.sharded import gathered_bytes, sharding_of
from turnwise.runtime.devices import Memory, check_tensors, choose_device, memory_of

logger = logging.getLogger(__name__)

CUDA_BYTES = 600 * 2**20
"""Memory of the driver, its kernels and cuBLAS before the first tensor."""


class UnsupportedArchitecture(ValueError):
    """An architecture that the planner does not support; a run of it may still work."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of the memory, and the recipe keys that determine its size."""

    name: str
    num_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """All parts on one device, at the moment of a step that needs the most memory."""

    device: str
    num_parameters: int
    context: int | None
    """The model's context length in tokens; None if its configuration has none."""
    parts: tuple[MemoryPart, ...]
    memory: Memory | None
    """The memory of the device; None if the device is not in this machine."""
    num_processes: int = 1
    """The number of processes; the plan is that of one process."""

    @property
    def num_bytes(self) -> int:
        return sum(part.num_bytes for part in self.parts)

    @property
    def fits(self) -> bool:
        """Whether the plan fits into the memory that is free now."""
        return self.memory is not None and self.num_bytes <= self.memory.free


def plan_memory(recipe: Recipe, device: str, memory: Memory | None = None) -> MemoryPlan:
    """Plan for this device and its memory.

    Raises ValueError for a mistake in the recipe and Unplannable for an unsupported architecture.
    """
    policy = _measured_policy(recipe)
    with _unplannable_on_error(policy.model):
        parts = (*_training_parts(recipe, policy, device), *_engine_parts(recipe, policy, memory))
    parts += tuple(_user_parts(recipe, memory))
    sharding = sharding_of(recipe)
    parts = tuple(
        MemoryPart(
            part.name,
            sharding.share(part.name, part.num_bytes),
            sharding.why(part.name, part.why),
        )
        for part in parts
    )
    if device == "cuda":
        parts = (*parts, MemoryPart("CUDA itself", CUDA_BYTES, "driver, kernels"))
    context = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None)
    nonempty = tuple(part for part in parts if part.num_bytes)
    return MemoryPlan(device, policy.num_parameters, context, nonempty, memory, sharding.num_processes)


def plan_for_recipe(recipe: Recipe, memory: Memory | None = None) -> MemoryPlan:
    """Plan for the recipe's device, also if this machine has none; `memory` is the memory of that device."""
    try:
        device = choose_device(recipe.model.device)
    except ValueError:
        return plan_memory(recipe, recipe.model.device, memory)
    return plan_memory(recipe, device, memory or _memory_per_process(device, recipe.hardware.num_processes))


def _memory_per_process(device: str, num_processes: int) -> Memory:
    """A process has a GPU of its own and shares the memory of the machine."""
    found = memory_of(device)
    if device == "cuda":
        return found
    return Memory(found.free // num_processes, found.total // num_processes)


def check_device_limits(recipe: Recipe, device: str | None = None) -> None:
    """Raise ValueError if a run needs a tensor too large for the device; only mps has such a limit."""
    _check_limits(recipe, device, "an update's largest tensor (update.tokens_per_microbatch)")


def check_sft_limits(recipe: Recipe, device: str | None = None) -> None:
    """`check_device_limits` for `turnwise sft`, which has steps of its own and does not sample."""
    samples = f"run.tasks_per_step={recipe.sft.samples_per_step}"
    # Nothing is played, so the environment of a run whose successes are learned plays no part.
    equivalent = override_recipe(recipe, [samples, "environment=", "engine.kind=scripted"])
    _check_limits(equivalent, device, "a step's largest tensor (update.tokens_per_microbatch)")


def _check_limits(recipe: Recipe, device: str | None, training_tensor: str) -> None:
    device = device or choose_device(recipe.model.device)
    if device != "mps":
        return
    try:
        policy = _measured_policy(recipe)
        with _unplannable_on_error(policy.model):
            training = training_memory(policy, recipe, device)
    except UnsupportedArchitecture as error:
        logger.warning("cannot check whether mps can hold every tensor: %s", error)
        return
    engine = recipe.engine
    # all running rows are one tensor; at worst they fill the cache
    rows = min(engine.cache_tokens, engine.max_batch * recipe.rollout.tokens_per_episode) * policy.kv_bytes
    check_tensors(
        device,
        {
            "the largest weight (model.dtype)": policy.largest_bytes,
            training_tensor: training.largest_bytes,
            "keys and values (engine.cache_tokens)": rows if engine.kind == "transformers" else 0,
        },
    )


def _measured_policy(recipe: Recipe) -> SizedModel:
    shape = outline(recipe.model)
    with _unplannable_on_error(shape, but=ValueError):  # invalid adapters: a user's mistake
        return measure_model(shape, recipe)


@contextlib.contextmanager
def _unplannable_on_error(model: Any, *, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Raise Unplannable for every exception except `but`: the model's own code runs here, on meta tensors."""
    try:
        yield
    except but:
        raise
    except Exception as error:
        why = str(error).partition("\n")[0]
        name = type(model).__name__
        raise UnsupportedArchitecture(
            f"the memory of a {name} is not planned ({type(error).__name__}: {why})"
        ) from error


def _training_parts(recipe: Recipe, policy: SizedModel, device: str) -> Iterator[MemoryPart]:
    kind = recipe.model.dtype if recipe.model.quantisation == "none" else recipe.model.quantisation
    yield MemoryPart(
        "policy: weights", policy.weight_bytes, f"{policy.num_parameters / 1e6:,.1f} million, {kind}"
    )
    yield MemoryPart(
        "policy: adapters", policy.adapter_bytes, f"policy.lora_rank = {recipe.policy.lora_rank}"
    )
    num_trained, trained_bytes = policy.num_trained, policy.trained_bytes
    yield MemoryPart("gradients", 4 * num_trained, f"of {num_trained / 1e6:,.1f} million, float32")
    copies = 4 * num_trained if trained_bytes < 4 * num_trained else 0
    why = "AdamW's moments and a float32 copy" if copies else "AdamW's moments"
    yield MemoryPart("optimizer", 8 * num_trained + copies, why)
    reference = recipe.reference.kind
    is_kept = reference in ("hard", "ema") or (reference == "frozen" and recipe.policy.tuning == "full")
    # the average is kept in float32 and cast to the type of the parameters for a pass
    reference_bytes = 4 * num_trained if reference == "ema" else trained_bytes
    yield MemoryPart("reference", reference_bytes if is_kept else 0, f"reference.kind = {reference!r}")
    if sharding_of(recipe).is_on:
        gathered = gathered_bytes(policy.model, policy.plain_bytes)
        yield MemoryPart("gathered weights", gathered, "embeddings, head and two layers, unsharded")
    yield _transient_part(recipe, policy, device)


def _transient_part(recipe: Recipe, policy: SizedModel, device: str) -> MemoryPart:
    """The largest of the temporary allocations of a step, which never coexist."""
    training = training_memory(policy, recipe, device)
    activations = _peak_activations(policy, training, device)
    why = f"{training.num_tokens:,} tokens at a time (update.tokens_per_microbatch)"
    if recipe.policy.gradient_checkpointing:
        why += ", recomputed"
    # torch's foreach AdamW takes the roots of all second moments at once
    stepping = sharding_of(recipe).share("optimizer", 4 * policy.num_trained)
    merging = 0
    if recipe.policy.tuning == "lora" and not recipe.publishes_adapters and recipe.engine.kind != "scripted":
        # weights are merged one after another, but a remote engine is sent all of them at once
        merging = policy.adapted_bytes if recipe.engine.kind == "remote" else policy.merging_bytes
    if sharding_of(recipe).is_on and not recipe.publishes_adapters:
        merging += policy.plain_bytes
    moments = {
        activations: ("activations", why),
        stepping: ("optimizer step", "square roots of the second moments"),
        merging: ("publication", "full weights, with merged adapters"),
    }
    return MemoryPart(moments[max(moments)][0], max(moments), moments[max(moments)][1])


def _peak_activations(policy: SizedModel, training: PassMemory, device: str) -> int:
    return max(training.peak_bytes, training.at_head_bytes + head_bytes(policy, training.num_tokens, device))


def _user_parts(recipe: Recipe, memory: Memory | None) -> Iterator[MemoryPart]:
    """Yield what the engine that plays users holds, if there is one."""
    own = recipe.of_users()
    if own is None:
        return
    model = _measured_policy(own)
    with _unplannable_on_error(model.model):
        for part in _engine_parts(own, model, memory):
            yield MemoryPart(part.name.replace("engine", "users", 1), part.num_bytes, part.why)


def _engine_parts(recipe: Recipe, policy: SizedModel, memory: Memory | None) -> Iterator[MemoryPart]:
    engine = recipe.engine
    if engine.kind == "vllm":
        share, cache = engine.vllm.gpu_memory_utilization, engine.vllm.cache_gib
        taken = int(share * memory.total) if memory is not None else 0
        why = f"weights and cache: engine.vllm.gpu_memory_utilization = {share}"
        if cache is not None:
            taken = policy.plain_bytes + int(cache * 2**30)
            why = f"weights, and engine.vllm.cache_gib = {cache}"
        yield MemoryPart(
            "engine: vLLM", taken, why + (", free during an update" if engine.vllm.sleep else "")
        )
    if engine.kind != "transformers":
        return
    is_shared = recipe.model.quantisation != "none"
    yield MemoryPart("engine: weights", 0 if is_shared else policy.plain_bytes, "a copy of its own")
    yield MemoryPart(
        "engine: adapters", policy.adapter_bytes if is_shared else 0, "on the base of the policy"
    )
    max_tokens = recipe.rollout.num_parallel_episodes * recipe.rollout.tokens_per_episode
    num_tokens = min(engine.cache_tokens, max_tokens)
    key = "engine.cache_tokens" if num_tokens < max_tokens else "parallel episodes × tokens_per_episode"
    yield MemoryPart(
        "engine: keys and values", num_tokens * policy.kv_bytes, f"{num_tokens:,} tokens ({key})"
    )
    step = sampling_bytes(policy, recipe)
    yield MemoryPart("engine: a step", step, f"engine.max_batch = {engine.max_batch}")
