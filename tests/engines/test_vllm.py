"""vLLM is held to what every engine owes, in the environment that tests/engines/vllm_env.sh makes."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".tools" / "vllm" / "bin" / "python"
SCENARIOS = (
    "a_completion_is_as_long_as_asked_with_the_trainers_logprobs",
    "the_next_turn_agrees_though_its_prefix_is_cached",
    "a_seed_gives_its_tokens_whatever_is_sampled_beside",
    "the_stop_token_is_part_of_the_completion",
    "temperature_is_in_the_logprobs_but_for_the_likeliest",
    "mistakes_are_named",
    "a_cancelled_completion_makes_room",
    "publications_change_the_logprobs_to_the_trainers",
    "a_closed_engine_is_down_and_may_be_closed_again",
    "adapters_change_the_logprobs_to_the_trainers",
    "what_has_begun_goes_on_with_its_own_adapter",
    "a_ctrl_c_does_not_reach_it",
    "an_engine_that_died_comes_back_with_its_adapter",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no .tools/vllm: run tests/engines/vllm_env.sh"),
]


@pytest.fixture(scope="module")
def played() -> dict[str, str]:
    """What went wrong in each scenario, or nothing."""
    run = subprocess.run(
        [PYTHON, "-m", "tests.engines.vllm_scenarios"],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert lines, run.stderr[-3000:]
    return {line["scenario"]: line["error"] for line in lines}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_with_vllm(played: dict[str, str], scenario: str) -> None:
    assert played[scenario] == ""


def test_no_scenario_is_left_out(played: dict[str, str]) -> None:
    assert set(played) == set(SCENARIOS)
