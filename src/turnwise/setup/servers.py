"""Which servers of an `mcp.json` are ours, which of those are live, and what live ones may do.

A server is live only if the recipe (`tools.live`) or its own `args` (`--backend live`) say so. Setting a key
is not enough: the key is not passed to the process of a server that is not live.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from turnwise.config import Recipe, ToolsConfig
from turnwise.config.generated_worlds import generated_worlds
from turnwise.mcp.functions import function_server
from turnwise.mcp.pool import is_offered
from turnwise.mcp.spec import ServerFile, ServerOptions, ServerSpec, read_file
from turnwise.system.environment import environment
from turnwise.system.python_functions import NOTHING_GIVEN, Given, find_function
from turnwise.types import LiveServer, Tool
from turnwise.worlds.generated.world import is_world_name, named_world, server_of, world_name
from turnwise.worlds.market.contract import WRITES, contract
from turnwise.worlds.market.live.providers import ACCESS, Access
from turnwise.worlds.market.services import DEFAULT_FILE, SERVERS, Backend

PROVIDER_VARIABLES = frozenset(
    variable for access in ACCESS.values() for variable in (access.key_variable, access.base_url_variable)
)
"""The variables of every provider's key and base URL. A server gets its own provider's, and only if live."""


@dataclass(frozen=True, slots=True)
class ReadyServers:
    """The servers of an `mcp.json`, ready to start."""

    specs: tuple[ServerSpec, ...]
    live: tuple[LiveServer, ...]
    unused_keys: Mapping[str, str]
    """Name of a server that is not live → the variable that holds its provider's key."""
    mistakes: Mapping[str, str] = field(default_factory=dict)
    """Name of an unusable entry → the file, the line and the reason."""

    @property
    def embedded(self) -> set[str]:
        """The names of our servers that answer from the embedded world."""
        ours = {spec.name for spec in self.specs if served_name(spec) is not None}
        return ours - {server.name for server in self.live}

    @property
    def notes(self) -> tuple[str, ...]:
        """One line per live server and per unused key, to show before an episode begins."""
        return (
            *(describe_live(server) for server in self.live),
            *(describe_unused(server, key) for server, key in self.unused_keys.items()),
        )


NO_SERVERS = ReadyServers((), (), {})


def servers_of(recipe: Recipe, default: Path = DEFAULT_FILE, given: Given = NOTHING_GIVEN) -> ReadyServers:
    """Return the recipe's servers, or those of `default` if it names no `mcp.json` and no functions.

    With an environment there are no servers. `given`: functions that the recipe names and that cannot be
    imported.
    """
    tools = recipe.tools
    if recipe.environment:
        return NO_SERVERS
    if not tools.functions:
        return _servers_in(tools.mcp or default, tools)
    functions = function_server(
        {name: find_function(name, "tool", given) for name in tools.functions},
        ServerOptions(timeout_seconds=tools.function_timeout_seconds),
    )
    if tools.mcp is None:
        return ReadyServers((functions,), (), {})
    servers = _servers_in(tools.mcp, tools)
    if functions.name in {spec.name for spec in servers.specs}:
        raise ValueError(
            f"{tools.mcp}: server {functions.name!r}: rename it, the name is that of tools.functions"
        )
    return replace(servers, specs=(*servers.specs, functions))


def _servers_in(path: Path, tools: ToolsConfig) -> ReadyServers:
    if tools.is_replayed:
        return load_servers(path)  # no provider is called, so no key is needed
    return load_servers(path, live=tools.live, live_writes=tools.live_writes)


def load_servers(
    path: Path,
    *,
    live: Collection[str] = (),
    live_writes: Collection[str] = (),
    variables: Mapping[str, str] | None = None,
) -> ReadyServers:
    """Read an `mcp.json` and resolve the backend of each of our servers; ValueError for the user's mistakes.

    `live` and `live_writes` are server names from the file, as in `tools.live` and `tools.live_writes`.
    """
    variables = environment() if variables is None else variables
    file = _read(path, variables)
    specs = tuple(map(_in_process, file.specs))
    ours = {spec.name: name for spec in specs if (name := served_name(spec)) is not None}
    for server in live:
        _check_can_be_live(server, ours, path)
    entries = [
        _resolved(spec, ours[spec.name], spec.name in live, spec.name in live_writes, variables)
        if spec.name in ours
        else (spec, None)
        for spec in specs
    ]
    servers = tuple(server for _, server in entries if server is not None)
    _check_can_write(live_writes, servers)
    alive = {server.name for server in servers}
    unused = {
        spec.name: key
        for spec in specs
        if spec.name not in alive and (key := _key_of(ours.get(spec.name)))
        if spec.env.get(key) or variables.get(key)
    }
    return ReadyServers(tuple(spec for spec, _ in entries), servers, unused, file.mistakes)


def _read(path: Path, variables: Mapping[str, str]) -> ServerFile:
    """Return the servers of an mcp.json, or of `worlds:NUM`."""
    worlds = generated_worlds(path)
    if worlds is None:
        return read_file(path, variables)
    names = (world_name(worlds.seed, number) for number in range(worlds.num))
    return ServerFile(tuple(server_of(named_world(name)) for name in names), {})


def _in_process(spec: ServerSpec) -> ServerSpec:
    """Return the spec; a generated world runs inside this process, which takes a hundredth of the time."""
    for word in _served(spec):
        if is_world_name(word):
            service = server_of(named_world(word)).service
            return spec.model_copy(update={"service": service, "command": None, "args": ()})
    return spec


