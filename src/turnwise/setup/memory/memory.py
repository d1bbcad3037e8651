"""The memory plan of a recipe: what a run holds in memory, part by part, without loading a weight.

What depends on the architecture is not estimated by a formula. The model is built on the meta device, the
forward and backward pass of an update run there, and the memory that they would hold is counted.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from turnwise.config import (
    DEFAULT_SIZES,
    EngineConfig,
    ModelConfig,
    PolicyConfig,
    Recipe,
    Sizes,
    override_recipe,
)
from turnwise.models.device_memory import Memory
from turnwise.models.devices import check_tensors, choose_device
from turnwise.setup.memory.outline import outline
from turnwise.setup.memory.passes import (
    PassMemory,
    SizedModel,
    has_value_adapter,
    head_bytes,
    measure_model,
    sampling_bytes,
    training_memory,
)
from turnwise.setup.memory.sharded import gathered_bytes, sharding_of
from turnwise.training.policy.network import count_recomputed, repeated_layers
from turnwise.training.update.offload import slot_bytes

logger = logging.getLogger(__name__)

CUDA_BYTES = 600 * 2**20
"""Memory of the driver, its kernels and cuBLAS before the first tensor."""
VLLM_BYTES = 2 * 2**30
"""Memory of vLLM's process without weights and cache: its driver, a step's activations, and CUDA graphs."""
KEYS_AND_VALUES, VLLM, ACTIVATIONS = "engine: keys and values", "engine: vLLM", "activations"
TRANSIENT = (ACTIVATIONS, "optimizer step", "publication", "reference's move")
"""The names of the part that is held during a step only: the largest of them."""


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
    sizes: Sizes = DEFAULT_SIZES
    """The sizes that the plan is for."""
    num_layers: int = 0
    """The model's layers that can be recomputed."""
    host_bytes: int = 0
    """What one process holds of its optimizer in host memory; not among the parts."""

    @property
    def num_bytes(self) -> int:
        return sum(part.num_bytes for part in self.parts)

    @property
    def step_bytes(self) -> int:
        """What is held during a step only."""
        return sum(part.num_bytes for part in self.parts if part.name in TRANSIENT)

    @property
    def fits(self) -> bool:
        """Whether the plan fits into the memory that is free now."""
        return self.memory is not None and self.num_bytes <= self.memory.free


@dataclass(frozen=True, slots=True)
class RecipeModels:
    """The models of a recipe on the meta device."""

    policy: SizedModel
    users: SizedModel | None
    """The model that plays users in this process; None if there is none."""


def outline_models(recipe: Recipe) -> RecipeModels:
    """Raises ValueError for a mistake in the recipe, UnsupportedArchitecture for one that is not planned."""
    has_value, users = has_value_adapter(recipe.algorithm, recipe.value), recipe.of_users()
    policy = _measured(recipe.model, recipe.policy, has_value=has_value)
    count_recomputed(policy.model, recipe.sizes.gradient_checkpointing)
    of_users = None if users is None else _measured(users.model, users.policy, has_value=has_value)
    return RecipeModels(policy, of_users)


def plan_memory(
    recipe: Recipe,
    device: str,
    memory: Memory | None = None,
    models: RecipeModels | None = None,
    *,
    is_trained: bool = True,
) -> MemoryPlan:
    """Plan for this device and its memory, with the sizes that are set and the defaults of the others.

    `models` are those of the recipe, if they are at hand. If not `is_trained`, only engines are planned.
    Raises what `outline_models` raises.
    """
    models = models or outline_models(recipe)
    policy, users = models.policy, recipe.of_users()
    with _unplannable_on_error(policy.model):
        training = tuple(_training_parts(recipe, policy, device)) if is_trained else ()
        is_shared = recipe.model.quantisation != "none"
        engine = _engine_parts(recipe.engine, recipe.sizes, policy, memory, is_shared=is_shared)
        parts = (*training, *engine)
    if users is not None and models.users is not None:
        with _unplannable_on_error(models.users.model):
            is_shared = users.model.quantisation != "none"
            engine = _engine_parts(users.engine, users.sizes, models.users, memory, is_shared=is_shared)
            of_users = tuple(engine)
        parts += tuple(replace(part, name=part.name.replace("engine", "users", 1)) for part in of_users)
    sharding = sharding_of(recipe.hardware)
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
    return MemoryPlan(
        device,
        policy.num_parameters,
        context,
        nonempty,
        memory,
        sharding.num_processes,
        recipe.sizes,
        len(repeated_layers(policy.model)),
        _optimizer_bytes(policy) if is_trained and recipe.sizes.offload else 0,
    )


