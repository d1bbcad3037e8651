"""Takes a recipe, gives what a run of it holds in memory, part by part, without loading a weight.

What depends on the architecture is not estimated by a formula: the model is made on the meta device, an
update's forward and backward pass are run there, and what they would hold is counted.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from turnwise.config import Recipe, changed_recipe
from turnwise.devices import Memory, check_tensors, choose_device, memory_of
from turnwise.planning.outline import outline
from turnwise.planning.passes import Most, Trained, head_bytes, sampling_bytes, trained, training_bytes
from turnwise.planning.spread import gathered_bytes, spreading

logger = logging.getLogger(__name__)

CUDA_BYTES = 600 * 2**20
"""What the driver, its kernels and cuBLAS take before the first tensor."""


class Unplannable(ValueError):
    """An architecture that is not understood here; a run of it may still go well."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something that is held, and which keys of the recipe make it what it is."""

    name: str
    num_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All parts, on one device, at the worst moment of a step."""

    device: str
    num_parameters: int
    context: int | None
    """Tokens that the model was made for; None if it does not say."""
    parts: tuple[Part, ...]
    memory: Memory | None
    """Of the device; None where it is not on this machine."""
    num_processes: int = 1
    """Each of which holds this."""

    @property
    def num_bytes(self) -> int:
        return sum(part.num_bytes for part in self.parts)

    @property
    def fits(self) -> bool:
        """Into what is free now."""
        return self.memory is not None and self.num_bytes <= self.memory.free


def plan_memory(recipe: Recipe, device: str, memory: Memory | None = None) -> Plan:
    """On this device, with this much memory; ValueError for the user's mistakes, Unplannable for no one's."""
    policy = _trained(recipe)
    with _understood(policy.model):
        parts = (*_learning(recipe, policy, device), *_sampling(recipe, policy, memory))
    spread = spreading(recipe)
    parts = tuple(
        Part(part.name, spread.of(part.name, part.num_bytes), spread.why(part.name, part.why))
        for part in parts
    )
    if device == "cuda":
        parts = (*parts, Part("CUDA itself", CUDA_BYTES, "driver, kernels"))
    context = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None)
    held = tuple(part for part in parts if part.num_bytes)
    return Plan(device, policy.num_parameters, context, held, memory, spread.num_processes)


def plan_anywhere(recipe: Recipe, memory: Memory | None = None) -> Plan:
    """On the recipe's device, also where this machine has none; `memory`: what that device has."""
    try:
        device = choose_device(recipe.model.device)
    except ValueError:
        return plan_memory(recipe, recipe.model.device, memory)
    return plan_memory(recipe, device, memory or _own_memory(device, recipe.hardware.num_processes))


