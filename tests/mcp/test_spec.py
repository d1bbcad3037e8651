"""What `mcp.json` may contain, and how its mistakes are reported without showing its secrets."""

import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.mcp.session import command_of
from turnwise.mcp.spec import Isolation, ServerSpec, load, parse
from turnwise.system.environment import environment

SECRET = "sk-TOPSECRET-0123456789"
NOWHERE = Path("/nowhere")
WRONG = json.loads((Path(__file__).parent / "data" / "wrong_blocks.json").read_text())
"""Blocks with a mistake and words of its report; and blocks with a mistake and a secret, or ${S} for it."""


def one(
    block: Any, variables: Mapping[str, str] | None = None, *, directory: Path = NOWHERE, name: str = "srv"
) -> ServerSpec:
    [spec] = parse({name: block}, variables or {}, directory=directory)
    return spec


def refusal(block: Any, variables: Mapping[str, str] | None = None) -> str:
    """The error that this block causes; it never contains the secret."""
    with pytest.raises(ValueError, match="server 'srv'") as caught:
        one(block, variables)
    assert caught.value.__cause__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value)


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# --- valid files -------------------------------------------------------------------------------------------


def test_stdio_and_http_servers_are_read_as_other_clients_write_them() -> None:
    stdio = one({"command": "npx", "args": ["-y", "server"], "env": {"A": "1"}, "cwd": "/data"})
    assert (stdio.command, stdio.args, stdio.env) == ("npx", ("-y", "server"), {"A": "1"})
    assert (stdio.cwd, stdio.is_remote) == (Path("/data"), False)
    assert stdio.options.isolation is Isolation.AUTO
    http = one({"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer t"}})
    assert (http.url, http.headers, http.is_remote) == ("https://x/mcp", {"Authorization": "Bearer t"}, True)


def test_the_turnwise_block_sets_how_training_uses_a_server() -> None:
    block = {"isolation": "process", "num_warm": 0, "allow": ["get_*"], "deny": ["*_all"]}
    options = one({"command": "x", "turnwise": {**block, "rate_per_second": 2.5}}).options
    assert options.isolation is Isolation.PROCESS
    assert (options.num_warm, options.rate_per_second) == (0, 2.5)
    assert (options.allow, options.deny) == (("get_*",), ("*_all",))


def test_variables_are_expanded_everywhere(tmp_path: Path) -> None:
    (tmp_path / "seed").mkdir()
    variables = {
        "TOKEN": "t0k",
        "DIR": "seed",
        "MODE": "process",
        "BIN": "run",
        "HOST": "h.local",
        "EMPTY": "",
    }
    defaults = ["${MISSING:-dflt}", "${TOKEN:-dflt}", "${MISSING:-}", "${EMPTY:-dflt}"]
    block = {
        "command": "${BIN}.sh",
        "args": ["--a=${TOKEN}${TOKEN}", *defaults, "$TOKEN", "$${x"],
        "env": {"KEY": "Bearer ${TOKEN}"},
        "cwd": "${DIR}",
        "turnwise": {"isolation": "${MODE}", "template": "${DIR}"},
    }
    spec = one(block, variables, directory=tmp_path)
    assert (spec.command, spec.env) == ("run.sh", {"KEY": "Bearer t0k"})
    assert spec.args == ("--a=t0kt0k", "dflt", "t0k", "", "dflt", "$TOKEN", "$${x")
    assert spec.cwd == spec.options.template == tmp_path / "seed"
    assert spec.options.isolation is Isolation.PROCESS
    remote = one({"url": "https://${HOST}/mcp", "headers": {"X": "${TOKEN}"}}, variables)
    assert (remote.url, remote.headers) == ("https://h.local/mcp", {"X": "t0k"})
    assert one({"command": "${A}"}, {"A": "${B}", "B": "b"}).command == "${B}", "a value is expanded once"


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_text_without_a_variable_is_never_changed(text: str) -> None:
    if "${" not in text:
        assert one({"command": "x", "args": [text], "env": {"A": text}}).args == (text,)