def check_sft_limits(recipe: Recipe, device: str | None = None) -> None:
    """`check_device_limits` for `turnwise sft`, whose steps have another size and which does not sample."""
    # Nothing is played, so the environment of a run whose successes are learned plays no part.
    changes = {
        "run.tasks_per_step": recipe.sft.samples_per_step,
        "environment": "",
        "engine.kind": "scripted",
    }
    check_device_limits(override_recipe(recipe, changes), device, learning="a step")


def check_device_limits(recipe: Recipe, device: str | None = None, learning: str = "an update") -> None:
    """Raise ValueError if a run needs a tensor too large for the device; only mps has such a limit."""
    device = device or choose_device(recipe.model.device)
    if device != "mps":
        return
    try:
        has_value = has_value_adapter(recipe.algorithm, recipe.value)
        policy = _measured(recipe.model, recipe.policy, has_value=has_value)
        with _unplannable_on_error(policy.model):
            training = training_memory(
                policy, recipe.sizes, recipe.rollout, recipe.run.tasks_per_step, device
            )
    except UnsupportedArchitecture as error:
        logger.warning("cannot check whether mps can hold every tensor: %s", error)
        return
    engine = recipe.engine
    # all running rows are one tensor; at worst they fill the cache
    sizes, longest = recipe.sizes, recipe.rollout.tokens_per_episode
    rows = min(sizes.cache_tokens, sizes.max_batch * longest) * policy.kv_bytes
    check_tensors(
        device,
        {
            "the largest weight (model.dtype)": policy.largest_bytes,
            f"{learning}'s largest tensor (update.tokens_per_microbatch)": training.largest_bytes,
            "keys and values (engine.cache_tokens)": rows if engine.kind == "transformers" else 0,
        },
    )


def _measured(model: ModelConfig, policy: PolicyConfig, *, has_value: bool) -> SizedModel:
    shape, is_quantised = outline(model), model.quantisation != "none"
    with _unplannable_on_error(shape, but=ValueError):  # invalid adapters: a user's mistake
        return measure_model(shape, policy, is_quantised=is_quantised, has_value=has_value)


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
    optimizer_bytes = _optimizer_bytes(policy)
    has_copy = trained_bytes < 4 * num_trained
    why = "AdamW's moments and a float32 copy" if has_copy else "AdamW's moments"
    if recipe.sizes.offload:
        why = f"{optimizer_bytes / 1e9:.2f} GB in host memory, a piece at a time here (optimizer.offload)"
        optimizer_bytes = slot_bytes(num_trained)
    yield MemoryPart("optimizer", optimizer_bytes, why)
    reference = recipe.reference.kind
    is_kept = reference in ("hard", "ema") or (reference == "frozen" and recipe.policy.tuning == "full")
    reference_bytes = _reference_bytes(policy, recipe.reference.kind)
    yield MemoryPart("reference", reference_bytes if is_kept else 0, f"reference.kind = {reference!r}")
    if sharding_of(recipe.hardware).is_on:
        gathered = gathered_bytes(policy.model, policy.plain_bytes)
        yield MemoryPart("gathered weights", gathered, "embeddings, head and two layers, unsharded")
    yield _transient_part(recipe, policy, device)


