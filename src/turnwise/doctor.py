"""Takes a setup, gives a list of findings: what works, what is missing, and what to do about it."""

import asyncio
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.sandbox import Kind, isolation
from turnwise.servers.contract import contract

PACKAGES = ("mcp", "pydantic", "httpx", "numpy", "pandas")
_OPTIONAL = {"numpy": "data", "pandas": "data"}
_MIN_FREE_BYTES = 2_000_000_000


class Level(StrEnum):
    """How much a finding matters."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at, and what to do if it is not well."""

    what: str
    level: Level
    detail: str
    advice: str = ""


async def examine(specs: Sequence[ServerSpec], environ: Mapping[str, str]) -> list[Finding]:
    """Look at everything a run needs; nothing is changed, and no secret is ever part of a finding."""
    sandbox = asyncio.to_thread(check_sandbox)
    return [
        check_python(),
        *(check_package(name) for name in PACKAGES),
        check_disk(Path.cwd()),
        await sandbox,
        *check_keys(environ),
        *await check_servers(specs),
    ]


def check_python() -> Finding:
    return Finding("Python", Level.GOOD, f"{platform.python_version()} at {sys.executable}")


def check_package(name: str) -> Finding:
    try:
        return Finding(name, Level.GOOD, version(name))
    except PackageNotFoundError:
        extra = _OPTIONAL.get(name)
        if extra is None:
            return Finding(name, Level.BAD, "not installed", "pip install turnwise")
        return Finding(name, Level.WARNING, "not installed", f"pip install 'turnwise[{extra}]'")


def check_disk(directory: Path) -> Finding:
    free_bytes = shutil.disk_usage(directory).free
    detail = f"{free_bytes / 1e9:.1f} GB free under {directory}"
    if free_bytes >= _MIN_FREE_BYTES:
        return Finding("disk", Level.GOOD, detail)
    return Finding("disk", Level.WARNING, detail, "checkpoints and recordings need a few GB")


def check_sandbox() -> Finding:
    found = isolation()
    levels = {Kind.BUBBLEWRAP: Level.GOOD, Kind.LANDLOCK: Level.WARNING, Kind.NONE: Level.BAD}
    return Finding("sandbox", levels[found.kind], found.detail)


def check_keys(environ: Mapping[str, str]) -> list[Finding]:
    """Whether each server's key is there; its value is never looked at."""
    findings = []
    for server, block in contract()["servers"].items():
        key = block["key"]
        if key is not None:
            detail = f"{key} is set: live" if environ.get(key) else f"{key} is not set: the embedded world"
            findings.append(Finding(f"{server} key", Level.GOOD, detail))
    return findings


async def check_servers(specs: Sequence[ServerSpec]) -> list[Finding]:
    """Start or reach every server of the file and list its tools."""
    async with Pool(specs) as pool:
        failures = await pool.connect()
        findings = []
        for spec in specs:
            if spec.name in failures:
                advice = "run its command by hand, or see docs/troubleshooting.md"
                findings.append(Finding(f"server {spec.name}", Level.BAD, str(failures[spec.name]), advice))
                continue
            num_tools = sum(tool.server == spec.name for tool in pool.tools)
            detail = f"{num_tools} tools, isolation {pool.isolation(spec.name)}"
            findings.append(Finding(f"server {spec.name}", Level.GOOD, detail))
        return findings


def print_findings(findings: Sequence[Finding], console: Console | None = None) -> None:
    console = console or Console()
    marks = {Level.GOOD: "[green]ok[/]  ", Level.WARNING: "[yellow]warn[/]", Level.BAD: "[red]bad[/] "}
    for finding in findings:
        console.print(
            f"{marks[finding.level]} {escape(finding.what)}: {escape(finding.detail)}", highlight=False
        )
        if finding.advice:
            console.print(f"       {escape(finding.advice)}", style="dim", highlight=False)
