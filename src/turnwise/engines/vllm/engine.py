"""The vLLM engine: vLLM's asynchronous engine in its own process.

The first request starts the process. If it dies, the next request restarts it with the weights published
last. See docs/guides/engines.md.
"""

import asyncio
import contextlib
import gc
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from turnwise.engines.adapter_checks import check_adapter
from turnwise.engines.request_check import check_request
from turnwise.engines.vllm.calls import (
    Published,
    VllmSettings,
    completion_of,
    end,
    import_vllm,
    load,
    memory_hint,
    parameters_of,
    start,
    unless_dead,
)
from turnwise.engines.weight_transfer import Block, lay_out, write_adapter
from turnwise.system.files.tree_removal import remove_tree
from turnwise.types import Completion, Sampling
from turnwise.types.protocols import Adapter, EngineDown

MAX_RESTARTS = 3
"""Starts in a row without a completion, after which the engine stays down."""


@dataclass(frozen=True, slots=True)
class _RunningVllm:
    """The running vLLM and the weights it samples from."""

    llm: Any
    published: Published


class VllmEngine:
    """Samples from `model`, a folder or hub name, on a GPU shared with the trainer, or on a CPU."""

    def __init__(self, model: str | Path, settings: VllmSettings, *, version: int = 0) -> None:
        self._model, self._settings = str(model), settings
        self._published = Published(0, version)
        self._spare: Block | None = None  # memory for the next publication
        self._running: _RunningVllm | None = None
        self._starting: asyncio.Task[_RunningVllm] | None = None
        self._num_failed_starts = 0
        self._retired: Published | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="turnwise-vllm-"))
        self._numbers = count(1)
        self._begun: set[str] = set()
        self._num_using: Counter[int] = Counter()
        self._quiet, self._open, self._released = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._quiet.set()
        self._open.set()
        self._changing = asyncio.Lock()
        self._is_asleep = False
        self._is_closed = False

    # --- sampling ----------------------------------------------------------------------------------------

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn. Cancelling it frees its slot at the next step."""
        check_request(prompt_ids, sampling, self._settings.max_model_len)
        running = await self._admit()
        name = f"{seed:x}-{next(self._numbers)}"  # unique; turns of one episode have consecutive seeds
        number = running.published.number
        self._begun.add(name)
        self._num_using[number] += 1
        self._quiet.clear()
        try:
            output = await self._sample(running, prompt_ids, sampling, seed, name)
        finally:
            self._begun.discard(name)
            self._num_using[number] -= 1
            if not self._num_using[number]:
                self._released.set()
            if not self._begun:
                self._quiet.set()
        self._num_failed_starts = 0
        return completion_of(output, running.published.version)

    async def _admit(self) -> _RunningVllm:
        """Wait until vLLM runs and no publication is in progress."""
        while True:
            if self._is_closed:
                raise EngineDown("the engine is closed")
            if not self._open.is_set():
                await self._open.wait()
            elif self._running is None:
                await self._start()
            else:
                return self._running

    async def _sample(
        self, running: _RunningVllm, prompt_ids: Sequence[int], sampling: Sampling, seed: int, name: str
    ) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        # The salt prevents hits on prefixes that were cached under other weights.
        prompt = {"prompt_token_ids": list(prompt_ids), "cache_salt": str(running.published.number)}
        stream = running.llm.generate(
            prompt, parameters_of(sampling, seed), name, lora_request=running.published.adapter
        )
        try:
            async for output in stream:  # a single output: the finished one
                if output.finished:
                    return output.outputs[0]
        except EngineDeadError as error:
            await self._discard(running)
            raise EngineDown(f"vLLM died: {error}") from None
        except EngineGenerateError as error:
            raise EngineDown(f"vLLM failed: {error.__cause__!r}") from None
        raise EngineDown("vLLM ended a request without its last output")

    # --- weights -----------------------------------------------------------------------------------------

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        """Load new weights and return when they are in use. Wakes the engine if it sleeps.

        Whole weights wait until all requests in progress are finished. An adapter does not: these finish with
        the adapter they started with. It waits only for requests that use the adapter before the current.
        """
        rank = self._settings.lora_rank
        if isinstance(weights, Adapter) != bool(rank):
            wanted = f"adapters up to rank {rank}" if rank else "whole weights"
            raise ValueError(f"weights: the engine was started for {wanted}")
        if isinstance(weights, Adapter):
            check_adapter(weights)
            if weights.rank > rank:
                raise ValueError(f"weights: an adapter of rank {weights.rank}; the engine takes up to {rank}")
        async with self._changing:
            await self._wake(await self._started())
            if isinstance(weights, Adapter):
                await self._publish_adapter(weights, version)
            else:
                await self._publish_weights(weights, version)

    async def _publish_adapter(self, adapter: Adapter, version: int) -> None:
        from vllm.lora.request import LoRARequest

        await self._drop_retired()
        number = next(self._numbers)
        folder = self._folder / str(number)
        await asyncio.to_thread(write_adapter, adapter, folder, self._settings.dtype)
        request = LoRARequest(f"version-{version}-{number}", number, str(folder))
        await self._take(Published(number, version, adapter=request))

    async def _drop_retired(self) -> None:
        """Unload the previous adapter when no request uses it: vLLM has slots for two adapters only."""
        if self._retired is None:
            return
        from vllm.v1.engine.exceptions import EngineDeadError

        number = self._retired.number
        while self._num_using[number]:
            self._released.clear()
            await self._released.wait()
        if self._running is not None:
            with contextlib.suppress(EngineDeadError):  # a dead process has unloaded it
                await unless_dead(self._running.llm, self._running.llm.remove_lora(number))
        remove_tree(self._folder / str(number))
        self._retired = None

    async def _publish_weights(self, weights: Mapping[str, Any], version: int) -> None:
        spare, self._spare = self._spare, None
        block = await asyncio.to_thread(lay_out, weights, spare)
        self._open.clear()
        try:
            await self._quiet.wait()
            await self._take(Published(next(self._numbers), version, block))
        finally:
            if self._published.block is not block:  # refused
                self._spare = block
            self._open.set()

    async def _take(self, published: Published) -> None:
        """Load weights into vLLM; from now on a restart begins with them."""
        from vllm.v1.engine.exceptions import EngineDeadError

        before, running = self._published, self._running
        try:
            if running is None:
                raise EngineDeadError
            await load(running.llm, published)
            self._running = _RunningVllm(running.llm, published)
        except EngineDeadError:
            await self._discard(running)
        except Exception as error:  # noqa: BLE001 - vLLM raises a worker's error as a plain Exception
            await self._discard(running)  # may be half loaded: the next request restarts vLLM with `before`
            raise EngineDown(f"vLLM could not take version {published.version}: {error}") from None
        self._published = published
        self._spare = before.block
        await self._started()
        if before.adapter is not None:
            self._retired = before
            if not self._num_using[before.number]:
                await self._drop_retired()

    # --- memory ------------------------------------------------------------------------------------------

    async def sleep(self) -> None:
        """Release GPU memory for the trainer until the next publication; requests wait meanwhile."""
        if not self._settings.can_sleep or self._is_asleep:
            return
        from vllm.v1.engine.exceptions import EngineDeadError

        async with self._changing:
            running = self._running
            if running is None:  # died or not started: holds no memory
                return
            self._open.clear()
            try:
                await self._quiet.wait()
                # Level 2 drops the weights: whole ones are published again anyway, an adapter's base is not.
                level = 1 if self._settings.lora_rank else 2
                await unless_dead(running.llm, running.llm.sleep(level=level))
                self._is_asleep = True
            except EngineDeadError:
                await self._discard(running)
            finally:
                if not self._is_asleep:
                    self._open.set()

    async def _wake(self, running: _RunningVllm) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        if self._is_asleep:
            try:
                await unless_dead(running.llm, running.llm.wake_up())
            except EngineDeadError:
                await self._discard(running)
            self._is_asleep = False
            if self._settings.lora_rank:  # else there are no weights until the publication
                self._open.set()

    async def memory(self) -> dict[str, float]:
        """The memory vLLM holds, in GiB, as metrics."""
        running = await self._admit()
        [sizes] = await unless_dead(running.llm, running.llm.collective_rpc("held_bytes"))
        return {f"memory/engine_{name}_gib": size / 2**30 for name, size in sizes.items()}

    # --- start and stop ----------------------------------------------------------------------------------

    def begin_start(self) -> None:
        """Start vLLM in the background; otherwise the first request or publication starts it."""
        import_vllm()  # in this thread: two that import the same packages may see them half initialised
        if self._running is None and self._starting is None:
            self._starting = asyncio.ensure_future(self._start_now())

    async def wait_started(self) -> None:
        """Wait until vLLM runs. Raises EngineDown."""
        await self._started()

    async def close(self) -> None:
        """Stop the process. Waiting requests fail with EngineDown."""
        if self._is_closed:
            return
        self._is_closed = True
        self._open.set()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._running is not None:
            llm, self._running = self._running.llm, None
            await llm.abort(list(self._begun))
            await end(llm)
            del llm
            gc.collect()  # vLLM's object is in reference cycles; collected at interpreter exit, it complains
        for block in filter(None, (self._published.block, self._spare)):
            block.close()
        remove_tree(self._folder)

    async def _started(self) -> _RunningVllm:
        if self._is_closed:
            raise EngineDown("the engine is closed")
        return self._running or await self._start()

    async def _start(self) -> _RunningVllm:
        """Start vLLM once for all callers; a cancelled caller does not cancel the start."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start_now())
        try:
            return await asyncio.shield(self._starting)
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None

    async def _start_now(self) -> _RunningVllm:
        if self._num_failed_starts >= MAX_RESTARTS:
            raise EngineDown(f"vLLM died {MAX_RESTARTS} times in a row")
        self._num_failed_starts += 1
        llm, started = None, list[Any]()
        try:
            # Not as the thread's result: vLLM keeps frames of its start, and with them that result.
            await asyncio.to_thread(lambda: started.append(start(self._model, self._settings)))
            llm = started.pop()
            await unless_dead(llm, llm.collective_rpc("end_with", args=(os.getpid(),)))
            await load(llm, self._published)
        except Exception as error:  # any error during the start means that the engine is down
            if llm is not None:
                await end(llm)
            hint = memory_hint(error, self._settings)
            raise EngineDown(f"vLLM could not be started: {error}{hint}") from error
        self._is_asleep = False
        self._running = _RunningVllm(llm, self._published)
        return self._running

    async def _discard(self, running: _RunningVllm | None) -> None:
        """Shut down a dead vLLM; the next request starts another. Only the first call has an effect."""
        if running is not None and self._running is not None and self._running.llm is running.llm:
            self._running = None
            await end(running.llm)