def _transient_part(recipe: Recipe, policy: SizedModel, device: str) -> MemoryPart:
    """The largest of the temporary allocations of a step, which never coexist."""
    training = training_memory(policy, recipe.sizes, recipe.rollout, recipe.run.tasks_per_step, device)
    activations = _peak_activations(policy, training, device)
    why = f"{training.num_tokens:,} tokens at a time (update.tokens_per_microbatch)"
    num_layers = len(repeated_layers(policy.model))
    num_recomputed = count_recomputed(policy.model, recipe.sizes.gradient_checkpointing)
    if num_recomputed:
        part = f"{num_recomputed} of {num_layers} layers "
        why += f", {part if num_recomputed < num_layers else ''}recomputed"
    # torch's foreach AdamW takes the roots of all second moments at once
    num_roots = 0 if recipe.sizes.offload else policy.num_trained
    stepping = sharding_of(recipe.hardware).share("optimizer", 4 * num_roots)
    merging = 0
    if recipe.policy.tuning == "lora" and not recipe.publishes_adapters and recipe.engine.kind != "scripted":
        # weights are merged one after another, but a remote engine is sent all of them at once
        merging = policy.adapted_bytes if recipe.engine.kind == "remote" else policy.merging_bytes
    if sharding_of(recipe.hardware).is_on and not recipe.publishes_adapters:
        merging += policy.plain_bytes
    moves = recipe.reference.kind in ("hard", "ema")
    moving = (
        sharding_of(recipe.hardware).share("reference", _reference_bytes(policy, recipe.reference.kind))
        if moves
        else 0
    )
    moments = (
        MemoryPart(ACTIVATIONS, activations, why),
        MemoryPart("optimizer step", stepping, "square roots of the second moments"),
        MemoryPart("publication", merging, "full weights, with merged adapters"),
        MemoryPart("reference's move", moving, "a copy to compare it with"),
    )
    return max(moments, key=lambda part: part.num_bytes)


def _optimizer_bytes(policy: SizedModel) -> int:
    """Moments, and a float32 copy of narrower parameters."""
    has_copy = policy.trained_bytes < 4 * policy.num_trained
    return (12 if has_copy else 8) * policy.num_trained


def _reference_bytes(policy: SizedModel, kind: str) -> int:
    # the average is kept in float32 and cast to the type of the parameters for a pass
    return 4 * policy.num_trained if kind == "ema" else policy.trained_bytes


def _peak_activations(policy: SizedModel, training: PassMemory, device: str) -> int:
    return max(training.peak_bytes, training.at_head_bytes + head_bytes(policy, training.num_tokens, device))


def _engine_parts(
    engine: EngineConfig, sizes: Sizes, policy: SizedModel, memory: Memory | None, *, is_shared: bool
) -> Iterator[MemoryPart]:
    """The engine's parts; if `is_shared`, it samples with the quantised base of the policy."""
    if engine.kind == "vllm":
        share, cache = sizes.gpu_memory_utilization, sizes.cache_gib
        taken = int(share * memory.total) if memory is not None else 0
        why = f"weights and cache: engine.vllm.gpu_memory_utilization = {share}"
        if cache is not None:
            taken = policy.plain_bytes + VLLM_BYTES + int(cache * 2**30)
            why = f"weights, its process, and engine.vllm.cache_gib = {cache}"
        yield MemoryPart(VLLM, taken, why + (", free during an update" if engine.vllm.sleep else ""))
    if engine.kind != "transformers":
        return
    yield MemoryPart("engine: weights", 0 if is_shared else policy.plain_bytes, "its own copy")
    yield MemoryPart(
        "engine: adapters", policy.adapter_bytes if is_shared else 0, "on the base of the policy"
    )
    # episodes that have ended stay in the cache until others need the room
    why = f"{sizes.cache_tokens:,} tokens (engine.cache_tokens)"
    yield MemoryPart(KEYS_AND_VALUES, sizes.cache_tokens * policy.kv_bytes, why)
    step = sampling_bytes(policy, sizes.max_batch)
    yield MemoryPart("engine: a step", step, f"engine.max_batch = {sizes.max_batch}")
