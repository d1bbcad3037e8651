"""The helper that imports vLLM early. That vLLM samples in a fork of it is tested in tests/gpu."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.third_party.installed import require
from turnwise.config import parse_settings, read_recipe
from turnwise.engines import vllm_helper

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".tools" / "vllm"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
INSPECTING = """
import json, os, signal, sys
from turnwise.engines.vllm_helper import begin_import, fork_from_helper

def look():
    has_vllm = "vllm.v1.engine.core" in sys.modules
    return has_vllm, signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getppid()

if __name__ == "__main__":
    begin_import()
    fork_from_helper()
    from vllm.model_executor.models import registry
    from vllm.v1.engine import utils
    print(json.dumps([*registry._run_in_subprocess(look), os.getpid()]))
    print(utils.get_mp_context().get_start_method())
"""
OWNER = """
import time
from turnwise.engines.vllm_helper import begin_import
begin_import()
print("begun", flush=True)
time.sleep(600)
"""

HASTY = """
from turnwise.engines import vllm_helper
vllm_helper.IMPORTED = ("slow_import",)
vllm_helper.begin_import()
input()
"""


def test_vllms_processes_are_forked_from_one_that_has_imported_it(tmp_path: Path) -> None:
    require(ENVIRONMENT / ".installed", by="tests/engines/vllm_env.sh")
    script = tmp_path / "inspecting.py"
    script.write_text(INSPECTING)
    run = subprocess.run(
        [ENVIRONMENT / "bin" / "python", script],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    inspected, method = run.stdout.splitlines()[-2:]
    has_vllm, ignores_ctrl_c, parent, owner = json.loads(inspected)
    assert has_vllm
    assert ignores_ctrl_c
    assert parent != owner, "a process of the helper, not of its owner"
    assert method == "forkserver"


def test_the_helper_ends_with_an_owner_that_was_killed() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "begun\n"
    owner.kill()
    assert owner.communicate(timeout=60) == ("", None)  # the helper has its stdout too


def test_a_command_that_ends_early_does_not_wait_for_the_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_import.py").write_text("import time; print('importing', flush=True); time.sleep(600)")
    owner = subprocess.Popen(
        [sys.executable, "-c", HASTY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "importing\n"
    assert owner.communicate("\n", timeout=60) == ("", None)


@pytest.mark.parametrize(
    ("engine", "device", "variable", "has_driver", "may_use_gpu"),
    [
        ("vllm", "auto", "", True, True),
        ("vllm", "cuda", "cpu", True, True),
        ("vllm", "auto", "cpu", True, False),
        ("vllm", "auto", "", False, False),
        ("vllm", "cpu", "", True, False),
        ("transformers", "auto", "", True, False),
    ],
)
def test_it_begins_early_only_for_vllm_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    engine: str,
    device: str,
    variable: str,
    has_driver: bool,
    may_use_gpu: bool,
) -> None:
    monkeypatch.setenv("DEVICE_TYPE", variable)
    recipe = read_recipe(None, parse_settings([f"engine.kind={engine}"]))
    recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"device": device})})
    driver = tmp_path if has_driver else tmp_path / "none"
    assert vllm_helper.may_use_gpu(recipe, driver) is may_use_gpu


def test_a_gpu_that_torch_cannot_use_leaves_no_setting_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("VLLM_WORKER_MULTIPROC_METHOD", "VLLM_NO_USAGE_STATS", "VLLM_LOGGING_LEVEL", RUNNER):
        monkeypatch.setenv(variable, "")  # restored afterwards
        monkeypatch.delenv(variable)
    vllm_helper.set_environment(has_gpu=True)
    assert os.environ[RUNNER] == "1"
    vllm_helper.set_environment(has_gpu=False)
    assert RUNNER not in os.environ
