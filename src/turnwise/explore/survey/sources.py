"""Values that a server's entry in mcp.json, its resources and its prompts hold."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnwise.explore.reading import read
from turnwise.explore.records import Answer, Call
from turnwise.explore.survey.drawing import quoted_in
from turnwise.mcp.offerings import Offerings
from turnwise.mcp.spec import ServerSpec
from turnwise.system.secret_values import is_secret_name

_MAX_CHARS = 400
_MAX_ENTRIES = 30
_OPTION = re.compile(r"-{1,2}([\w-]+)(?:=(.*))?")


def configured_values(spec: ServerSpec) -> Iterator[tuple[str, Any]]:
    """Yield names and values of arguments, variables and the working directory, and entries of folders."""
    for name, text in _named(spec):
        is_secret = is_secret_name(name) or any(secret in text or text in secret for secret in spec.secrets)
        if not text or is_secret or len(text) > _MAX_CHARS:
            continue
        path = Path(text)
        if not path.is_absolute() or not path.exists():
            yield name, text
            continue
        yield f"{name} path {'folder directory' if path.is_dir() else 'file'}", text
        if path.is_dir():
            entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
            for entry in entries[:_MAX_ENTRIES]:
                yield f"path {'folder directory' if entry.is_dir() else 'file'}", str(entry)


def _named(spec: ServerSpec) -> Iterator[tuple[str, str]]:
    name = ""
    for argument in spec.args:
        if option := _OPTION.fullmatch(argument):
            name = option[1]
            if option[2]:
                yield name, option[2]
        else:
            yield name, argument
            name = ""
    yield from spec.env.items()
    if spec.cwd is not None:
        yield "cwd", str(spec.cwd)


def offered_values(offerings: Offerings) -> Iterator[tuple[str, Any]]:
    """Yield addresses and names of resources, and examples in the descriptions of prompts."""
    for resource in offerings.resources:
        if not resource.is_template:
            yield "resource uri", resource.uri
            yield "resource name", resource.name
        yield from (("resource", text) for text in quoted_in(resource.description))
    for prompt in offerings.prompts:
        for parameter in prompt.parameters:
            yield from ((parameter.name, text) for text in quoted_in(parameter.description))


def offered_answers(server: str, offerings: Offerings) -> Iterator[Answer]:
    """Yield the texts of resources as answers: their rows are values for arguments."""
    for resource in offerings.resources:
        if resource.text:
            call = Call(server, resource.name, {})
            yield Answer(call, resource.text, is_error=False, relations=read(call, resource.text))
