"""Weights that are handed to another process arrive unchanged."""

import asyncio
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from tests import warm
from tests.engines.models import llama, qwen3
from turnwise.engines.weight_transfer import Block, lay_out, read_block, write_adapter, write_model
from turnwise.types.protocols import Adapter

READER = """
import json, sys
from turnwise.engines.weight_transfer import read_block
path, table = json.load(sys.stdin)
print(json.dumps({name: tensor.double().sum().item() for name, tensor in read_block(path, table)}))
"""


async def read_here(block: Block) -> dict[str, torch.Tensor]:
    async with block.offered() as path:
        return dict(await asyncio.to_thread(read_block, path, block.table))


async def test_another_process_reads_the_tensors_of_a_block() -> None:
    """The process has no rights over this one: it cannot open its files in /proc."""
    weights = {
        "odd": torch.arange(7, dtype=torch.bfloat16),
        "matrix": torch.randn(5, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }
    block = lay_out(weights)
    for tensor in (await read_here(block)).values():
        tensor.fill_(1.0)  # a reader cannot change the block
    setpriv = shutil.which("setpriv")
    without_rights = [setpriv, "--bounding-set=-all"] if setpriv and os.geteuid() == 0 else []
    async with block.offered() as path:
        reader = await asyncio.create_subprocess_exec(
            *without_rights,
            warm.heavy(),
            "-c",
            READER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        read, _ = await reader.communicate(json.dumps([path, block.table]).encode())
    assert not Path(path).parent.exists()
    expected = {name: tensor.double().sum().item() for name, tensor in weights.items()}
    assert json.loads(read) == pytest.approx(expected)
    block.close()


async def test_a_block_is_offered_however_long_the_temporary_folders_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("folder-of-a-cluster" * 10)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    block = lay_out({"matrix": torch.ones(5, 3)})
    assert torch.equal((await read_here(block))["matrix"], torch.ones(5, 3))
    block.close()


async def test_many_readers_of_a_block_come_at_once_and_one_of_them_ends_early() -> None:
    """As the ranks of a tensor-parallel engine do."""
    block = lay_out({"matrix": torch.arange(15.0).view(5, 3)})
    async with block.offered() as path:
        with socket.socket(socket.AF_UNIX) as early:
            early.connect(path)
        read = await asyncio.gather(
            *(asyncio.to_thread(lambda: dict(read_block(path, block.table))) for _ in range(8))
        )
    assert all(torch.equal(tensors["matrix"], torch.arange(15.0).view(5, 3)) for tensors in read)
    block.close()


async def test_a_spare_block_is_written_again_unless_it_holds_other_weights() -> None:
    first = lay_out({"matrix": torch.zeros(5, 3), "scalar": torch.tensor(1.0)})
    weights = {"matrix": torch.randn(5, 3), "scalar": torch.tensor(2.0)}
    again = lay_out(weights, first)
    assert again is first
    read = await read_here(again)
    assert all(torch.equal(read[name], tensor) for name, tensor in weights.items())
    del read
    num_descriptors = len(blocks_of_this_process())
    other = lay_out({"matrix": weights["matrix"]}, first)
    assert other is not first
    # both blocks have a descriptor for their mapping, and the second one its own
    assert len(blocks_of_this_process()) == num_descriptors + 1, "the first one is closed"
    assert list(await read_here(other)) == ["matrix"]
    other.close()


def test_a_block_that_nobody_holds_is_closed() -> None:
    before = blocks_of_this_process()
    block = lay_out({"matrix": torch.zeros(5, 3)})  # as when a publication is cancelled while it copies
    assert len(blocks_of_this_process()) > len(before)
    del block
    assert blocks_of_this_process() == before


def blocks_of_this_process() -> list[str]:
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [str(link) for link in links if "turnwise-weights" in str(link)]


@pytest.mark.parametrize("make", [qwen3, llama])  # tied and untied
def test_a_model_of_a_quantised_file_is_written_as_plain_numbers(make: object, tmp_path: Path) -> None:
    model = make()  # type: ignore[operator]
    model.config.quantization_config = {"quant_method": "gguf"}
    write_model(model, tmp_path)
    del model.config.quantization_config
    read = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(read) is type(model)
    for (name, given), (same, found) in zip(model.named_parameters(), read.named_parameters(), strict=True):
        assert name == same
        assert torch.equal(given, found)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_adapter_is_written_as_peft_reads_it(tmp_path: Path, dtype: str) -> None:
    down, up = torch.randn(4, 64), torch.randn(64, 4)
    modules = [f"model.layers.{layer}.self_attn.o_proj" for layer in range(3)]
    tensors = {f"{module}.lora_A": down * n for n, module in enumerate(modules, 1)}
    tensors |= {f"{module}.lora_B": up * n for n, module in enumerate(modules, 1)}
    folder = tmp_path / "adapter"
    write_adapter(Adapter(tensors, 4, 8.0), folder, dtype)
    read = PeftModel.from_pretrained(qwen3(), str(folder))
    found = dict(read.named_parameters())
    prefix = "base_model.model.model.layers.1.self_attn.o_proj"
    for name, given in (("lora_A", down * 2), ("lora_B", up * 2)):
        rounded = given.to(getattr(torch, dtype)).float()
        assert torch.equal(found[f"{prefix}.{name}.default.weight"].float(), rounded)
    layer = read.get_submodule(prefix)
    assert layer.scaling["default"] == 2.0
