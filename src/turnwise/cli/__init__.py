"""The `turnwise` command: each subcommand parses its arguments, imports what it needs, and prints."""

import os
import sys
from typing import Annotated

import typer

from turnwise.cli import config, engine, explore, init, models, play, runs, servers, tasks, view, worlds
from turnwise.cli import doctor as check
from turnwise.cli import train as learn
from turnwise.cli.mistakes import reports_mistakes
from turnwise.cli.options import fail
from turnwise.system.lasting_output import lasting_output
from turnwise.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich cuts the names of options on a narrow terminal
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"turnwise {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Log what turnwise does on stderr, and show full tracebacks. "
            "TURNWISE_LOG=debug does the same; TURNWISE_LOG=info or warning shows less.",
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Train language models to use tools over many turns, against real MCP servers.

    --debug goes before the command: turnwise --debug train recipe.toml
    """
    from turnwise.cli.logs import set_up

    try:
        set_up(is_debug=debug)
    except ValueError as error:
        fail(str(error))


# In the order in which a newcomer needs them. `turnwise --help` shows the first sentence of a docstring.
for command in (
    learn.demo,
    init.init,
    explore.explore,
    worlds.worlds,
    servers.tools,
    servers.call,
    config.config,
    check.doctor,
    learn.train,
    learn.sft,
    play.evaluate,
    play.rollout,
    models.chat,
    view.view,
    models.export,
    servers.serve,
    engine.engine,
):
    name = "eval" if command is play.evaluate else command.__name__
    app.command(name)(reports_mistakes(command))
app.add_typer(tasks.app, name="tasks")
app.add_typer(runs.app, name="runs")


def main() -> None:
    """Run the command line; an update that was abandoned in its thread does not delay the exit."""
    try:
        with lasting_output(lambda what: None):  # a command whose reader has ended goes on in silence
            app()
    except SystemExit as ended:
        detached = sys.modules.get("turnwise.system.threads")
        if detached is None or not detached.is_left_behind():
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        # everything else is closed by now, and Python cannot shut down cleanly while that thread runs
        os._exit(ended.code if isinstance(ended.code, int) else 1)
