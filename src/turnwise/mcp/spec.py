"""Read an `mcp.json` into one checked `ServerSpec` per server."""

import itertools
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError, model_validator

from turnwise.mcp.serve import Service
from turnwise.system.environment import environment
from turnwise.system.files.regular_files import read_named
from turnwise.system.secret_values import is_secret_name, secret_values

logger = logging.getLogger(__name__)

EPISODE_DIR = "EPISODE_DIR"
"""`${EPISODE_DIR}` in args, env or cwd: the fresh directory of one server process, filled in at launch."""

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_INPUT = re.compile(r"\$\{input:([^}]*)\}")
# An unterminated string extends to the end of the text: otherwise every quote in it is tried as a start.
_STRING = r'("(?:\\.|[^"\\])*+(?:"|\Z))'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_KEY = re.compile(r'"([^"\\]*)"\s{0,20}:')
"""A key of an object. A key with an escape is not found: messages then name its server without a line."""
_IGNORED_KEYS = {"type", "transport", "disabled", "description", "autoApprove", "alwaysAllow", "timeout"}


class Isolation(StrEnum):
    """How episodes are kept apart on one server."""

    AUTO = "auto"
    SHARED = "shared"
    KEYED = "keyed"
    PROCESS = "process"


class Data(StrEnum):
    """What an episode changes: private copies, or the real files and services."""

    PRIVATE = "private"
    """A private copy of the existing folders that the command names, at the same path."""
    REAL = "real"
    """The real files and services: the user allows episodes to change them."""


class ServerOptions(BaseModel):
    """The `turnwise` block of a server in `mcp.json`: how training uses it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    isolation: Isolation = Isolation.AUTO
    """shared (stateless) | keyed (state per episode id inside one server) | process (one process per
    episode) | auto: keyed if the server says it is, shared if it says that it is stateless or if it is
    remote, process otherwise."""
    data: Data = Data.PRIVATE
    """private: each episode has its own copy of the folders that the command names | real: episodes work on
    the real files, or on the real service behind the server."""
    network: bool | Literal["real"] = False
    """Whether the server reaches the network, this machine's included | real: and episodes may change what it
    reaches. Not for remote servers, nor with `data: real`: those are not closed off."""
    template: Path | None = None
    """Directory or file copied into each process's fresh `${EPISODE_DIR}`; process isolation only."""
    num_warm: int = Field(default=2, ge=0)
    """Processes kept ready ahead of demand; process isolation only. 2 hides a spawn of about 1 s."""
    max_processes: int = Field(default=64, ge=1)
    """Most processes alive at once; further leases wait. Process isolation only."""
    allow: tuple[str, ...] | None = None
    """Only these tools (shell patterns); every tool if absent."""
    deny: tuple[str, ...] = ()
    """Never these tools (shell patterns); wins over allow."""
    timeout_seconds: float = Field(default=30.0, gt=0)
    """Time limit of one call; past it the call is cancelled and counts as an infrastructure fault."""
    connect_seconds: float = Field(default=60.0, gt=0)
    """Time limit from spawn to listed tools; long, because npx may have to unpack a package first."""
    max_concurrency: int = Field(default=64, ge=1)
    """Most calls in flight at this server, over all episodes; if it is remote, over all workers of a run."""
    rate_per_second: float | None = Field(default=None, gt=0)
    """Most calls started per second, over all episodes and workers of a run; no limit if absent."""
    num_retries: int = Field(default=2, ge=0)
    """Most retries of a call that is safe to repeat."""
    breaker_failures: int = Field(default=5, ge=1)
    """Infrastructure faults in a row that open the breaker."""
    breaker_seconds: float = Field(default=10.0, gt=0)
    """How long an open breaker refuses calls before it admits one trial."""
    patience_seconds: float = Field(default=60.0, ge=0)
    """How long a call waits while the breaker is open or the server asks for a rest (HTTP 429, Retry-After),
    before its episode is lost. A lease that has to start a process waits as long. A minute outlasts a restart
    and most network failures."""
    secret: tuple[str, ...] = ()
    """Variables, headers or flags whose value is a secret, although neither name nor value looks like one."""
    public: tuple[str, ...] = ()
    """Variables, headers or flags whose value may be shown, although name or value looks like a secret."""
    fault_rate: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of calls that fail on purpose with an infrastructure fault, to rehearse a run under faults."""
    max_disk_bytes: int = Field(default=4 * 2**30, ge=2**20)
    """Most bytes of disk that an episode's changes may take; past it, its servers end and further calls are
    the model's faults. A large file that is changed counts in full: it is copied."""
    max_message_bytes: int = Field(default=8_000_000, ge=1_000)
    """Largest reply accepted; a larger one becomes an error for the model. 8 MB parse in about 50 ms."""


