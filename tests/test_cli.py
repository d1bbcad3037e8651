"""The `turnwise` command as a person or a script meets it: real processes, exit codes, plain text."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.mcp.notes import notes_block as cold_block

SECRET = "sk-TOPSECRET-0123456789"
HEAVY = {
    "mcp",
    "mcp_types",
    "pydantic",
    "httpx2",
    "jsonschema",
    "anyio",
    "numpy",
    "pandas",
    "torch",
    "uvicorn",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


def turnwise(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    columns: int = 300,
    python: Callable[[], str] | None = None,
) -> Ran:
    """The command by a `python` that has imported what it needs, or by the one given."""
    if python is None:
        python = warm.light if args[0] in ("tools", "call") else warm.heavy
    inherited = {"PATH": os.environ["PATH"], "HOME": str(cwd), "COLUMNS": str(columns)}
    inherited["XDG_STATE_HOME"] = os.environ["XDG_STATE_HOME"]  # runs that the tests made are this user's
    done = subprocess.run(
        [python(), "-m", "turnwise", *args],
        cwd=cwd,
        env={**inherited, **(env or {})},
        capture_output=True,
        timeout=600,  # only a command that hangs takes as long, whatever else the machine does
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def fresh() -> str:
    """For a test that shows that a command imports all it needs."""
    return sys.executable


def notes_block(*args: str, **options: Any) -> dict[str, Any]:
    return cold_block(*args, **options) | {"command": warm.light()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory whose mcp.json has the tiny server in it."""
    write(tmp_path, notes=notes_block(env={"NOTES_API_KEY": "${MY_KEY:-sk-TOPSECRET-0123456789}"}))
    return tmp_path


def write(folder: Path, **servers: Any) -> None:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def no_torch(folder: Path) -> dict[str, str]:
    """An environment in which a command that loads torch ends: mistakes are told before those seconds."""
    (folder / "first").mkdir()
    (folder / "first" / "torch.py").write_text("raise SystemExit('torch was loaded')\n")
    return {"PYTHONPATH": str(folder / "first")}


def is_plain(text: str) -> bool:
    """No character that a terminal would act on."""
    return all(
        character == "\n" or (character >= " " and not "\x7f" <= character <= "\x9f") for character in text
    )


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text.strip()


# --- help --------------------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, turnwise.cli; print(sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert HEAVY & set(json.loads(done.stdout.replace("'", '"'))) == set()


@pytest.mark.parametrize(
    "args", [["--help"], ["-h"], ["tools", "--help"], ["call", "-h"], ["serve", "--help"], ["engine", "-h"]]
)
def test_help_explains_itself_with_exit_code_0(tmp_path: Path, args: list[str]) -> None:
    ran = turnwise(*args, cwd=tmp_path, python=fresh)
    assert ran.code == 0
    assert "Usage" in ran.out
    assert ran.err == ""
    if len(args) > 1:
        assert "Example: turnwise" in ran.out


@pytest.mark.parametrize("args", [["train"], ["engine"], ["eval"], ["tasks", "make"]])
def test_help_cuts_no_name_on_a_narrow_terminal(tmp_path: Path, args: list[str]) -> None:
    wide, narrow = (
        turnwise(*args, "--help", cwd=tmp_path, columns=width, python=warm.light) for width in (300, 60)
    )
    options = set(re.findall(r"--[a-z-]+|[a-z]+\.[a-z_]+=", wide.out))
    assert len(options) >= 4
    assert options == set(re.findall(r"--[a-z-]+|[a-z]+\.[a-z_]+=", narrow.out))
    assert "…" not in narrow.out


def test_the_list_of_commands_cuts_no_sentence(tmp_path: Path) -> None:
    for args in ([], ["tasks"], ["runs"]):
        ran = turnwise(*args, "--help", cwd=tmp_path, columns=80, python=fresh)
        assert "Commands:" in ran.out
        assert "..." not in ran.out.partition("Commands:")[2]


def test_no_arguments_show_help_and_an_unknown_command_is_wrong_usage(tmp_path: Path) -> None:
    assert "Usage" in turnwise(cwd=tmp_path, python=fresh).err
    ran = turnwise("trian", cwd=tmp_path, python=fresh)
    assert ran.code == 2
    assert "trian" in ran.err


# --- tools -------------------------------------------------------------------------------------------------


def test_tools_lists_the_file_in_this_directory_with_costs(folder: Path) -> None:
    ran = turnwise("tools", cwd=folder, python=fresh)
    assert ran.code == 0, ran.err
    assert "notes: 11 tools" in ran.out
    assert "isolation keyed" in ran.out
    assert "add_note *" in ran.out
    assert "Keep a note." in ran.out


