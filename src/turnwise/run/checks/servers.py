"""Checks the servers of a recipe or an mcp.json: starts or reaches them and lists their tools."""

from collections.abc import Collection
from dataclasses import dataclass

from turnwise.mcp.pool import Pool
from turnwise.mcp.processes.exposure import refusal
from turnwise.run.checks.findings import Finding, FindingLevel
from turnwise.run.checks.keys import try_key
from turnwise.setup.servers import ReadyServers, describe_live
from turnwise.system.terminal import counted
from turnwise.types import LiveServer, Tool


@dataclass(frozen=True, slots=True)
class Reached:
    """The tools of the servers that answered, and the findings about all servers."""

    tools: tuple[Tool, ...]
    findings: tuple[Finding, ...]
    live: tuple[LiveServer, ...] = ()

    @property
    def is_whole(self) -> bool:
        return all(finding.level is not FindingLevel.BAD for finding in self.findings)


async def reach_servers(servers: ReadyServers, needed: Collection[str] | None = None) -> Reached:
    """Start or reach every server of the file, list its tools, and try the keys of the live ones.

    A problem with a server that is not in `needed` only warns. None means that all are needed.
    """
    findings, live = list[Finding](), {server.name: server for server in servers.live}

    def bad(server: str, detail: str, advice: str) -> Finding:
        if needed is None or server in needed:
            return Finding(f"server {server}", FindingLevel.BAD, detail, advice)
        return Finding(f"server {server}", FindingLevel.WARNING, f"{detail}; no task uses it", advice)

    findings += [
        bad(name, mistake, "correct its entry; until then the server is left out")
        for name, mistake in servers.mistakes.items()
    ]
    async with Pool(servers.specs) as pool:
        try:
            failures = await pool.connect()
        except ValueError as error:  # a setting that only the running server shows to be wrong
            return Reached((), (Finding("mcp.json", FindingLevel.BAD, str(error), "change it in mcp.json"),))
        for spec in servers.specs:
            if spec.name in failures:
                advice = "run its command by hand, or see docs/troubleshooting.md"
                findings.append(bad(spec.name, str(failures[spec.name]), advice))
                continue
            num_tools = sum(tool.server == spec.name for tool in pool.tools)
            exposure = pool.exposure(spec.name)
            detail = f"{counted(num_tools, 'tool')}, isolation {pool.isolation(spec.name)}"
            changes = describe_live(live[spec.name]) if spec.name in live else str(exposure)
            if exposure.is_refused:
                findings.append(bad(spec.name, f"{detail}; {changes}", refusal(exposure)))
            else:
                findings.append(Finding(f"server {spec.name}", FindingLevel.GOOD, f"{detail}; {changes}"))
            if spec.name in live:
                findings.append(await try_key(pool, spec))
        return Reached(tuple(pool.tools), tuple(findings), servers.live)