def _own_memory(device: str, num_processes: int) -> Memory:
    """Of one process: a GPU is its own, the machine's memory is shared."""
    found = memory_of(device)
    if device == "cuda":
        return found
    return Memory(found.free // num_processes, found.total // num_processes)


def check_device_limits(recipe: Recipe, device: str | None = None) -> None:
    """ValueError if a run would come to a tensor that the device cannot hold; only mps has such a limit."""
    _check_limits(recipe, device, "an update's largest tensor (update.tokens_per_microbatch)")


def check_sft_limits(recipe: Recipe, device: str | None = None) -> None:
    """The same of `turnwise sft`, which has micro-batches of its own and samples nothing."""
    sft = recipe.sft
    alike = changed_recipe(
        recipe,
        [
            f"update.tokens_per_microbatch={sft.tokens_per_microbatch}",
            f"run.tasks_per_step={sft.samples_per_step}",
            "engine.kind=scripted",
        ],
    )
    _check_limits(alike, device, "a step's largest tensor (sft.tokens_per_microbatch)")


def _check_limits(recipe: Recipe, device: str | None, learning: str) -> None:
    device = device or choose_device(recipe.model.device)
    if device != "mps":
        return
    try:
        policy, most = _largest(recipe, device)
    except Unplannable as error:
        logger.warning("whether mps can hold every tensor is not known: %s", error)
        return
    engine = recipe.engine
    # of the running rows, at worst all that may be cached
    rows = min(engine.cache_tokens, engine.max_batch * recipe.rollout.tokens_per_episode) * policy.kv_bytes
    check_tensors(
        device,
        {
            "the largest weight (model.dtype)": policy.largest_bytes,
            learning: most.largest,
            "keys and values (engine.cache_tokens)": rows if engine.kind == "transformers" else 0,
        },
    )


def _trained(recipe: Recipe) -> Trained:
    shape = outline(recipe.model)
    with _understood(shape, but=ValueError):  # of adapters that it cannot have: the user's
        return trained(shape, recipe)


def _largest(recipe: Recipe, device: str) -> tuple[Trained, Most]:
    policy = _trained(recipe)
    with _understood(policy.model):
        return policy, training_bytes(policy, recipe, device)


@contextlib.contextmanager
def _understood(model: Any, *, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Unplannable for whatever is raised inside: a model's own code runs there, without numbers."""
    try:
        yield
    except but:
        raise
    except Exception as error:
        why = str(error).partition("\n")[0]
        name = type(model).__name__
        raise Unplannable(f"the memory of a {name} is not planned ({type(error).__name__}: {why})") from error


def _learning(recipe: Recipe, policy: Trained, device: str) -> Iterator[Part]:
    kind = recipe.model.dtype if recipe.model.quantisation == "none" else recipe.model.quantisation
    yield Part("policy: weights", policy.weight_bytes, f"{policy.num_parameters / 1e6:,.1f} million, {kind}")
    learning = policy.learning_bytes
    yield Part("policy: adapters", policy.adapter_bytes, f"policy.lora_rank = {recipe.policy.lora_rank}")
    yield Part("gradients", 4 * policy.num_learning, f"of {policy.num_learning / 1e6:,.1f} million, float32")
    twins = 4 * policy.num_learning if learning < 4 * policy.num_learning else 0
    why = "AdamW's moments and a float32 twin" if twins else "AdamW's moments"
    yield Part("optimizer", 8 * policy.num_learning + twins, why)
    reference = recipe.reference.kind
    is_kept = reference in ("hard", "ema") or (reference == "frozen" and recipe.policy.tuning == "full")
    # an average is kept in float32 and taken into the parameters' own type to be run
    width = 4 * policy.num_learning if reference == "ema" else learning
    yield Part("reference", width if is_kept else 0, f"reference.kind = {reference!r}")
    if spreading(recipe).is_on:
        whole = gathered_bytes(policy.model, policy.plain_bytes)
        yield Part("weights brought together", whole, "embeddings, head and two layers, whole")
    yield _work(recipe, policy, device)


def _work(recipe: Recipe, policy: Trained, device: str) -> Part:
    """What is held only for a while: these moments of a step come one after the other."""
    most = training_bytes(policy, recipe, device)
    activations = max(most.most, most.at_head + head_bytes(policy, most.num_tokens, device))
    why = f"{most.num_tokens:,} tokens at a time (update.tokens_per_microbatch)"
    if recipe.policy.gradient_checkpointing:
        why += ", recomputed"
    # torch's foreach AdamW takes the roots of all second moments at once
    stepping = spreading(recipe).of("optimizer", 4 * policy.num_learning)
    merging = 0
    if recipe.policy.tuning == "lora" and not recipe.publishes_adapters and recipe.engine.kind != "scripted":
        merging = policy.adapted_bytes
    if spreading(recipe).is_on and not recipe.publishes_adapters:
        merging += policy.plain_bytes
    moments = {
        activations: ("activations", why),
        stepping: ("optimizer's step", "roots of the moments"),
        merging: ("publication", "weights whole, adapters merged into them"),
    }
    return Part(moments[max(moments)][0], max(moments), moments[max(moments)][1])


def _sampling(recipe: Recipe, policy: Trained, memory: Memory | None) -> Iterator[Part]:
    engine = recipe.engine
    if engine.kind == "vllm":
        share, cache = engine.vllm.gpu_memory_utilization, engine.vllm.cache_gib
        taken = int(share * memory.total) if memory is not None else 0
        why = f"weights and cache: engine.vllm.gpu_memory_utilization = {share}"
        if cache is not None:
            taken = policy.plain_bytes + int(cache * 2**30)
            why = f"weights, and engine.vllm.cache_gib = {cache}"
        yield Part("engine: vLLM", taken, why + (", free during an update" if engine.vllm.sleep else ""))
    if engine.kind != "transformers":
        return
    is_shared = recipe.model.quantisation != "none"
    yield Part("engine: weights", 0 if is_shared else policy.plain_bytes, "a copy of its own")
    yield Part("engine: adapters", policy.adapter_bytes if is_shared else 0, "on the policy's own base")
    in_play = recipe.rollout.num_parallel_episodes * recipe.rollout.tokens_per_episode
    num_tokens = min(engine.cache_tokens, in_play)
    key = "engine.cache_tokens" if num_tokens < in_play else "episodes in play × rollout.tokens_per_episode"
    yield Part("engine: keys and values", num_tokens * policy.kv_bytes, f"{num_tokens:,} tokens ({key})")
    step = sampling_bytes(policy, recipe)
    yield Part("engine: a step", step, f"engine.max_batch = {engine.max_batch}")
