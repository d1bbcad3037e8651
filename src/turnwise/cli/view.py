"""`turnwise view`: the page over run folders, from the command line."""

from pathlib import Path
from typing import Annotated

import typer


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders, or folders of run folders; ./runs if absent.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(help="0 picks a free one.", min=0, max=65535)] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that others can reach needs a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(
            envvar="TURNWISE_VIEW_TOKEN",
            help="Token a browser must send; generated if one is needed and none is given.",
            show_default=False,
        ),
    ] = "",
    export: Annotated[Path | None, typer.Option(help="Write one self-contained HTML file and exit.")] = None,
) -> None:
    """Look at runs in a browser, live or afterwards. It shows figures, health, episodes, tools, evaluations.

    Only the runs' folders are read, and nothing in them is changed.

    Example: turnwise view runs/cpu-20261115-070000
    """
    from turnwise.dashboard.command import open_runs, serve, write_export

    found = open_runs(runs or [Path("runs")])
    if export is not None:
        file, num_bytes = write_export(found, export)
        print(f"{file}: {num_bytes / 1e6:,.1f} MB, to be opened in any browser")
        return
    serve(found, host=host, port=port, token=token, say=lambda words: print(words, flush=True))