def test_what_a_server_says_of_itself_stays_plain_text_on_the_terminal(folder: Path) -> None:
    write(folder, notes=notes_block("--hostile-names"))
    ran = turnwise("tools", cwd=folder, env={"FORCE_COLOR": ""})
    assert ran.code == 0, ran.err
    assert is_plain(ran.out)
    assert "<|im_end|>" not in ran.out
    assert "\u202e" not in ran.out
    assert "[bold red]markup[/]" in ran.out, "markup is shown as it was written, not obeyed"


def test_tools_as_json_is_json_with_the_schemas_as_they_were_given(folder: Path) -> None:
    ran = turnwise("tools", str(folder / "mcp.json"), "--json", cwd=folder.parent)
    assert ran.code == 0
    server = json.loads(ran.out)["servers"]["notes"]
    assert server["isolation"] == "keyed"
    [tool] = [tool for tool in server["tools"] if tool["name"] == "add_note"]
    assert tool["input_schema"]["properties"] == {"text": {"type": "string"}}
    assert tool["num_tokens"] > 10


def test_no_listing_shows_a_secret_that_a_server_wrote_into_a_description(folder: Path) -> None:
    for args in (["tools"], ["tools", "--json"]):
        ran = turnwise(*args, cwd=folder)
        assert ran.code == 0
        assert SECRET not in ran.out


def test_a_server_that_does_not_start_is_told_with_its_last_words_and_the_others_are_listed(
    folder: Path,
) -> None:
    broken = {"command": sys.executable, "args": ["-c", "import no_such_module"], "env": {"KEY": SECRET}}
    write(folder, notes=notes_block(), broken=broken)
    ran = turnwise("tools", "--json", cwd=folder)
    assert ran.code == 1
    servers = json.loads(ran.out)["servers"]
    assert "no_such_module" in servers["broken"]["error"]
    assert len(servers["notes"]["tools"]) == 11
    assert SECRET not in ran.out + ran.err
    ran = turnwise("tools", cwd=folder)
    assert ran.code == 1
    assert "no_such_module" in ran.out + ran.err


# --- call --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "shown"),
    [
        ("say", '{"text": "hello é"}', 0, "hello é"),
        ("echo", "{}", 0, "{}"),
        ("wrong", "{}", 1, "no ticker 'ZZZZ'"),
        ("say", '{"text": 5}', 1, "text: 5 is not of type 'string'"),
        ("unavailable", "{}", 3, "provider says 503"),
    ],
)
def test_the_exit_code_of_a_call_says_whose_doing_it_was(
    folder: Path, tool: str, arguments: str, code: int, shown: str
) -> None:
    ran = turnwise("call", tool, arguments, cwd=folder)
    assert ran.code == code, ran
    assert shown in (ran.out if code == 0 else ran.err)
    assert (ran.err if code == 0 else ran.out) == ""


@pytest.mark.parametrize(
    ("tool", "cause", "fault", "code", "python"),
    [("say", "ok", "none", 0, fresh), ("wrong", "tool_error", "model", 1, None)],
)
def test_a_call_as_json_is_one_json_object(
    folder: Path, tool: str, cause: str, fault: str, code: int, python: Callable[[], str] | None
) -> None:
    ran = turnwise("call", tool, '{"text": "x"}', "--json", cwd=folder, python=python)
    assert ran.code == code
    result = json.loads(one_line(ran.out))
    assert (result["cause"], result["fault"]) == (cause, fault)
    assert result["seconds"] > 0


def test_a_hostile_result_is_printed_as_plain_text_without_the_servers_secrets(folder: Path) -> None:
    ran = turnwise("call", "hostile", cwd=folder)
    assert ran.code == 0
    assert is_plain(ran.out)
    assert ran.out.startswith("red [bold red]markup[/] ‹|im_end|>")
    ran = turnwise(
        "call", "environment", cwd=folder, env={"MY_KEY": "other-secret-99", "UNRELATED": "mine-alone"}
    )
    assert "NOTES_API_KEY" in ran.out
    for kept in ("other-secret-99", "mine-alone", "UNRELATED"):
        assert kept not in ran.out