class ServerSpec(BaseModel):
    """One server: how to reach it, and how training uses it. Variables are already expanded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,64}$")]
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict, repr=False)  # secrets: no log may print them
    cwd: Path | None = None
    url: str | None = Field(default=None, repr=False)  # hosted servers take keys in the query
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    service: InstanceOf[Service] | None = Field(default=None, repr=False)
    """A server inside this process, in place of a command or a URL."""
    options: ServerOptions = ServerOptions()

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if self.service is None and (self.command is None) == (self.url is None):
            raise ValueError("give either `command` (stdio) or `url` (streamable HTTP), not both or neither")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            # The value is not printed: with a variable in the wrong place it would be a secret.
            raise ValueError("url must start with http:// or https://")
        if self.url is not None and self.options.isolation is Isolation.PROCESS:
            raise ValueError("isolation 'process' needs a `command`: a remote server cannot be spawned")
        return self

    @property
    def is_remote(self) -> bool:
        return self.url is not None

    def shared_by(self, num_workers: int) -> "ServerSpec":
        """Return the spec for one of `num_workers` workers: together they stay within the server's limits.

        A server with a command runs once per worker, so only its rate is divided: all of its processes call
        the same service.
        """
        options, share = self.options, dict[str, float]()
        if self.is_remote:
            share["max_concurrency"] = options.max_concurrency // num_workers
            if not share["max_concurrency"]:
                raise ValueError(
                    f"server {self.name!r}: turnwise.max_concurrency is {options.max_concurrency}, and "
                    f"{num_workers} workers share it: raise it, or start fewer"
                )
        if options.rate_per_second is not None:
            share["rate_per_second"] = options.rate_per_second / num_workers
        return self.model_copy(update={"options": options.model_copy(update=share)})

    @property
    def secrets(self) -> set[str]:
        """Values in its env, headers, URL and arguments that must not be shown."""
        return secret_values(self._named_values, also=self.options.secret, never=self.options.public)

    @property
    def public(self) -> set[str]:
        """Values that may be shown although their names or looks are those of secrets."""
        return {value for name, value in self._named_values.items() if name in self.options.public}

    @property
    def _named_values(self) -> dict[str, str]:
        values = {"url": self.url or "", **self.headers, **self.env}
        for number, (argument, following) in enumerate(itertools.pairwise((*self.args, ""))):
            name, is_assigned, value = argument.partition("=")
            is_flag = argument.startswith("-")
            if is_flag and (is_assigned or is_secret_name(name)):
                values[name] = value or following
            elif not is_flag:
                values[f"args[{number}]"] = argument
        return values


@dataclass(frozen=True, slots=True)
class ServerFile:
    """The usable servers of an `mcp.json`, and why the other entries cannot be used."""

    specs: tuple[ServerSpec, ...]
    mistakes: Mapping[str, str]
    """For each unusable server: the file, its line and the reason."""


def load(path: Path, variables: Mapping[str, str] | None = None) -> tuple[ServerSpec, ...]:
    """Return the servers of the file. A bad entry is skipped with a warning; ValueError if all are bad."""
    return read_file(path, variables).specs


def read_file(path: Path, variables: Mapping[str, str] | None = None) -> ServerFile:
    """Read the file; ValueError, with the file and the reason, if it is unreadable or all entries are bad."""
    try:
        content = read_named(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    servers = blocks_of(content, str(path))
    folder = path.resolve().parent
    editors = {
        "workspaceFolder": str(folder.parent if folder.name == ".vscode" else folder),
        "userHome": str(Path.home()),
    }
    variables = {**editors, **(environment() if variables is None else variables)}
    return _parse_all(servers, variables, folder, _places(path, content.decode("utf-8-sig"), servers))


def _places(path: Path, text: str, servers: Iterable[str]) -> dict[str, str]:
    """Return the file and line of each server's entry; only the file if its key is not on just one line."""
    lines: dict[str, list[int]] = {name: [] for name in servers}
    for number, line in enumerate(text.splitlines(), 1):
        for name in {key for key in _KEY.findall(line) if key in lines}:
            lines[name].append(number)
    return {
        name: f"{path}:{numbers[0]}" if len(numbers) == 1 else str(path) for name, numbers in lines.items()
    }