def test_the_episode_directory_is_filled_in_at_launch() -> None:
    block = {
        "args": ["${EPISODE_DIR}/db.sqlite"],
        "env": {"HOME": "${EPISODE_DIR}"},
        "cwd": "${EPISODE_DIR}/sub",
    }
    spec = one({"command": "x", **block})
    assert spec.args == ("${EPISODE_DIR}/db.sqlite",)
    command = command_of(spec, Path("/scratch/1"))
    assert (command.args, command.env) == (("/scratch/1/db.sqlite",), {"HOME": "/scratch/1"})
    assert command.cwd == Path("/scratch/1/sub")


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "seed").mkdir(parents=True)
    file = write(tmp_path / "mcp.json", {"mcpServers": {"a": {"command": "x", "cwd": "sub"}}})
    assert load(file, {})[0].cwd == tmp_path / "sub"
    block = {"command": "x", "turnwise": {"template": "~/seed"}}
    assert one(block).options.template == tmp_path / "home" / "seed"


def test_a_disabled_server_is_left_out_even_if_it_is_wrong() -> None:
    off = {"disabled": True, "command": "${UNSET}", "url": 5}
    servers = {"off": off, "on": {"disabled": False, "command": "x"}}
    assert [spec.name for spec in parse(servers, {}, directory=NOWHERE)] == ["on"]


def test_unknown_keys_are_logged_unless_other_clients_use_them(caplog: pytest.LogCaptureFixture) -> None:
    known = {"type": "stdio", "description": "d", "autoApprove": ["a"], "alwaysAllow": [], "timeout": 60}
    assert one({"command": "x", **known}).command == "x"
    assert caplog.text == ""
    assert one({"command": "x", "gallery": {"k": SECRET}}).command == "x"
    assert "gallery" in caplog.text
    assert SECRET not in caplog.text


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "mcp.json", "\ufeff" + json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    assert [spec.name for spec in load(file, {})] == ["a"]


def test_the_file_of_vs_code_is_read_with_its_comments_and_variables(tmp_path: Path) -> None:
    folder = tmp_path / ".vscode"
    folder.mkdir()
    content = """{
      // servers of this workspace
      "servers": {
        "git": {
          "type": "stdio", /* as VS Code writes it */
          "command": "git-server",
          "args": ["${workspaceFolder}", "http://not-a-comment", "/* nor this */"],
          "env": {"TOKEN": "${env:MY_TOKEN}"},
        },
      },
    }"""
    [git] = load(write(folder / "mcp.json", content), {"MY_TOKEN": "t"})
    assert git.args == (str(tmp_path), "http://not-a-comment", "/* nor this */")
    assert git.env == {"TOKEN": "t"}


def test_the_environment_wins_over_dotenv_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "parent" / "project"
    here.mkdir(parents=True)
    (tmp_path / ".env").write_text("TW_FAR=far\n")
    (here.parent / ".env").write_text("TW_ABOVE=above\nTW_BOTH=above\nTW_ALL=above\nTW_BARE\n")
    (here / ".env").write_text('# comment\nexport TW_BOTH="here"\nTW_ALL=here\n')
    monkeypatch.setenv("TW_ALL", "real")
    monkeypatch.chdir(here)
    block = {"command": "x", "args": ["${TW_ABOVE}", "${TW_BOTH}", "${TW_ALL}", "${TW_BARE:-none}"]}
    [spec] = load(write(tmp_path / "mcp.json", {"mcpServers": {"a": block}}))
    assert spec.args == ("above", "here", "real", "none")
    assert not {"TW_BARE", "TW_FAR"} & set(environment()), "only the folder and its parent are read"


def test_programs_are_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python", "turnwise"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    python = command_of(one({"command": "python"}), None)
    assert python.path == str(tmp_path / "python")
    assert python.environment["PATH"] == str(tmp_path)
    own = command_of(one({"command": "turnwise"}), None)
    assert own.path != str(tmp_path / "turnwise"), "turnwise is the one that runs"


