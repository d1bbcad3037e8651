"""`turnwise config`: what the keys of a recipe mean, from the command line."""

import json
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import AsJson, fail

if TYPE_CHECKING:
    from turnwise.config.describe import KeyFacts


def config(
    key: Annotated[
        str, typer.Argument(help="A key such as rollout.group_size, or a section such as rollout.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Explain the keys of a recipe: meaning, type, default, range.

    Example: turnwise config rollout.group_size
    """
    from turnwise.config.describe import describe_keys
    from turnwise.config.keys import keys_below, nearest_keys

    found = keys_below(key) if key else describe_keys()
    if not found:
        near = nearest_keys(key)
        fail(f"{key}: no such key" + (f"; did you mean {' or '.join(near)}?" if near else ""))
    if as_json:
        print(json.dumps([asdict(item) for item in found], ensure_ascii=False, indent=1))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
    for item in found:
        _print(item, width)


def _print(key: "KeyFacts", width: int) -> None:
    from turnwise.system.terminal import wrapped

    is_unset = key.default in ("required", "unset")
    print(f"{key.name} ({key.default})" if is_unset else f"{key.name} = {key.default}")
    values = (
        f"one of {', '.join(key.choices)}" if key.choices else ", ".join(filter(None, (key.type, key.range)))
    )
    for line in [*wrapped(values, width - 4), *wrapped(key.meaning, width - 4)]:
        print(f"    {line}")