def served_name(spec: ServerSpec) -> str | None:
    """Return NAME if the entry runs `turnwise serve NAME` (directly, by `python -m` or `uvx`), else None."""
    return next((word for word in _served(spec) if word in SERVERS), None)


def _served(spec: ServerSpec) -> tuple[str, ...]:
    """Return the words after `turnwise serve`; none if the entry runs something else."""
    words = (Path(spec.command or "").stem, *spec.args)
    for place in range(len(words) - 1):
        if words[place : place + 2] == ("turnwise", "serve"):
            return words[place + 2 :]
    return ()


def describe_live(server: LiveServer) -> str:
    """Describe in one line what an episode can do at the provider."""
    if not server.writes:
        return f"{server.name} is live: its {len(server.reads)} tools only read from {server.service}"
    reads = ", ".join(server.reads)
    if server.may_write:
        effects = "; ".join(f"{tool} {effect}" for tool, effect in server.writes.items())
        return f"{server.name} is live and may write to {server.service}: {effects}; {reads} only read"
    return (
        f"{server.name} is live: {reads} only read from {server.service}; {', '.join(server.withheld)} is "
        f'withheld, and tools.live_writes = ["{server.name}"] offers it'
    )


def describe_unused(server: str, key: str) -> str:
    return (
        f"{key} is set but not used: {server} answers from the embedded world; "
        f'tools.live = ["{server}"] uses the real service'
    )


def _resolved(
    spec: ServerSpec, served: str, is_chosen: bool, may_write: bool, variables: Mapping[str, str]
) -> tuple[ServerSpec, LiveServer | None]:
    """Return the spec to start the server with, and its `LiveServer` if it is live."""
    said, args = _said_backend(spec), spec.args
    if is_chosen and said == Backend.EMBEDDED:
        raise ValueError(f"tools.live: mcp.json runs server {spec.name!r} with --backend embedded")
    env = {name: value for name, value in spec.env.items() if name not in PROVIDER_VARIABLES}
    if not is_chosen and said != Backend.LIVE:
        return spec.model_copy(update={"env": env}), None
    if served not in ACCESS:
        raise ValueError(f"server {spec.name!r}: {served} has no live provider")
    access = ACCESS[served]
    if said is None:
        args = (*args, "--backend", Backend.LIVE.value)
    if may_write and "--allow-writes" not in args:
        args = (*args, "--allow-writes")
    server = _live_server(spec.name, served, access, may_write="--allow-writes" in args)
    env |= _provider_variables(spec, access, variables)
    options = spec.options.model_copy(update={"deny": (*spec.options.deny, *server.withheld)})
    return spec.model_copy(update={"args": args, "env": env, "options": options}), server


def _key_of(served: str | None) -> str:
    return ACCESS[served].key_variable if served in ACCESS else ""


def _said_backend(spec: ServerSpec) -> Backend | None:
    """Return the value of `--backend` in the server's args, or None if it is absent."""
    for place, word in enumerate(spec.args):
        flag, separator, value = word.partition("=")
        if flag == "--backend":
            value = value if separator else (*spec.args, "")[place + 1]
            if value not in list(Backend):
                raise ValueError(
                    f"server {spec.name!r}: args: --backend: expected embedded or live, got {value!r}"
                )
            return Backend(value)
    return None


def _provider_variables(spec: ServerSpec, access: Access, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the provider's key and base URL from the spec's `env`, else from our environment or `.env`."""
    variables = {
        name: value
        for name in (access.key_variable, access.base_url_variable)
        if (value := spec.env.get(name) or variables.get(name))
    }
    if access.key_variable not in variables:
        raise ValueError(
            f"server {spec.name!r} is live and needs {access.key_variable}, which is not set in the "
            "environment or .env"
        )
    return variables


def _live_server(name: str, served: str, access: Access, *, may_write: bool) -> LiveServer:
    tools = [tool["name"] for tool in contract()["servers"][served]["tools"]]
    return LiveServer(
        name=name,
        service=access.label,
        reads=tuple(tool for tool in tools if tool not in WRITES),
        writes={tool: access.effects[tool] for tool in tools if tool in WRITES},
        may_write=may_write,
    )


def _check_can_be_live(server: str, ours: Mapping[str, str], path: Path) -> None:
    if server not in ours:
        known = ", ".join(name for name, served in ours.items() if served in ACCESS) or "none"
        raise ValueError(
            f"tools.live: {server!r} is no server of {path} that runs `turnwise serve`; those that do are "
            f"{known}. Others are live or not by themselves"
        )


def _check_can_write(live_writes: Collection[str], live: Collection[LiveServer]) -> None:
    by_name = {server.name: server for server in live}
    for name in live_writes:
        if name not in by_name:
            raise ValueError(f"tools.live_writes: {name!r} is not live; name it in tools.live too")
        if not by_name[name].writes:
            raise ValueError(f"tools.live_writes: {name!r} has no tool that writes")


def declared_tools(spec: ServerSpec) -> tuple[Tool, ...] | None:
    """Return the tools one of our servers offers under `allow` and `deny`; None for any other server."""
    name = served_name(spec)
    if name is None:
        return None
    tools = (
        Tool(
            name=tool["name"],
            description=tool["description"],
            input_schema=tool["inputSchema"],
            server=spec.name,
            server_tool=tool["name"],
            is_read_only=tool["name"] not in WRITES,
        )
        for tool in contract()["servers"][name]["tools"]
    )
    return tuple(tool for tool in tools if is_offered(tool, spec.options.allow, spec.options.deny))