def test_a_key_from_dotenv_reaches_the_server(folder: Path) -> None:
    (folder / ".env").write_text("MY_KEY=from-the-env-file-1\n")
    ran = turnwise("call", "environment", cwd=folder)
    assert '"NOTES_API_KEY":"[redacted]"' in ran.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["call", "say", "{"], ["arguments", "not JSON"]),
        (["call", "say", "[1]"], ["arguments", "[1]"]),
        (["call", "say", '"x"'], ["arguments", '"x"']),
        (["call", "say", "[" * 100_000], ["arguments", "not JSON"]),
        (["call", "say", "{}", "--mcp", "."], [".: is a folder, not a file"]),
        (["train", "--dry-run", "."], [".: is a folder, not a recipe"]),
        (["doctor", "."], [".: is a folder, not a recipe"]),
        (["doctor", "--plan", "."], [".: is a folder, not a recipe"]),
        (["call", "say", "{}", "--mcp", "gone.json"], ["gone.json", "no such file"]),
        (["tools", "gone.json"], ["gone.json", "no such file"]),
        (["tools", "."], [".: is a folder, not a file"]),
        (["serve", "fpm"], ["name", "'fpm'", "polygon"]),
        (["serve", "fmp", "--backend", "dead"], ["backend", "'dead'", "embedded"]),
        (["serve", "fmp", "--backend", "live"], ["backend", "FMP_API_KEY"]),
        (["serve", "fmp", "--http", "--host", "0.0.0.0"], ["0.0.0.0", "token", "TURNWISE_SERVE_TOKEN"]),
        (["serve", "python", "--backend", "live"], ["backend", "python"]),
        (["engine", "--set", "engine.kind=scripted"], ["engine.kind", "'scripted'", "transformers and vllm"]),
        (["engine", "--set", "engine.kind=remote"], ["engine.kind", "'remote'", "transformers and vllm"]),
        (["engine", "--host", "0.0.0.0"], ["0.0.0.0", "token", "TURNWISE_ENGINE_TOKEN"]),
        (["engine", "--host", "192.0.2.1", "--set", "engine.kind=vllm"], ["192.0.2.1", "token"]),
        (["engine", "--set", "engine.remote.url=http://me:pw@there:1"], ["engine.remote.url", "password"]),
        (["engine", "--set", "engine.remote.url=there:1"], ["engine.remote.url", "http://HOST:PORT"]),
        (["engine", "--set", "engine.remote.tokn=x"], ["engine.remote.tokn", "no such key"]),
        (["train", "gone.toml"], ["gone.toml", "no such file"]),
        (["train", "--dry-run", "gone.toml"], ["gone.toml", "no such file"]),
        (["rollout", "gone.toml"], ["gone.toml", "no such file"]),
        (["chat", "."], ["not a run's folder"]),
        (["export", ".", "--out", "model"], ["not a run's folder"]),
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_line_that_names_field_and_value(
    folder: Path, args: list[str], words: list[str]
) -> None:
    ran = turnwise(*args, cwd=folder, env=no_torch(folder), python=warm.light)
    assert ran.code == 2
    line = one_line(ran.err)
    assert line.startswith("turnwise: ")
    for word in words:
        assert word in line


def test_debug_shows_the_traceback_of_a_mistake_and_what_was_done(folder: Path) -> None:
    plain = turnwise("train", "gone.toml", cwd=folder, python=warm.light)
    for ran in (
        turnwise("--debug", "train", "gone.toml", cwd=folder, python=warm.light),
        turnwise("train", "gone.toml", cwd=folder, env={"TURNWISE_LOG": "debug"}, python=warm.light),
    ):
        assert ran.code == 2
        assert "Traceback" in ran.err
        assert ran.err.endswith(plain.err), "the one line is the last"
    ran = turnwise("--debug", "call", "say", '{"text": "x"}', cwd=folder)
    assert "DEBUG turnwise.mcp.pool: server notes: connected" in ran.err
    assert "DEBUG turnwise.mcp.toolbox: " in ran.err
    assert is_plain(ran.err)
    assert SECRET not in ran.err


@pytest.mark.parametrize("level", ["info", "warning", ""])
def test_other_levels_show_no_debug_lines(folder: Path, level: str) -> None:
    ran = turnwise("call", "say", '{"text": "x"}', cwd=folder, env={"TURNWISE_LOG": level})
    assert ran.err == ""


def test_a_level_that_is_none_is_wrong_usage(folder: Path) -> None:
    ran = turnwise("tools", cwd=folder, env={"TURNWISE_LOG": "loud"}, python=warm.light)
    assert ran.code == 2
    assert one_line(ran.err) == "turnwise: TURNWISE_LOG is 'loud': expected debug, info, warning"


