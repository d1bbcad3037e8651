"""The memory plan against known sizes and against the memory of a real process."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BloomConfig, GPTNeoXConfig, MambaConfig, MixtralConfig
from typer.testing import CliRunner

from tests.setup.memory.shaped import QWEN3_06B, SEVEN_B, shallow
from turnwise.cli import app
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.models.device_memory import Memory
from turnwise.setup.memory import (
    UnsupportedArchitecture,
    check_device_limits,
    load_config,
    plan_for_recipe,
    plan_memory,
)
from turnwise.setup.memory.meta_memory import MemoryCounter

GIB = 2**30
BF16 = "model.dtype=bfloat16"
MIXTRAL = MixtralConfig(
    vocab_size=1000,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_local_experts=8,
    num_experts_per_tok=2,
)
BLOOM = BloomConfig(vocab_size=500, hidden_size=64, n_layer=2, n_head=4)


def recipe(folder: Path, config: Any, *overrides: str) -> Recipe:
    """A recipe with a model that has a configuration and no weights."""
    config.save_pretrained(folder)
    return read_recipe(None, parse_settings([f"model.path={folder}", *overrides]))


def planned(
    folder: Path, config: Any, *overrides: str, device: str = "cuda", memory: Memory | None = None
) -> dict[str, int]:
    """The bytes of every part, and the number of parameters under ``."""
    plan = plan_memory(recipe(folder, config, *overrides), device, memory)
    return {"": plan.num_parameters, **{part.name: part.num_bytes for part in plan.parts}}


def test_the_counter_counts_live_storages_and_not_their_views() -> None:
    with MemoryCounter() as counter:
        one = torch.empty(1000, device="meta")
        view = one[10:].view(-1, 2)
        assert counter.current_bytes == 4000
        two = one + 1
        assert counter.current_bytes == 8000
        del one, two
        assert counter.current_bytes == 4000, "the view keeps the storage alive"
        del view
    assert (counter.current_bytes, counter.peak_bytes, counter.largest_bytes) == (0, 8000, 4000)


def test_the_counter_includes_tensors_that_a_graph_saves_for_its_backward_pass() -> None:
    weight = torch.empty(64, 64, device="meta", requires_grad=True)
    with MemoryCounter([weight]) as counter:
        loss = (torch.empty(32, 64, device="meta") @ weight).exp().sum()
        assert counter.current_bytes == 2 * 32 * 64 * 4 + 4, "input and result of exp, not the product"
        loss.backward()
        del loss
        assert counter.current_bytes == 64 * 64 * 4, "only the gradient"


def test_a_0_6b_model_has_its_known_size(tmp_path: Path) -> None:
    found = planned(tmp_path, QWEN3_06B, BF16)
    assert found[""] == 596_049_920  # as in its model card
    assert found["policy: weights"] == found["engine: weights"] == 2 * 596_049_920
    # rank 16 on seven matrices per layer, in fp32
    wide = [(1024, 2048), (1024, 1024), (1024, 1024), (2048, 1024), (1024, 3072), (1024, 3072), (3072, 1024)]
    assert found["policy: adapters"] == 4 * 28 * 16 * sum(a + b for a, b in wide)
    assert found["optimizer"] == 2 * found["gradients"] == 2 * found["policy: adapters"]
    assert found["engine: keys and values"] == 200_000 * 2 * 28 * 8 * 128 * 2


def test_full_tuning_in_bf16_has_a_float32_copy_of_every_weight(tmp_path: Path) -> None:
    found = planned(tmp_path, shallow(QWEN3_06B), BF16, "policy.tuning=full")
    assert found["gradients"] == 4 * found[""]
    assert found["optimizer"] == 12 * found[""]


def test_a_quantised_base_takes_a_quarter_and_is_shared_with_the_engine(tmp_path: Path) -> None:
    plain = planned(tmp_path, shallow(SEVEN_B), BF16)
    packed = planned(tmp_path, shallow(SEVEN_B), BF16, "model.quantisation=nf4")
    embeddings = 2 * 2 * 152_064 * 3584
    linear = plain["policy: weights"] - embeddings
    assert packed["policy: weights"] - embeddings == pytest.approx(linear / 4, rel=0.04)
    assert "engine: weights" not in packed
    assert packed["engine: adapters"] == packed["policy: adapters"]


def test_activations_depend_on_microbatches_and_checkpointing(tmp_path: Path) -> None:
    def activations(*keys: str) -> int:
        return planned(tmp_path, shallow(QWEN3_06B), BF16, *keys)["activations"]

    default = activations()
    assert activations("update.tokens_per_microbatch=8192") < 0.7 * default
    assert activations("policy.gradient_checkpointing=true") < 0.5 * default


def test_vllm_takes_its_share_and_a_remote_engine_takes_nothing(tmp_path: Path) -> None:
    memory = Memory(20 * GIB, 24 * GIB)
    found = planned(tmp_path, shallow(QWEN3_06B), "engine.kind=vllm", memory=memory)
    assert found["engine: vLLM"] == int(0.3 * 24 * GIB)
    remote = planned(tmp_path, shallow(QWEN3_06B), "engine.kind=remote", memory=memory)
    assert not any(name.startswith("engine") for name in remote)


def test_the_engine_that_plays_users_is_planned_and_an_endpoint_takes_nothing(tmp_path: Path) -> None:
    own = f"user.model={tmp_path}"
    parts = planned(tmp_path, shallow(QWEN3_06B), BF16, own)
    of_users = {name: size for name, size in parts.items() if name.startswith("users")}
    assert of_users == {
        name.replace("engine", "users"): size for name, size in parts.items() if name.startswith("engine")
    }
    assert of_users["users: weights"] == parts["policy: weights"]
    endpoint = planned(tmp_path, shallow(QWEN3_06B), BF16, own, "user.url=http://127.0.0.1:1/v1")
    assert not any(name.startswith("users") for name in endpoint)


def test_any_causal_architecture_is_planned(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    found = planned(tmp_path, GPTNeoXConfig(vocab_size=500, **sizes), device="cpu")
    assert found["activations"] > found["policy: weights"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_experts_are_planned_in_every_type(tmp_path: Path, dtype: str) -> None:
    keys = ("policy.tuning=full", f"model.dtype={dtype}", "update.tokens_per_microbatch=4096")
    found = planned(tmp_path, MIXTRAL, *keys, device="cpu")
    attention = 256 * (256 + 128 + 128 + 256)
    experts = 8 * 3 * 256 * 512 + 8 * 256
    assert found[""] == 2 * 1000 * 256 + 256 + 4 * (attention + experts + 2 * 256)
    # a token goes through two experts; gate, up, their product and the down projection are saved
    width = 2 if dtype == "bfloat16" else 4
    assert found["activations"] > 4 * 4096 * 2 * (3 * 512 + 256) * width


def test_the_plan_rejects_adapters_that_cannot_be_merged_as_a_run_does(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"policy\.lora_targets: adapters on MixtralExperts") as rejected:
        plan_memory(recipe(tmp_path, MIXTRAL), "cpu", None)
    assert not isinstance(rejected.value, UnsupportedArchitecture)
    attention_only = 'policy.lora_targets=["q_proj", "v_proj"]'
    found = planned(tmp_path, MIXTRAL, attention_only, device="cpu")
    assert found["policy: adapters"] == 4 * 4 * 16 * (256 + 256 + 256 + 128)


def test_an_unsupported_architecture_is_named_and_accepted_on_mps_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mamba = MambaConfig(hidden_size=64, num_hidden_layers=2)
    for config, name in ((BLOOM, "BloomForCausalLM"), (mamba, "MambaForCausalLM")):
        words = rf"the memory of a {name} is not planned \(\w+: .+\)"
        with pytest.raises(UnsupportedArchitecture, match=words):
            plan_memory(recipe(tmp_path, config, "policy.tuning=full"), "cpu", None)
    with caplog.at_level(logging.WARNING, logger="turnwise.setup.memory.memory"):
        check_device_limits(recipe(tmp_path, BLOOM), "mps")
    assert "BloomForCausalLM" in caplog.text


def test_a_tensor_too_large_for_mps_is_rejected_before_loading(tmp_path: Path) -> None:
    keys = ("model.dtype=float16", "engine.max_batch=8")
    with pytest.raises(ValueError, match=r"update\.tokens_per_microbatch.* GiB in one tensor.*'cpu'"):
        check_device_limits(recipe(tmp_path, shallow(SEVEN_B), *keys), "mps")
    small = recipe(tmp_path, shallow(SEVEN_B), *keys, "update.tokens_per_microbatch=4096")
    check_device_limits(small, "mps")
    with pytest.raises(ValueError, match=r"engine\.cache_tokens"):
        check_device_limits(recipe(tmp_path, shallow(QWEN3_06B), "update.tokens_per_microbatch=4096"), "mps")
    check_device_limits(recipe(tmp_path, shallow(SEVEN_B), *keys), "cuda")


def test_a_missing_device_is_planned_for_without_its_memory(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    found = plan_for_recipe(recipe(tmp_path, shallow(QWEN3_06B), "model.device=cuda"))
    assert (found.device, found.memory) == ("cuda", None)
    assert not found.fits


@pytest.mark.parametrize("path", ["no/such", "/gone/away"])
def test_a_missing_model_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"model\.path: .*no such folder"):
        load_config(path)


def test_the_command_prints_a_table_and_fails_if_the_plan_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow(QWEN3_06B, 2).save_pretrained(tmp_path / "model")
    (tmp_path / "recipe.toml").write_text('model = {path = "model", dtype = "bfloat16", device = "cuda"}\n')
    monkeypatch.chdir(tmp_path)
    command = ["doctor", "--plan", "recipe.toml", "--memory"]
    result = CliRunner().invoke(app, [*command, "80"])
    assert result.exit_code == 0, result.output
    assert "policy: weights" in result.stdout
    assert "cuda: fits, 80.0 GB of 80.0 free" in result.stdout
    result = CliRunner().invoke(app, [*command, "2", "--json"])
    assert result.exit_code == 1, result.output
    assert json.loads(result.stdout)["num_bytes"] > 2e9


@pytest.mark.skipif(sys.platform != "linux", reason="reads a process's peak from /proc")
@pytest.mark.parametrize("tuning", [pytest.param("full", marks=pytest.mark.slow), "lora"])
def test_the_plan_is_within_15_percent_of_the_memory_measured(tmp_path: Path, tuning: str) -> None:
    (tmp_path / "recipe.toml").write_text(
        'model.device = "cpu"\nengine = {cache_tokens = 2048, max_batch = 16}\n'
        "rollout.tokens_per_episode = 256\n"
        f'policy.tuning = "{tuning}"\nupdate.tokens_per_microbatch = 1024\n'
    )
    root = Path(__file__).parents[3]
    # Freed memory is returned at once; by default glibc keeps up to a third more than the tensors need.
    environ = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072", "PYTHONPATH": f"{root / 'src'}:{root}"}
    command = [sys.executable, "-m", "tests.setup.memory.measured", str(tmp_path / "recipe.toml")]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, timeout=600, check=True)
    found = json.loads(done.stdout)
    assert found["num_microbatches"] == 2
    assert found["num_cached"] > 2_000
    assert found["planned"] == pytest.approx(found["used"], rel=0.15)
