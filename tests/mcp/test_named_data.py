"""Which folders of the user's a server's command names, and which servers therefore share a copy."""

from pathlib import Path
from typing import Any

import pytest

from turnwise.mcp.named_data import NamedData, named_data
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.mcp.stock import grouped


def spec(name: str = "s", **block: Any) -> ServerSpec:
    [parsed] = parse({name: {"command": "server", **block}}, {}, directory=Path("/"))
    return parsed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, where the command is run."""
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "data, with: marks").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "server.py").touch()
    (tmp_path / "data, with: marks" / "shop.db").touch()
    (tmp_path / "local.db").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "argument",
    [
        "{home}/repo",
        "~/repo",
        "./repo",
        "repo",
        "repo/src/../",
        "--root={home}/repo",
        "root={home}/repo",
        "file://{home}/repo",
    ],
)
def test_a_folder_is_found_in_every_usual_spelling(home: Path, argument: str) -> None:
    assert named_data(spec(args=[argument.format(home=home)])).data == (home / "repo",)


@pytest.mark.parametrize(
    "value",
    ["{home}/data, with: marks/shop.db", "sqlite:////{home}/data, with: marks/shop.db?mode=rw"],
)
def test_a_file_stands_for_its_folder(home: Path, value: str) -> None:
    found = named_data(spec(env={"DB_URL": value.format(home=str(home))}))
    assert found == NamedData(data=(home / "data, with: marks",))


def test_a_relative_database_is_in_the_working_directory(home: Path) -> None:
    assert named_data(spec(args=["sqlite:///local.db"])).data == (home,)
    assert named_data(spec(args=["local.db"])).data == (home,)
    assert named_data(spec(args=["src/new.db"], cwd=str(home / "repo"))).data == (home / "repo",)


def test_a_file_that_the_server_would_create_counts(home: Path) -> None:
    assert named_data(spec(args=["--db", f"{home}/repo/new.db"])).data == (home / "repo",)


def test_lists_of_folders_are_taken_apart(home: Path) -> None:
    found = named_data(spec(env={"ROOTS": f"{home}/repo,{home}/code"}))
    assert found.data == (home / "code", home / "repo")


def test_a_script_is_code_and_not_data(home: Path) -> None:
    assert named_data(spec(args=[f"{home}/code/server.py"])) == NamedData(code=(home / "code",))


@pytest.mark.parametrize(
    "argument",
    [
        "run",
        "-y",
        "@scope/package",
        "https://example.com/etc",
        "postgres://h/etc",
        "1.2.3",
        "/nowhere/x/y",
        "",
    ],
)
def test_what_names_no_file_is_left_alone(home: Path, argument: str) -> None:
    assert named_data(spec(args=[argument], env={"PATH": f"{home}/code"})) == NamedData()


def test_a_remote_server_names_nothing() -> None:
    [remote] = parse({"s": {"url": "http://127.0.0.1:1/home"}}, {}, directory=Path("/"))
    assert named_data(remote) == NamedData()


def test_servers_over_the_same_data_form_a_group_and_others_stay_alone(home: Path) -> None:
    specs = [
        spec("git", args=[str(home / "repo")]),
        spec("db", args=[str(home / "data, with: marks")]),
        spec("files", args=[str(home / "repo" / "src")]),
        spec("mine", args=[str(home / "repo")], turnwise={"data": "real"}),
        spec("api"),
    ]
    groups = {tuple(member.name for member in group) for group in grouped(specs)}
    assert groups == {("git", "files"), ("db",), ("mine",), ("api",)}
