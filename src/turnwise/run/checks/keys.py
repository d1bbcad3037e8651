"""Looks at keys: which are set and not used, and whether providers accept those of live servers."""

from collections.abc import Iterator

from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.run.checks.findings import Finding, FindingLevel
from turnwise.setup.servers import ReadyServers, describe_unused, served_name
from turnwise.types import Fault, ToolCall
from turnwise.worlds.market.live.providers import ACCESS

_REFUSALS = ("refused", "plan does not allow")
"""Words in our live servers' errors if the provider answered and rejected the key or its plan."""


def check_keys(servers: ReadyServers) -> Iterator[Finding]:
    """Report unused keys; no finding contains a key's value."""
    for server, key in servers.unused_keys.items():
        yield Finding(f"{server} key", FindingLevel.GOOD, describe_unused(server, key))


async def try_key(pool: Pool, spec: ServerSpec) -> Finding:
    """Check with one read-only call through a live server whether its provider accepts the key."""
    service = served_name(spec)
    assert service is not None, "only servers of ours are known to be live"
    access, what = ACCESS[service], f"{spec.name} key"
    trial = access.trial
    tool = next(
        (tool for tool in pool.tools if tool.server == spec.name and tool.server_tool == trial.tool), None
    )
    if tool is None:
        return Finding(what, FindingLevel.WARNING, f"{access.key_variable} not tried: {trial.tool} is denied")
    async with pool.lease([spec.name], f"doctor/{spec.name}") as toolbox:
        [result] = await toolbox.call([ToolCall("key", tool.name, trial.arguments)])
    if result.fault is Fault.NONE:
        cost = f", which cost {trial.cost}" if trial.cost else ""
        detail = f"{access.key_variable} is valid: {access.label} answered {trial.tool}{cost}"
        return Finding(what, FindingLevel.GOOD, detail)
    is_refused = any(words in result.content for words in _REFUSALS)
    said = result.content.removeprefix("error: ")
    if is_refused:
        advice = f"replace {access.key_variable}, or leave {spec.name!r} out of tools.live"
        return Finding(what, FindingLevel.BAD, f"{access.key_variable} is refused: {said}", advice)
    advice = f"see whether {access.label} and {access.base_url_variable} can be reached from here"
    return Finding(what, FindingLevel.BAD, f"{access.label} is unreachable: {said}", advice)
