"""vLLM fulfils the contract of every engine, in the environment that tests/engines/vllm_env.sh makes."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.engines.models import refused
from tests.engines.served import asking, model_recipe, serving, started_again
from tests.engines.vllm_scenarios import ADAPTERS, PROMPT, TOLERANCE, WHOLE, children, gap, model, policy_of
from tests.third_party.installed import require
from turnwise.types import Sampling
from turnwise.types.protocols import EngineDown

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".tools" / "vllm"
PYTHON = ENVIRONMENT / "bin" / "python"
PLAIN = {"HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1"}
"""vLLM compiles its sampler with g++, also if it is eager: that takes longer than all scenarios together."""


@pytest.fixture(scope="module", autouse=True)
def environment() -> None:
    require(ENVIRONMENT / ".installed", by="tests/engines/vllm_env.sh")


def play(*names: str) -> dict[str, str]:
    """The error of every scenario, or an empty text."""
    run = subprocess.run(
        [PYTHON, "-m", "tests.engines.vllm_scenarios", *names],
        cwd=ROOT,
        env=os.environ | PLAIN | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert lines, run.stderr[-3000:]
    assert "Exception ignored" not in run.stderr, "an engine outlived its close"
    return {line["scenario"]: line["error"] for line in lines}


@pytest.fixture(scope="module")
def played() -> dict[str, str]:
    return play()


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in (*WHOLE, *ADAPTERS)])
def test_with_vllm(played: dict[str, str], scenario: str) -> None:
    assert played[scenario] == ""


@pytest.mark.slow  # two more starts
def test_with_vllm_an_engine_that_dies_in_a_publication_comes_back_with_it() -> None:
    assert play("dying") == {"an_engine_that_dies_in_a_publication_comes_back_with_it": ""}


def alive(processes: list[int]) -> list[int]:
    return [process for process in processes if Path(f"/proc/{process}").exists()]


@pytest.mark.slow  # three more starts
async def test_behind_http_it_comes_back_with_its_adapter_whichever_process_died(tmp_path: Path) -> None:
    recipe = model_recipe(
        tmp_path,
        model(),
        engine={"kind": "vllm", "max_batch": 8},
        **{"engine.vllm": {"eager": True, "gpu_memory_utilization": 0.1}},
        rollout={"tokens_per_episode": 1024},
        policy={"lora_rank": 4},
    )

    wanted = Sampling(max_tokens=12)
    with serving(recipe, python=PYTHON) as server, contextlib.ExitStack() as exits:
        async with asking(server.url, wait_seconds=300.0) as engine:
            assert gap(model(), await engine.complete(PROMPT, wanted, 0)) < TOLERANCE
            await engine.publish(policy_of(2).adapter(), 2)
            expected = await engine.complete(PROMPT, wanted, 0)
            assert expected.policy_version == 2
            assert gap(policy_of(2).model, expected) < TOLERANCE
            await refused(engine.publish(model().state_dict(), 3), ValueError, "adapters up to rank 4")
            of_vllm = children(server.process.pid)
            begun = asyncio.ensure_future(engine.complete(PROMPT, Sampling(max_tokens=700), 0))
            await asyncio.sleep(0.5)
            for process in of_vllm:
                os.kill(process, signal.SIGKILL)
            await refused(begun, EngineDown, "died")
            again = await engine.complete(PROMPT, wanted, 0)
            assert (again.token_ids, again.policy_version) == (expected.token_ids, 2)
            of_vllm = children(server.process.pid)
            await asyncio.to_thread(server.end)
            other = await started_again(server, recipe, exits, python=PYTHON)
            assert alive(of_vllm) == [], "it outlived its server"
            again = await engine.complete(PROMPT, wanted, 0)
            assert (again.token_ids, again.policy_version) == (expected.token_ids, 2)
            code, _ = await asyncio.to_thread(other.end, signal.SIGTERM)
            assert code == 0