def test_the_help_teaches_debug_and_exit_codes(tmp_path: Path) -> None:
    ran = turnwise("--help", cwd=tmp_path, python=fresh)
    assert "--debug" in ran.out
    assert "TURNWISE_LOG" in ran.out
    ran = turnwise("train", "--help", cwd=tmp_path, python=fresh)
    for code in ("0 all steps", "1 an unexpected", "2 a mistake", "3 it ended early", "130 a second"):
        assert code in " ".join(ran.out.split())


def test_a_mistake_in_mcp_json_is_one_line_without_its_secrets(folder: Path) -> None:
    write(folder, notes={"command": 5, "env": {"KEY": SECRET}})
    for args in (["tools"], ["call", "say"]):
        ran = turnwise(*args, cwd=folder)
        assert ran.code == 2
        assert "server 'notes': command" in one_line(ran.err)
        assert SECRET not in ran.err


def test_an_unknown_tool_is_wrong_usage_with_the_nearest_name_and_all_others(folder: Path) -> None:
    ran = turnwise("call", "sya", "{}", cwd=folder)
    assert ran.code == 2
    assert "no tool 'sya'; did you mean 'say'?" in one_line(ran.err)
    assert "list_notes" in ran.err


def marked(path: Path) -> dict[str, Any]:
    """A server that leaves a file behind when it is started, and never works."""
    command = ["-c", f"open({str(path)!r}, 'w')"]
    return {"command": sys.executable, "args": command, "turnwise": {"data": "real"}}


def own_server(name: str) -> dict[str, Any]:
    return {"command": str(Path(warm.light()).with_name("turnwise")), "args": ["serve", name]}


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("execute_python", '{"code": "6 * 7"}', "42"),
        ("python__execute_python", '{"code": "6 * 7"}', "42"),
        ("notes__say", '{"text": "hello"}', "hello"),
    ],
)
def test_a_call_starts_no_server_but_the_one_that_has_the_tool(
    folder: Path, tool: str, arguments: str, says: str
) -> None:
    write(folder, notes=notes_block(), python=own_server("python"), other=marked(folder / "started"))
    ran = turnwise("call", tool, arguments, cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    assert says in ran.out
    assert not (folder / "started").exists()


def test_a_tool_that_nobody_declares_is_looked_for_on_every_server(folder: Path) -> None:
    write(folder, python=own_server("python"), other=marked(folder / "started"), notes=notes_block())
    ran = turnwise("call", "say", '{"text": "hello"}', cwd=folder)
    assert (ran.code, ran.out.strip()) == (0, "hello")
    assert (folder / "started").exists()


def test_an_unknown_tool_of_our_own_servers_is_told_without_starting_them(folder: Path) -> None:
    never = {"command": "/no/such/place/turnwise", "args": ["serve", "fmp"]}
    write(folder, fmp=never | {"turnwise": {"deny": ["*_quote"]}})
    ran = turnwise("call", "fmp_search_tiker", "{}", cwd=folder)
    assert ran.code == 2
    assert "did you mean 'fmp_search_ticker'?" in one_line(ran.err)
    assert "fmp_get_quote" not in ran.err, "a tool that mcp.json denies is not offered"


def test_a_name_that_two_servers_have_is_refused_with_the_names_that_tell_them_apart(folder: Path) -> None:
    write(folder, a=notes_block(), b=notes_block())
    ran = turnwise("call", "say", "{}", cwd=folder)
    assert ran.code == 2
    assert "'say' is on several servers: use one of a__say, b__say" in one_line(ran.err)
    assert turnwise("call", "b__say", '{"text": "hello"}', cwd=folder).out.strip() == "hello"


def test_naming_the_known_tools_prints_no_escapes_of_theirs(folder: Path) -> None:
    write(folder, notes=notes_block("--hostile-names"))
    assert is_plain(turnwise("call", "sya", "{}", cwd=folder).err)


def test_a_setting_that_only_the_server_can_refute_is_one_line_too(folder: Path) -> None:
    write(folder, notes=notes_block("--unkeyed", isolation="keyed"))
    ran = turnwise("tools", cwd=folder)
    assert ran.code == 2
    assert "isolation 'keyed'" in one_line(ran.err)


# --- serve -------------------------------------------------------------------------------------------------


def test_serve_speaks_mcp_on_stdio_and_ends_with_its_stdin(tmp_path: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    done = subprocess.run(
        [sys.executable, "-m", "turnwise", "serve", "tavily", "--backend", "embedded"],
        input=f"{json.dumps(hello)}\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=tmp_path,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "tavily"
