"""What a server offers besides its tools: resources, templates of resources, and prompts."""

from collections.abc import Callable
from dataclasses import dataclass

import mcp_types as wire
from mcp import Client, MCPError
from pydantic import ValidationError

MAX_PAGES = 10
MAX_RESOURCES = 200
MAX_READ = 30
"""Resources whose text is read."""
MAX_TEXT_CHARS = 64_000
MAX_PROMPTS = 200


@dataclass(frozen=True, slots=True)
class ServerResource:
    """A resource, or a template of resources."""

    uri: str
    name: str
    description: str = ""
    text: str = ""
    """Its text; empty if it is binary, a template, or was not read."""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class PromptParameter:
    """An argument of a prompt."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A prompt that a server offers to its users."""

    name: str
    description: str = ""
    parameters: tuple[PromptParameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Offerings:
    """Resources and prompts of one server, sanitised."""

    resources: tuple[ServerResource, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()


async def read_offerings(client: Client, clean: Callable[[str], str]) -> Offerings:
    """Read them within bounds. A list that the server fails to give counts as empty."""
    capabilities = client.server_capabilities
    resources: list[ServerResource] = []
    prompts: list[ServerPrompt] = []
    if capabilities.resources is not None:
        resources += await _resources(client, clean)
        resources += await _templates(client, clean)
    if capabilities.prompts is not None:
        prompts += await _prompts(client, clean)
    return Offerings(tuple(resources), tuple(prompts))


async def _resources(client: Client, clean: Callable[[str], str]) -> list[ServerResource]:
    listed: list[wire.Resource] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        try:
            page = await client.list_resources(cursor=cursor)
        except (MCPError, ValidationError):
            break
        listed += page.resources
        cursor = page.next_cursor
        if cursor is None or len(listed) >= MAX_RESOURCES:
            break
    resources = []
    for number, resource in enumerate(listed[:MAX_RESOURCES]):
        text = await _text(client, resource.uri) if number < MAX_READ else ""
        description = clean(resource.description or "")
        resources.append(
            ServerResource(clean(str(resource.uri)), clean(resource.name), description, clean(text))
        )
    return resources


async def _text(client: Client, uri: str) -> str:
    try:
        read = await client.read_resource(uri)
    except (MCPError, ValidationError):
        return ""
    texts = [part.text for part in read.contents if isinstance(part, wire.TextResourceContents)]
    return "\n".join(texts)[:MAX_TEXT_CHARS]


async def _templates(client: Client, clean: Callable[[str], str]) -> list[ServerResource]:
    try:
        page = await client.list_resource_templates()
    except (MCPError, ValidationError):
        return []
    return [
        ServerResource(clean(it.uri_template), clean(it.name), clean(it.description or ""), is_template=True)
        for it in page.resource_templates[:MAX_RESOURCES]
    ]


async def _prompts(client: Client, clean: Callable[[str], str]) -> list[ServerPrompt]:
    try:
        page = await client.list_prompts()
    except (MCPError, ValidationError):
        return []
    return [
        ServerPrompt(
            clean(prompt.name),
            clean(prompt.description or ""),
            tuple(
                PromptParameter(clean(it.name), clean(it.description or "")) for it in prompt.arguments or ()
            ),
        )
        for prompt in page.prompts[:MAX_PROMPTS]
    ]
