"""The engine for any causal model of transformers, on CPU, CUDA or MPS.

The model runs in a worker thread, one step at a time. Requests are admitted and finished between steps;
the event loop only waits for them. See docs/guides/engines.md for what a step contains.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch

from turnwise.engines.adapter_checks import check_adapter
from turnwise.engines.continuous.adapter_layers import AdapterLayers
from turnwise.engines.continuous.attention import NAME, register
from turnwise.engines.continuous.request import Request, new_request
from turnwise.engines.continuous.rows import rounded
from turnwise.engines.continuous.scheduler import Counts, Scheduler
from turnwise.engines.continuous.tree import KVShape
from turnwise.engines.continuous.weights import changed_by, check_weights, copy_weights, merge
from turnwise.engines.request_check import check_request
from turnwise.models.device_memory import memory_of
from turnwise.models.devices import choose_device
from turnwise.models.model_support import is_quantised, why_not_ours
from turnwise.types import Completion, Sampling
from turnwise.types.protocols import Adapter, Ask, EngineDown

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MEMORY_SHARE = 0.25
"""Share of the machine's memory, or of a GPU's free memory, for keys and values if no budget is given."""

PREFILL_CHUNK = 512
"""Prompt tokens computed with each decoding step; memory planning assumes the same number."""


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    """A request and the future its caller awaits."""

    request: Request
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Completion]"


@dataclass(frozen=True, slots=True)
class _Publication:
    """New weights, loaded between two steps when no request is in progress."""

    weights: Mapping[str, Any] | Adapter | None
    """An adapter is applied beside a quantised base. None keeps the weights and only drops the caches."""
    version: int
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[None]"


class TransformersEngine:
    """Samples from `model`. The engine owns it from now on: moves it, sets eval mode, changes its weights.

    max_batch: requests sampled at once. cache_tokens: the most tokens whose keys and values are held; by
    default as many as a quarter of the memory holds. prefill_chunk: prompt tokens computed with each decoding
    step; larger finishes prompts sooner, smaller slows running requests less.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        *,
        device: str = "auto",
        dtype: torch.dtype = torch.float32,
        max_batch: int = 32,
        cache_tokens: int | None = None,
        prefill_chunk: int = PREFILL_CHUNK,
        version: int = 0,
    ) -> None:
        for name, value in (("max_batch", max_batch), ("prefill_chunk", prefill_chunk)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if reason := why_not_ours(model):  # our attention would compute another model
            raise ValueError(f"{type(model).__name__} has {reason}: not supported")
        place = torch.device(choose_device(device))
        self._model = cast("Any", model)  # transformers' annotations are too loose to check against
        self._model.to(place).eval()
        if any(parameter.dtype != dtype for parameter in model.parameters() if parameter.is_floating_point()):
            self._model.to(dtype)  # only if needed: a model read from a quantised file refuses the call
        register()
        self._model.set_attn_implementation(NAME)
        shape = _kv_shape(model.config, dtype, place)
        self._cache_tokens = cache_tokens if cache_tokens is not None else _default_cache_tokens(shape)
        self._context: int = model.config.max_position_embeddings
        self._vocab_size: int = self._model.get_input_embeddings().weight.shape[0]
        self._scheduler = Scheduler(
            self._model,
            shape,
            max_batch=max_batch,
            cache_tokens=self._cache_tokens,
            prefill_chunk=prefill_chunk,
        )
        self._scheduler.policy_version = version
        self._base: dict[str, torch.Tensor] = {}
        self._adapters = AdapterLayers(model) if any(map(is_quantised, model.parameters())) else None
        self._inbox: queue.SimpleQueue[tuple[_PendingRequest, ...] | _Publication | None] = (
            queue.SimpleQueue()
        )
        self._asked: dict[Request, _PendingRequest] = {}
        self._publications: deque[_Publication] = deque()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="turnwise-engine", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> Counts:
        """A copy of the counters."""
        return replace(self._scheduler.counts)

    @property
    def num_cached_tokens(self) -> int:
        """Tokens for which memory is allocated now."""
        return self._scheduler.num_cached

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn. Cancelling it frees its row at the next step."""
        [future] = self.submit([Ask(tuple(prompt_ids), sampling, seed)])
        return await future

    def submit(self, asks: Sequence[Ask]) -> "list[asyncio.Future[Completion]]":
        """Queue a whole batch, in order: no step runs before all of it is queued."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Completion]] = []
        batch: list[_PendingRequest] = []
        for ask in asks:
            future: asyncio.Future[Completion] = loop.create_future()
            futures.append(future)
            try:
                self._check_request(ask.prompt_ids, ask.sampling)
            except ValueError as error:
                future.set_exception(error)
                continue
            request = new_request(ask.prompt_ids, ask.sampling, ask.seed)
            future.add_done_callback(partial(_note_cancelled, request))
            batch.append(_PendingRequest(request, loop, future))
        self._send(tuple(batch))
        return futures

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        """Load new weights when all requests in progress are finished, and return when they are in use.

        Requests that have not started wait and use the new weights. All caches are dropped. An adapter is
        merged into the weights it changes, whose unmerged copies are kept from then on; on a quantised base
        it is applied separately instead.
        """
        if isinstance(weights, Adapter) and self._adapters is not None:
            self._adapters.check(weights)
            await self._send_quiet(weights, version)
            return
        if self._adapters is not None:
            raise ValueError("weights: a quantised base is never written over: publish an adapter")
        if isinstance(weights, Adapter):
            await self._send_quiet(self._merged(weights), version)
            return
        check_weights(self._model, weights)  # first: refused weights must not drop the adapter's base
        self._base.clear()
        await self._send_quiet(weights, version)

    def _merged(self, adapter: Adapter) -> dict[str, Any]:
        own = {name: parameter.detach() for name, parameter in self._model.named_parameters()}
        check_adapter(adapter, {name: parameter.shape for name, parameter in own.items()})
        for name in changed_by(adapter):
            if name not in self._base:
                self._base[name] = own[name].clone()
        return own | self._base | merge(self._base, adapter)

    async def forget(self) -> None:
        """Drop all caches when no request is in progress: later requests then round as in a fresh engine."""
        await self._send_quiet(None, 0)

    async def close(self) -> None:
        """Stop the thread after its current step. Waiting requests fail with EngineDown."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._inbox.put(None)
        while self._thread.is_alive():
            await asyncio.sleep(0.005)

    async def _send_quiet(self, weights: Mapping[str, Any] | Adapter | None, version: int) -> None:
        loop = asyncio.get_running_loop()
        publication = _Publication(weights, version, loop, loop.create_future())
        self._send(publication)
        await publication.future

    def _send(self, order: tuple[_PendingRequest, ...] | _Publication) -> None:
        with self._lock:
            if self._is_closed:
                raise EngineDown("the engine is closed")
            self._inbox.put(order)

    def _check_request(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        check_request(prompt_ids, sampling, self._context)
        length, new = len(prompt_ids), sampling.max_tokens
        if length - 1 + rounded(new + 1) > self._cache_tokens:
            raise ValueError(
                f"a prompt of {length} tokens and {new} new ones do not fit cache_tokens={self._cache_tokens}"
            )
        low, high = min(prompt_ids), max(prompt_ids)
        if low < 0 or high >= self._vocab_size:
            raise ValueError(
                f"prompt ids run from {low} to {high}, the model's from 0 to {self._vocab_size - 1}"
            )

    # --- the worker thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        reason = "the engine is closed"
        try:
            with torch.inference_mode():
                while self._take_orders():
                    self._publish_if_quiet()
                    self._step()
        except BaseException as error:
            reason = f"the engine's thread died: {error!r}"
            raise
        finally:
            self._end(reason)

    def _take_orders(self) -> bool:
        """Read the inbox, blocking if there is nothing else to do. Return False if the engine is closed."""
        while True:
            is_waiting = self._scheduler.is_idle and not self._publications
            try:
                order = self._inbox.get(block=is_waiting)
            except queue.Empty:
                return True
            if order is None:
                return False
            if isinstance(order, _Publication):
                self._publications.append(order)
            else:
                for asked in order:
                    self._asked[asked.request] = asked
                    self._scheduler.submit(asked.request)

    def _publish_if_quiet(self) -> None:
        while self._publications and not self._scheduler.is_busy:
            publication = self._publications.popleft()
            if publication.future.cancelled():
                continue
            if publication.weights is None:
                self._scheduler.forget()
                self._tell(publication, None)
                continue
            try:
                self._take(publication.weights)
            except RuntimeError as error:  # shapes were checked: a device error, with some tensors copied
                failure = EngineDown(f"the weights of version {publication.version} are half copied: {error}")
                self._tell(publication, failure)
                continue
            finally:
                self._scheduler.forget()
            self._scheduler.policy_version = publication.version
            self._tell(publication, None)

    def _take(self, weights: Mapping[str, Any] | Adapter) -> None:
        if isinstance(weights, Adapter):
            assert self._adapters is not None, "merged where it was published"
            self._adapters.take(weights)
        else:
            copy_weights(self._model, weights)

    def _step(self) -> None:
        try:
            outcomes = self._scheduler.step(is_admitting=not self._publications)
        except Exception as error:  # noqa: BLE001 - any error of the model fails its requests
            failure = EngineDown(f"the model failed: {type(error).__name__}: {error}")
            # If none was admitted, the waiting ones cannot be: left in the queue, they would fail for ever.
            lost = self._scheduler.abort() or self._scheduler.drain()
            outcomes = [(request, failure) for request in lost]
        for request, outcome in outcomes:
            self._tell(self._asked[request], outcome)
        # Scans all pending requests: they are few.
        done = {request for request, _ in outcomes}
        for request in [pending for pending in self._asked if pending in done or pending.is_cancelled]:
            del self._asked[request]

    def _end(self, reason: str) -> None:
        with self._lock:
            self._is_closed = True
        while True:
            try:
                order = self._inbox.get_nowait()
            except queue.Empty:
                break
            if isinstance(order, _Publication):
                self._publications.append(order)
            elif order is not None:
                self._asked.update((asked.request, asked) for asked in order)
        waiters: list[_PendingRequest | _Publication] = [*self._asked.values(), *self._publications]
        for waiter in waiters:
            self._tell(waiter, EngineDown(reason))
        self._asked.clear()
        self._publications.clear()
        self._scheduler.drain()
        self._scheduler.abort()

    @staticmethod
    def _tell(waiter: _PendingRequest | _Publication, outcome: Completion | EngineDown | None) -> None:
        future: asyncio.Future[Any] = waiter.future

        def settle() -> None:
            if future.done():
                return
            if isinstance(outcome, EngineDown):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        try:
            waiter.loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop is closed: no caller waits any more
            return


def _note_cancelled(request: Request, future: "asyncio.Future[Completion]") -> None:
    request.is_cancelled = future.cancelled()


def _kv_shape(config: Any, dtype: torch.dtype, device: torch.device) -> KVShape:
    num_heads = config.num_attention_heads
    return KVShape(
        num_layers=config.num_hidden_layers,
        num_kv_heads=getattr(config, "num_key_value_heads", None) or num_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // num_heads,
        dtype=dtype,
        device=device,
    )


def _default_cache_tokens(shape: KVShape) -> int:
    memory = memory_of(shape.device.type)
    room = memory.free if shape.device.type == "cuda" else memory.total
    return max(2048, int(room * MEMORY_SHARE) // shape.bytes_per_token)