def test_workers_divide_the_limits_of_a_remote_server() -> None:
    limits = {"max_concurrency": 10, "rate_per_second": 6.0}
    far = one({"url": "http://far/mcp", "turnwise": limits})
    assert far.shared_by(1) == far
    for spec, max_concurrency in ((far, 2), (one({"command": "x", "turnwise": limits}), 10)):
        share = spec.shared_by(4).options  # every worker starts its own local server
        assert (share.max_concurrency, share.rate_per_second) == (max_concurrency, 1.5)
    narrow = one({"url": "http://far/mcp", "turnwise": {"max_concurrency": 3}})
    assert narrow.shared_by(3).options.max_concurrency == 1
    with pytest.raises(ValueError, match=r"server 'srv': turnwise\.max_concurrency is 3, and 4 workers"):
        narrow.shared_by(4)


# --- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("block", "words"), WRONG["mistakes"])
def test_a_mistake_is_reported_in_one_line_with_server_and_field(block: Any, words: list[str]) -> None:
    message = refusal(block)
    assert "\n" not in message
    assert not [word for word in words if word not in message], message


def test_a_block_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = reduce(lambda inner, _: [inner], range(2_000), 1)
    assert "nested too deeply" in refusal({"command": "x", "args": deep})


@pytest.mark.parametrize("name", ["", "x\n", "\x1b[0m", "x" * 65])
def test_a_server_name_that_cannot_be_printed_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        one({"command": "x"}, name=name)


@pytest.mark.parametrize("block", WRONG["with_secret"])
def test_no_mistake_shows_a_secret(block: Any) -> None:
    refusal(block, {"S": SECRET})


def test_secrets_are_found_in_flags_and_urls_and_never_printed() -> None:
    flags = ["run", "--api-key", "k-123456", "--token=t-123456", "--dir", "/data"]
    assert one({"command": "x", "args": flags}).secrets == {"k-123456", "t-123456"}
    assert one({"url": "http://127.0.0.1:1/mcp?key=u-123456"}).secrets == {"u-123456"}
    local = one({"command": "x", "env": {"KEY": SECRET}})
    remote = one({"url": f"https://h/mcp?key={SECRET}", "headers": {"Authorization": SECRET}})
    assert SECRET not in f"{local} {local!r} {remote} {remote!r} {(local, remote)}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[1]", "mcpServers"),
        ('{"context": {}}', "mcpServers"),
        ('{"mcpServers": []}', "mcpServers"),
        ("[" * 100_000, "not JSON"),
        (json.dumps({"mcpServers": {"a": {"env": {"K": SECRET}}}})[:-1], "not JSON"),
        (b'{"mcpServers": "\xff"}', "not JSON"),
    ],
)
def test_an_error_in_the_file_names_it(tmp_path: Path, content: str | bytes, words: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"mcp\.json.*{words}") as caught:
        load(file, {})
    assert SECRET not in str(caught.value)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone\.json: no such file"):
        load(tmp_path / "gone.json", {})
    with pytest.raises(ValueError, match=r"is a folder, not a file"):
        load(tmp_path, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


def test_a_wrong_entry_is_logged_and_the_other_servers_are_used(caplog: pytest.LogCaptureFixture) -> None:
    blocks = {
        "unset": {"command": "x", "env": {"KEY": "${SURELY_NOT_SET}"}},
        "old": {"type": "sse", "url": "http://127.0.0.1/sse"},
        "typo": {"comand": "x"},
        "odd": 5,
        "good": {"command": "x"},
    }
    assert [spec.name for spec in parse(blocks, {}, directory=NOWHERE)] == ["good"]
    lines = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert all(name in line for name, line in zip(("unset", "old", "typo", "odd"), lines, strict=True))
    assert "SURELY_NOT_SET" in lines[0]
