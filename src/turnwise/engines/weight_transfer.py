"""Pass weights to another process: as a block of shared memory, or as a model's or adapter's folder."""

import asyncio
import contextlib
import copy
import json
import math
import mmap
import os
import socket
import tempfile
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from turnwise.models.page_locking import LockablePages
from turnwise.types.protocols import Adapter

ALIGNMENT = 64
"""In bytes: one cache line, and more than any dtype needs."""

Table = Sequence[tuple[str, str, Sequence[int], int]]
"""Name, dtype, shape and offset of each tensor."""


class Block:
    """Named tensors stored one after another in anonymous shared memory, which can be written again."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        table: list[tuple[str, str, Sequence[int], int]] = []
        size = 0
        for name, tensor in weights.items():
            table.append((name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), size))
            size += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
        self.table: Table = table
        self._file = os.memfd_create("turnwise-weights")  # unlike /dev/shm, limited only by the memory
        self._release = weakref.finalize(self, os.close, self._file)
        try:
            os.ftruncate(self._file, size)
            self._memory = LockablePages(self._file, size)
            self.write(weights)
        except BaseException:
            self.close()
            raise

    @contextlib.asynccontextmanager
    async def offered(self) -> AsyncIterator[str]:
        """Yield the path of a socket that hands the memory to other processes of the same user.

        Not `/proc/PID/fd`: this process may be closed to others, see `mcp/processes/launch.py`.
        """
        loop = asyncio.get_running_loop()
        with tempfile.TemporaryDirectory(prefix="turnwise-") as folder, _unix_socket() as listener:
            path = f"{folder}/weights"
            with _short(path) as address:
                listener.bind(address)
            listener.listen()
            listener.setblocking(False)
            loop.add_reader(listener, self._hand_out, listener)
            try:
                yield path
            finally:
                loop.remove_reader(listener)

    def _hand_out(self, listener: socket.socket) -> None:
        lost = contextlib.suppress(BlockingIOError, ConnectionError)  # a reader may end early
        with lost, listener.accept()[0] as reader:
            socket.send_fds(reader, [b"."], [self._file])

    def holds(self, weights: Mapping[str, Any]) -> bool:
        """Whether these are the weights of the same model."""
        return [name for name, *_ in self.table] == list(weights)

    def write(self, weights: Mapping[str, Any]) -> None:
        """Copy tensors of the table's dtypes and shapes from any device."""
        is_on_gpu = False
        with torch.no_grad():
            for name, tensor in _views(self._memory, self.table):
                source = weights[name]
                assert (source.dtype, source.shape) == (tensor.dtype, tensor.shape), f"{name} is as before"
                if source.is_cuda and not is_on_gpu:
                    is_on_gpu = True
                    self._memory.lock()
                tensor.copy_(source, non_blocking=is_on_gpu)
        if is_on_gpu:
            torch.cuda.current_stream().synchronize()

    def close(self) -> None:
        """Free the memory; happens by itself when the block is no longer used."""
        self._release()


def lay_out(weights: Mapping[str, Any], spare: Block | None = None) -> Block:
    """Copy tensors from any device into the spare block, or into another if it holds other weights."""
    if spare is None:
        return Block(weights)
    try:
        if spare.holds(weights):
            spare.write(weights)
            return spare
    except BaseException:
        spare.close()
        raise
    spare.close()
    return Block(weights)


def read_block(path: str, table: Table) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of another process's block; changes to them stay in this process."""
    with _received(path) as file:
        memory = mmap.mmap(file, 0, access=mmap.ACCESS_COPY)
    return _views(memory, table)


class PinnedBlocks:
    """Blocks of another process that are copied to this one's GPU; they stay mapped and page-locked."""

    def __init__(self) -> None:
        self._mapped: dict[int, LockablePages] = {}

    def read(self, path: str, table: Table) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors of a block. They must not be changed: the memory is the other process's."""
        with _received(path) as file:
            number = os.fstat(file).st_ino
            if number not in self._mapped:
                memory = LockablePages(file, 0)
                memory.lock()
                self._mapped[number] = memory
        return _views(self._mapped[number], table)


@contextlib.contextmanager
def _received(path: str) -> Iterator[int]:
    """A descriptor of the memory that is offered at a path."""
    with _unix_socket() as connection, _short(path) as address:
        connection.connect(address)
        _, [file], _, _ = socket.recv_fds(connection, 1, 1)
    try:
        yield file
    finally:
        os.close(file)


def _unix_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX)


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """A name of a socket within the 107 bytes that its address has room for, however long its path is."""
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _views(memory: mmap.mmap, table: Table) -> Iterator[tuple[str, torch.Tensor]]:
    for name, dtype, shape, offset in table:
        kind = getattr(torch, dtype)
        flat = torch.frombuffer(memory, dtype=kind, count=math.prod(shape), offset=offset)
        yield name, flat.view(tuple(shape))


def write_model(model: Any, folder: Path, weights: Mapping[str, Any] | None = None) -> None:
    """Save the configuration and the unquantised weights of a transformers model.

    `weights`: the weights to save if the model's parameters are quantised.
    """
    from safetensors.torch import save_file

    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config  # save_pretrained refuses a config read from a quantised file
    config.save_pretrained(folder)
    numbers = dict(model.named_parameters()) if weights is None else weights
    # tied weights are saved once; readers tie them again
    tensors = {name: number.detach().cpu().contiguous() for name, number in numbers.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def write_adapter(adapter: Adapter, folder: Path, dtype: str) -> None:
    """Save an adapter in peft's format, rounded to the engine's dtype."""
    from safetensors.torch import save_file

    folder.mkdir()
    config = {
        "peft_type": "LORA",
        "r": adapter.rank,
        "lora_alpha": adapter.alpha,
        "target_modules": sorted({name.split(".")[-2] for name in adapter.tensors}),
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    detached = [tensor.detach() for tensor in adapter.tensors.values()]
    # one copy for all: each copy from a device waits for the device
    flat = torch.cat([tensor.reshape(-1) for tensor in detached]).to(getattr(torch, dtype)).cpu()
    parts = torch.split(flat, [tensor.numel() for tensor in detached])
    tensors = {
        f"base_model.model.{name}.weight": part.view(tensor.shape)
        for name, part, tensor in zip(adapter.tensors, parts, detached, strict=True)
    }
    save_file(tensors, folder / "adapter_model.safetensors")
