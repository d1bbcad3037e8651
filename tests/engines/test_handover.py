"""Weights that are handed to another process arrive unchanged."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from tests import warm
from tests.engines.models import llama, qwen3
from turnwise.engines.weight_transfer import lay_out, read_block, write_adapter, write_model
from turnwise.types.protocols import Adapter

READER = """
import json, sys
from turnwise.engines.weight_transfer import read_block
path, table = json.load(sys.stdin)
print(json.dumps({name: tensor.double().sum().item() for name, tensor in read_block(path, table)}))
"""


def test_another_process_reads_the_tensors_of_a_block() -> None:
    weights = {
        "odd": torch.arange(7, dtype=torch.bfloat16),
        "matrix": torch.randn(5, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }
    block = lay_out(weights)
    for _, tensor in read_block(block.path, block.table):
        tensor.fill_(1.0)  # a reader cannot change the block
    given = json.dumps([block.path, block.table])
    read = subprocess.check_output([warm.heavy(), "-c", READER], input=given, text=True)
    expected = {name: tensor.double().sum().item() for name, tensor in weights.items()}
    assert json.loads(read) == pytest.approx(expected)
    block.close()


def test_a_spare_block_is_written_again_unless_it_holds_other_weights() -> None:
    first = lay_out({"matrix": torch.zeros(5, 3), "scalar": torch.tensor(1.0)})
    weights = {"matrix": torch.randn(5, 3), "scalar": torch.tensor(2.0)}
    again = lay_out(weights, first)
    assert again is first
    for name, tensor in read_block(again.path, again.table):
        assert torch.equal(tensor, weights[name])
    path = first.path
    other = lay_out({"matrix": weights["matrix"]}, first)
    assert other is not first
    assert [name for name, _ in read_block(other.path, other.table)] == ["matrix"]
    assert other.path == path, "the first one is closed, and its number free"
    other.close()


def test_a_block_that_nobody_holds_is_closed() -> None:
    block = lay_out({"matrix": torch.zeros(5, 3)})  # as when a publication is cancelled while it copies
    path = Path(block.path)
    assert "turnwise-weights" in str(path.readlink())
    del block
    assert not path.is_symlink() or "turnwise-weights" not in str(path.readlink())


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
