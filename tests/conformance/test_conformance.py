"""Our client under the MCP conformance suites: the suite judges every scenario that applies."""

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conformance.scenarios import APPLICABLE, NOT_APPLICABLE, SUITES, Run
from tests.third_party.installed import NODE_MODULES, node, require

CLIENT = Path(__file__).with_name("client.py")
DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks" / "conformance.md"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The exit code of the suite, its checks, and all that it printed."""

    exit_code: int
    checks: list[dict[str, Any]]
    printed: str

    def ids(self, *statuses: str) -> set[str]:
        return {check["id"] for check in self.checks if check["status"] in statuses}


def suite_command(suite: str) -> list[str]:
    return [node(), require(NODE_MODULES / SUITES[suite] / "dist" / "index.js")]


def judge(run: Run, directory: Path) -> Verdict:
    """Let the suite start its server, run our client against it, and judge."""
    options = {
        "scenario": run.scenario,
        "spec-version": run.version,
        "command": shlex.join([warm.light(), str(CLIENT)]),
        "output-dir": str(directory),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    command = [*suite_command(run.suite), "client", *words]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    finished = subprocess.run(command, timeout=120, check=False, **output)
    checks = [check for path in directory.rglob("checks.json") for check in json.loads(path.read_text())]
    return Verdict(finished.returncode, checks, finished.stdout)


@cache
def listed(suite: str) -> dict[str, tuple[str, ...]]:
    """Every client scenario of the suite, and the protocol versions that it lists for it."""
    command = [*suite_command(suite), "list", "--client"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.findall(r"^\s*- (\S+) \[([^]]*)\]$", finished.stdout, re.MULTILINE)
    return {name: tuple(versions.split(",")) for name, versions in found}


def is_repetition(run: Run) -> bool:
    """Whether the released suite has the scenario in this version, or the run of the newest one covers it."""
    return run.suite != "0.1.16" and run.version == "2025-11-25"


REPEATED = [pytest.param(run, marks=pytest.mark.slow) for run in APPLICABLE if is_repetition(run)]


@pytest.mark.parametrize("run", [*(run for run in APPLICABLE if not is_repetition(run)), *REPEATED], ids=str)
def test_our_client_passes(run: Run, tmp_path: Path) -> None:
    verdict = judge(run, tmp_path)
    assert verdict.exit_code == 0, verdict.printed
    # A scenario that is not run also exits with 0, so at least one check must have succeeded.
    assert verdict.ids("SUCCESS"), verdict.printed
    assert not verdict.ids("FAILURE", "WARNING"), verdict.printed


def test_the_checks_of_multi_round_trips_that_need_no_user_pass(tmp_path: Path) -> None:
    """Three of its five checks need an elicitation answered; the other two are for every client."""
    verdict = judge(Run("0.2.0-alpha.12", "sep-2322-client-request-state", "2026-07-28"), tmp_path)
    needs_no_user = {"sep-2322-client-parallel-isolation", "sep-2322-default-result-type-complete"}
    assert verdict.ids("SUCCESS") >= needs_no_user, verdict.printed
    assert "Client exited with code" not in verdict.printed, verdict.printed


@pytest.mark.parametrize("suite", SUITES)
def test_every_scenario_of_a_suite_is_classified(suite: str) -> None:
    scenarios = listed(suite)
    assert len(scenarios) > 20
    unnamed = set(scenarios) - {run.scenario for run in APPLICABLE} - set(NOT_APPLICABLE)
    assert not unnamed, "classify these in tests/conformance/scenarios.py and docs/benchmarks/conformance.md"
    newest_only = suite == "0.1.16"
    runs = {
        (name, version)
        for name, versions in scenarios.items()
        if name not in NOT_APPLICABLE
        for version in (versions[-1:] if newest_only else versions)
    }
    assert runs == {(run.scenario, run.version) for run in APPLICABLE if run.suite == suite}


def test_every_classified_scenario_is_in_a_suite_and_in_the_document() -> None:
    applicable, text = {run.scenario for run in APPLICABLE}, DOCUMENT.read_text()
    assert not set(NOT_APPLICABLE) & applicable
    assert not [name for name in sorted(applicable | set(NOT_APPLICABLE)) if f"`{name}`" not in text]
    assert not [version for version in SUITES if version not in text]
    assert set(NOT_APPLICABLE) <= {name for suite in SUITES for name in listed(suite)}
