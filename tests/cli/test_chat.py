"""`turnwise chat`: real tools in a conversation, foreign text stays text, and ways to leave."""

import io
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests import warm
from tests.rollout.stage import call, script
from tests.run.stage import recipe
from tests.run.test_train import run_it
from tests.setup.resolved import resolved
from tests.shown import recipe_in, shown_task, sound_setup
from tests.test_cli import Ran, is_plain
from turnwise.cli.chat import HELP, MAX_TURNS, FinishedCall, Halted, Talk, _converse, talk
from turnwise.engines.scripted import ScriptedEngine
from turnwise.setup.agent import Agent
from turnwise.setup.bench import Workbench, open_workbench
from turnwise.types import Message, Parsed, Task, ToolCall, Truth

QUESTION = shown_task().prompt[0].content
Event = Parsed | FinishedCall | Halted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sound_setup(tmp_path)


def chat(folder: Path, *args: str, lines: Sequence[str], python: str = "") -> Ran:
    done = subprocess.run(
        [python or warm.heavy(), "-m", "turnwise", "chat", *args],
        input="".join(f"{line}\n" for line in lines).encode(),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "200", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@asynccontextmanager
async def scripted_talk(
    folder: Path, *turns: str | list[ToolCall], overrides: Sequence[str] = ()
) -> AsyncIterator[tuple[Talk, Workbench]]:
    """A conversation with a model that gives these turns."""
    settings = recipe_in(folder, "rollout.tokens_per_turn=400", *overrides)
    async with open_workbench(resolved(settings), with_engine=False) as bench:
        sequence = script(bench.chat, *turns)
        stop_id = min(bench.chat.stop_ids)
        engine = ScriptedEngine(lambda text: bench.chat.say(text)[:-1], stop_id, sequence=sequence)
        played = replace(bench, engine=engine)
        async with played.lease(Task("talk", (), (), Truth()), "talk/0") as toolbox:
            yield Talk(played, toolbox, temperature=0.0), played


async def events(talking: Talk, text: str) -> list[Event]:
    return [event async for event in talking.reply(text)]


def results(found: Sequence[Event]) -> list[str]:
    return [event.result.content for event in found if isinstance(event, FinishedCall)]


async def test_a_conversation_keeps_the_tools_state_and_all_messages(folder: Path) -> None:
    turns = ([call("write", text="a")], "Kept.", [call("write", text="b"), call("read")], "Two.")
    async with scripted_talk(folder, *turns) as (talking, bench):
        first = await events(talking, "Keep a.")
        assert results(first) == ["written"]
        assert first[-1] == Parsed(text="Kept.")
        second = await events(talking, "Keep b too. How many?")
        assert results(second) == ["written", '["a","b"]']
        ids = tuple(talking._ids)
        opening = bench.chat.open([Message("user", "Keep a.")], bench.pool.tools)
        assert ids[: len(opening)] == opening
        follow = bench.chat.follow(ids, "Keep b too. How many?")
        starts = [at for at in range(len(ids)) if ids[at : at + len(follow)] == follow]
        assert len(starts) == 1, "the second message is in the ids once, as the user's"
        assert ids[starts[0] - 1] in bench.chat.stop_ids


async def test_an_agent_that_never_answers_is_halted_and_the_conversation_continues(folder: Path) -> None:
    turns = [[call("read")]] * MAX_TURNS
    async with scripted_talk(folder, *turns, "Now I answer.") as (talking, _):
        found = await events(talking, "Go.")
        assert isinstance(found[-1], Halted)
        assert len(results(found)) == MAX_TURNS
        again = await events(talking, "Stop and answer.")
        assert [event.text for event in again if isinstance(event, Parsed)] == ["Now I answer."]


async def test_a_turn_that_is_cut_off_and_a_conversation_that_is_too_long_are_reported(folder: Path) -> None:
    turns, overrides = ("word " * 200, "Short."), ["rollout.tokens_per_turn=20"]
    async with scripted_talk(folder, *turns, overrides=overrides) as (talking, _):
        assert (await events(talking, "Tell me."))[-1] == Halted("cut off after 20 tokens")
        assert isinstance((await events(talking, "Shorter."))[-1], Parsed)
    async with scripted_talk(folder, "x", overrides=["rollout.tokens_per_episode=64"]) as (talking, _):
        [halted] = await events(talking, "Tell me.")
        assert isinstance(halted, Halted)
        assert "64 tokens" in halted.reason


async def test_a_malformed_call_is_reported_to_the_model_which_may_correct_it(folder: Path) -> None:
    async with scripted_talk(folder, "x", "Better.") as (talking, bench):
        broken = bench.chat.say("", [call("read")])
        engine: Any = bench.engine
        engine._sequence = iter([broken[: len(broken) // 2] + broken[-1:], bench.chat.say("Better.")])
        first, *_, last = await events(talking, "Go.")
        assert isinstance(first, Parsed)
        assert first.error is not None
        assert last == Parsed(text="Better.")


def typed(*lines: str) -> Callable[[], Awaitable[str | None]]:
    """What a user types, and then the end of input."""
    left = iter((*lines, None))

    async def ask() -> str | None:
        return next(left)

    return ask


async def test_text_of_models_and_tools_stays_text_on_the_terminal(folder: Path) -> None:
    out = io.StringIO()
    hostile = "[bold]x[/] \x1b[31m \u202e"
    turns = ([call("write", text=hostile), call("read")], f"done {hostile}")
    async with scripted_talk(folder, *turns) as (talking, _):
        console = Console(file=out, emoji=False, highlight=False, width=200)
        assert await _converse(talking, console, typed("say it"))
    assert is_plain(out.getvalue())
    assert "\u202e" not in out.getvalue()
    assert "done [bold]x[/]" in out.getvalue()
    assert "calls write" in out.getvalue()


def test_piped_lines_are_answered_with_real_tools_and_new_starts_over(folder: Path) -> None:
    lines = [QUESTION, "", "/what", "/new", QUESTION, "/quit", "never read"]
    ran = chat(folder, "recipe.toml", "--set", "engine.kind=scripted", lines=lines, python=sys.executable)
    assert ran.code == 0, ran
    assert is_plain(ran.out)
    assert ran.out.count("tools: write, read, episodes, log, fail") == 2
    assert ran.out.count('calls write {"text": "a"}') == 2
    assert ran.out.count('["a"]') == 2, "what the first conversation kept is gone in the second"
    assert ran.out.count("\ndone\n") == 2
    assert ran.out.count(HELP) == 3
    assert "never read" not in ran.out


def test_a_trained_run_can_be_chatted_with_and_mistakes_are_one_line(tmp_path: Path) -> None:
    settings = recipe(tmp_path, evaluation={"before_and_after": False}, run={"num_steps": 1})
    _, folder = run_it(settings)
    # from another folder its reward's module is another one, so it would ask
    options = ["--trust", "--set", "rollout.tokens_per_turn=4"]
    ran = chat(tmp_path, str(folder.path), *options, lines=["Hello", "/quit"])
    assert ran.code == 0, ran
    assert "cut off after 4 tokens" in ran.out
    for args, words in [
        (["recipe.toml", "--best"], "choose a checkpoint of a run"),
        ([str(tmp_path)], "not a run's folder"),
        ([str(folder.path), "--trust", "--step", "7"], "no checkpoint of step 7"),
    ]:
        ran = chat(tmp_path, *args, lines=[])
        assert ran.code == 2
        assert words in ran.err
        assert ran.err.count("\n") == 1


@pytest.mark.parametrize(("leave", "code"), [("Ctrl-D", 0), ("Ctrl-C", 130)])
def test_ctrl_d_and_ctrl_c_leave_a_terminal(folder: Path, leave: str, code: int) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        # a fork heeds Ctrl-C even where tests run as a shell's background job, whose processes ignore it
        [warm.heavy(), "-m", "turnwise", "chat", "recipe.toml", "--set", "engine.kind=scripted"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(slave)
    seen = b""
    try:
        while b"> " not in seen:
            seen += os.read(master, 4096)
        if leave == "Ctrl-C":
            process.send_signal(signal.SIGINT)
        else:
            os.write(master, b"\x04")
        assert process.wait(timeout=60) == code, seen
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert b"Traceback" not in seen


async def test_a_recipe_without_tasks_offers_every_tool(folder: Path) -> None:
    out, settings = io.StringIO(), recipe_in(folder)
    bare = settings.model_copy(update={"tasks": settings.tasks.model_copy(update={"train": None})})
    await talk(Agent(resolved(bare)), temperature=0.0, console=Console(file=out, width=200), ask=typed())
    assert "tools: write, read" in out.getvalue()
