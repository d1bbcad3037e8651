"""A world: one generated server, with its start state, and the service that MCP clients call."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.mcp.calls.schemas import Schema
from turnwise.mcp.serve import Handler, ServedTool, Service, ToolError
from turnwise.mcp.spec import ServerSpec
from turnwise.worlds.generated.catalogue import draw_operations
from turnwise.worlds.generated.domain import Domain, draw_domain
from turnwise.worlds.generated.operations import Outcome, Refusal, Setting, require_session
from turnwise.worlds.generated.results import Presenter, complaint_text
from turnwise.worlds.generated.state import State, draw_state
from turnwise.worlds.generated.style import Style, draw_style
from turnwise.worlds.generated.tools import Translator, WorldTool
from turnwise.worlds.generated.vocabulary import cities
from turnwise.worlds.stream import Stream

_NAME = re.compile(r"world-(\d{1,9})-(\d{1,6})")


@dataclass(frozen=True, slots=True)
class World:
    """One server of a seed: what it offers, and the state that every episode starts from."""

    name: str
    domain: Domain
    style: Style
    setting: Setting
    tools: Sequence[WorldTool]
    start: State
    translator: Translator
    presenter: Presenter

    def tool(self, key: str, entity: str = "", field: str = "") -> WorldTool:
        """Return the tool of an operation; LookupError if the world has none."""
        for tool in self.tools:
            of = tool.operation
            if of.key == key and (of.entity.key if of.entity else "") == entity and of.field == field:
                return tool
        raise LookupError(f"{self.name} has no tool to {key} {entity} {field}")

    def run(self, tool: WorldTool, state: State, sent: Mapping[str, Any]) -> Outcome:
        """Carry out a call on this state; Refusal if a rule forbids it."""
        require_session(self.setting, state, tool.operation)
        args = self.translator.read(tool, state, sent)
        return tool.operation.run(self.setting, state, tool.operation.entity, args)

    def complaint(self, refusal: Refusal, tool: WorldTool) -> str:
        """Return the text of a refusal, with the name of the tool that must come first."""
        key, _, entity = refusal.cure.partition(" ")
        entity = "person" if key == "verify" else entity
        matches = [
            other.name
            for other in self.tools
            if other.operation.key == key and entity in ("", getattr(other.operation.entity, "key", ""))
        ]
        return complaint_text(self.style, refusal, tool.name, matches[0] if matches else "")


def world_name(seed: int, number: int) -> str:
    return f"world-{seed}-{number}"


@functools.lru_cache(maxsize=2048)
def named_world(name: str) -> World:
    """Return the world of this name; ValueError if it is not `world-SEED-NUMBER`."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not the name of a generated world, world-SEED-NUMBER")
    return make_world(int(match[1]), int(match[2]))


def is_world_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def make_world(seed: int, number: int) -> World:
    """Return world `number` of a seed: the same on every machine."""
    name = world_name(seed, number)
    stream = Stream(name)
    domain = draw_domain(Stream(name, "domain"), number)
    style = draw_style(Stream(name, "style"), domain.theme.name)
    currencies = tuple(dict.fromkeys(stream.pick(cities()).currency for _ in range(6)))[:4]
    new_id = _new_id(domain, style)
    setting = Setting(domain, _rates(stream, currencies), new_id, _facts(stream, domain, currencies[0]))
    translator = Translator(domain, style)
    operations = draw_operations(Stream(name, "operations"), domain, currencies)
    return World(
        name,
        domain,
        style,
        setting,
        [translator.tool(operation) for operation in operations],
        draw_state(Stream(name, "state"), domain, new_id),
        translator,
        Presenter(domain, style),
    )


def service_of(world: World) -> Service:
    """Return the world as a service that keeps the state of each episode apart."""
    states: dict[str, State] = {}

    def handler(tool: WorldTool) -> Handler:
        schema = Schema(tool.name, tool.input_schema)

        async def handle(arguments: Mapping[str, Any], episode: str) -> str:
            if error := schema.first_error(dict(arguments)):
                raise ToolError(f"invalid arguments: {error.message[:300]}")
            if episode not in states:
                states[episode] = world.start.copy()
            state = states[episode]
            try:
                return world.presenter.text(world.run(tool, state, arguments), state)
            except Refusal as refusal:
                raise ToolError(world.complaint(refusal, tool)) from None

        return handle

    async def drop(episode: str) -> None:
        states.pop(episode, None)

    tools = [
        ServedTool(
            tool.name,
            tool.description,
            tool.input_schema,
            handler(tool),
            is_read_only=tool.operation.is_read_only,
            is_idempotent=tool.operation.is_read_only,
        )
        for tool in world.tools
    ]
    return Service(world.name, tools, drop=drop, is_alone=True)


def server_of(world: World) -> ServerSpec:
    """Return the world as a server inside this process."""
    return ServerSpec(name=world.name, service=service_of(world))


def _new_id(domain: Domain, style: Style) -> Any:
    return lambda key, number: style.new_id(domain.entities[key].noun, number)


def _rates(stream: Stream, currencies: tuple[str, ...]) -> dict[str, float]:
    return {
        name: 1.0 if not place else stream.integer(20, 900) / 100 for place, name in enumerate(currencies)
    }


def _facts(stream: Stream, domain: Domain, currency: str) -> dict[str, Any]:
    return {
        "opens_at": f"{stream.integer(6, 10):02d}:30",
        "closes_at": f"{stream.integer(16, 21):02d}:00",
        "currency": currency,
        f"max_open_{domain.theme.record}": domain.rules.max_open,
    }
