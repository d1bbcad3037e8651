"""Our client under the MCP conformance suites: the suite's own verdict on every scenario that applies."""

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conformance.scenarios import APPLICABLE, NOT_APPLICABLE, SUITES, Run
from tests.third_party.installed import NODE_MODULES, node, require

CLIENT = Path(__file__).with_name("client.py")
DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the suite said of one run: its exit code, every check, and all it printed."""

    exit_code: int
    checks: list[dict[str, Any]]
    printed: str

    def ids(self, status: str) -> set[str]:
        return {check["id"] for check in self.checks if check["status"] == status}


def suite_command(suite: str) -> list[str]:
    return [node(), require(NODE_MODULES / SUITES[suite] / "dist" / "index.js")]


def judge(run: Run, directory: Path, client: Path = CLIENT) -> Verdict:
    """Have the suite start its server, run the client against it, and judge."""
    finished = subprocess.run(
        [
            *suite_command(run.suite),
            *("client", "--scenario", run.scenario, "--spec-version", run.version),
            *("--command", shlex.join([warm.light(), str(client)])),
            *("--output-dir", str(directory)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    checks = [check for path in directory.rglob("checks.json") for check in json.loads(path.read_text())]
    return Verdict(finished.returncode, checks, finished.stdout)


def listed(suite: str) -> dict[str, tuple[str, ...]]:
    """Every client scenario the suite has, and the protocol versions it lists for it."""
    finished = subprocess.run(
        [*suite_command(suite), "list", "--client"], capture_output=True, text=True, check=True
    )
    found = re.findall(r"^\s*- (\S+) \[([^]]*)\]$", finished.stdout, re.MULTILINE)
    return {name: tuple(versions.split(",")) for name, versions in found}


@pytest.mark.parametrize("run", APPLICABLE, ids=str)
def test_our_client_passes(run: Run, tmp_path: Path) -> None:
    verdict = judge(run, tmp_path)
    assert verdict.exit_code == 0, verdict.printed
    # A scenario that is not run also exits with 0, so something must have been found good.
    assert verdict.ids("SUCCESS"), verdict.printed
    assert not verdict.ids("FAILURE") | verdict.ids("WARNING"), verdict.printed


@pytest.mark.parametrize("suite", SUITES)
def test_every_scenario_of_the_suite_is_classified(suite: str) -> None:
    scenarios = listed(suite)
    assert len(scenarios) > 20
    unnamed = set(scenarios) - {run.scenario for run in APPLICABLE} - set(NOT_APPLICABLE)
    assert not unnamed, "classify these in tests/conformance/scenarios.py and docs/conformance.md"
    applicable = {name: versions for name, versions in scenarios.items() if name not in NOT_APPLICABLE}
    newest_only = suite == "0.1.16"
    runs = {
        (name, version)
        for name, versions in applicable.items()
        for version in (versions[-1:] if newest_only else versions)
    }
    assert runs == {(run.scenario, run.version) for run in APPLICABLE if run.suite == suite}


def test_no_classified_scenario_is_gone_from_the_suites() -> None:
    known = {name for suite in SUITES for name in listed(suite)}
    assert set(NOT_APPLICABLE) <= known
    assert not set(NOT_APPLICABLE) & {run.scenario for run in APPLICABLE}


def test_the_part_of_multi_round_trips_that_needs_no_user_passes(tmp_path: Path) -> None:
    """Of its five checks three need an elicitation answered; the other two are for every client."""
    verdict = judge(Run("0.2.0-alpha.12", "sep-2322-client-request-state", "2026-07-28"), tmp_path)
    needs_no_user = {"sep-2322-client-parallel-isolation", "sep-2322-default-result-type-complete"}
    assert verdict.ids("SUCCESS") >= needs_no_user, verdict.printed
    assert "Client exited with code" not in verdict.printed, verdict.printed


def test_the_verdict_is_bad_when_the_client_does_not_do_its_part(tmp_path: Path) -> None:
    """The check of the check: a client that does nothing, successfully, must not pass."""
    idle = tmp_path / "idle.py"
    idle.write_text("")
    run = Run("0.2.0-alpha.12", "tools_call", "2026-07-28")
    verdict = judge(run, tmp_path / "results", client=idle)
    assert verdict.exit_code != 0
    assert verdict.ids("FAILURE")


def test_the_document_names_every_scenario() -> None:
    text = DOCUMENT.read_text()
    names = {run.scenario for run in APPLICABLE} | set(NOT_APPLICABLE)
    assert not [name for name in sorted(names) if f"`{name}`" not in text]
    assert not [version for version in SUITES if version not in text]