def blocks_of(content: bytes, where: str) -> dict[str, Any]:
    """Return the servers of a file by name, as written: nothing is expanded or checked yet."""
    try:
        parsed = _parse_jsonc(content.decode("utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None
    servers = parsed.get("mcpServers", parsed.get("servers")) if isinstance(parsed, dict) else None
    if not isinstance(servers, dict):
        raise ValueError(f'{where}: expected an object {{"mcpServers": {{...}}}}, or VS Code\'s "servers"')
    return servers


def parse(
    servers: Mapping[str, Any], variables: Mapping[str, str], *, directory: Path, where: str = "mcpServers"
) -> tuple[ServerSpec, ...]:
    """Expand variables and check each block; relative `template` and `cwd` start at `directory`.

    A bad block is skipped with a warning, so that it affects only the tasks that need its server. Raises
    ValueError if all blocks are bad.
    """
    return _parse_all(servers, variables, directory, dict.fromkeys(servers, where)).specs


def _parse_all(
    servers: Mapping[str, Any], variables: Mapping[str, str], directory: Path, places: Mapping[str, str]
) -> ServerFile:
    specs, mistakes, problems = [], dict[str, str](), []
    for name, block in servers.items():
        if isinstance(block, dict) and block.get("disabled") is True:
            continue
        try:
            if not isinstance(block, dict):
                raise ValueError(f"expected an object, got {_kind(block)}")
            specs.append(_parse_server(name, block, variables, directory))
        except ValueError as error:
            reason = _readable(error, block)
        except RecursionError:
            reason = "its values are nested too deeply"
        else:
            continue
        mistakes[name] = f"{places[name]}: {reason}"
        problems.append(f"{places[name]}: server {name!r}: {reason}")
    if problems and not specs:
        raise ValueError("; ".join(problems))
    for mistake in problems:
        logger.warning("%s; it is left out", mistake)
    return ServerFile(tuple(specs), mistakes)


def _parse_jsonc(text: str) -> Any:
    """Parse JSON as editors write it: with comments and trailing commas."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        bare = _COMMENT.sub(lambda match: match[1] or " ", text)
        return json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or "", bare))


def _parse_server(
    name: str, block: Mapping[str, Any], variables: Mapping[str, str], directory: Path
) -> ServerSpec:
    kind = str(block.get("type", block.get("transport", "")))
    if kind == "sse":
        raise ValueError("type 'sse' is the retired HTTP+SSE transport; use its streamable HTTP url instead")
    if not isinstance(block.get("turnwise", {}), dict):
        raise ValueError(f"turnwise: expected an object, got {_kind(block['turnwise'])}")
    options = _expand(block.get("turnwise", {}), variables, "turnwise")
    known = {key: block[key] for key in ("command", "args", "env", "cwd", "url", "headers") if key in block}
    unknown = set(block) - set(known) - _IGNORED_KEYS - {"turnwise"}
    if unknown:
        logger.warning("server %s: ignored keys %s", name, ", ".join(sorted(unknown)))
    fields = _expand(known, variables)
    for holder, key in ((options, "template"), (fields, "cwd")):
        if isinstance(holder.get(key), str) and not holder[key].startswith("${"):
            holder[key] = directory / Path(holder[key]).expanduser()
    if isinstance(options.get("template"), Path) and not options["template"].exists():
        raise ValueError(f"turnwise.template: no such file or directory: {options['template']}")
    return ServerSpec(name=name, **fields, options=ServerOptions(**options))


def _expand(value: Any, variables: Mapping[str, str], field: str = "") -> Any:
    """Expand `${VAR}` and `${VAR:-default}` everywhere in a block; ValueError names an unset variable."""
    if isinstance(value, dict):
        return {key: _expand(item, variables, f"{field}.{key}".lstrip(".")) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, variables, f"{field}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    # Search only up to the last brace: after it, every unclosed `${` would be scanned to the end for nothing.
    end = value.rfind("}") + 1
    if asked := _INPUT.search(value, 0, end):
        raise ValueError(
            f"{field}: ${{input:{asked[1][:40]}}} is asked for by an editor; write ${{NAME}} and set NAME"
        )

    def substitute(match: re.Match[str]) -> str:
        variable, default = match.groups()
        if variable == EPISODE_DIR:
            return match.group(0)
        if variables.get(variable):
            return variables[variable]
        if default is not None:
            return str(default)
        raise ValueError(f"{field}: ${{{variable}}} is not set in the environment or .env")

    return _VARIABLE.sub(substitute, value[:end]) + value[end:]


def _readable(error: ValueError, block: Mapping[str, Any]) -> str:
    """Return field and reason; the value only from the `turnwise` block, which has no secrets."""
    if not isinstance(error, ValidationError):
        return str(error)
    issues = []
    for issue in error.errors(include_input=False, include_url=False):
        field = ".".join(str(part) for part in issue["loc"])
        message = issue["msg"].removeprefix("Value error, ")
        if error.title == ServerOptions.__name__:
            value = block["turnwise"].get(str(issue["loc"][0]))
            issues.append(f"turnwise.{field}: {message}, got {json.dumps(value)[:100]}")
        else:
            issues.append(f"{field}: {message}" if field else message)
    return "; ".join(issues)


def _kind(value: Any) -> str:
    """Return the name of a value's type: the value itself may be a secret."""
    return "null" if value is None else type(value).__name__
