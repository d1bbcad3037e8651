"""A world's tools: operations under a style, with their schemas, and arguments translated both ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnwise.worlds.generated.domain import Domain, Kind
from turnwise.worlds.generated.operations import Operation, Param, Refusal
from turnwise.worlds.generated.state import State
from turnwise.worlds.generated.style import Style, description_of
from turnwise.worlds.generated.vocabulary import plural, spoken

_TYPES = {
    Kind.INTEGER: "integer",
    Kind.NUMBER: "number",
    Kind.BOOLEAN: "boolean",
    Kind.LIST: "array",
    Kind.LINES: "array",
    Kind.OBJECT: "object",
}


@dataclass(frozen=True, slots=True)
class WorldTool:
    """One tool: its styled name, schema and description, and the path of each argument."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    operation: Operation
    paths: Mapping[str, tuple[str, ...]]
    """Argument of the operation → where the styled arguments have it."""


@dataclass(frozen=True, slots=True)
class Translator:
    """Turns an operation's arguments into styled ones, and back."""

    domain: Domain
    style: Style

    def tool(self, operation: Operation) -> WorldTool:
        paths = {param.name: self._path(operation, param) for param in operation.params}
        return WorldTool(
            self.style.tool_name(operation),
            description_of(self.style, operation),
            self._schema(operation, paths),
            operation,
            paths,
        )

    def styled(self, tool: WorldTool, state: State, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as a client sends them; rows are given by their ids."""
        sent: dict[str, Any] = {}
        for param in tool.operation.params:
            if param.name in args:
                *groups, last = tool.paths[param.name]
                inner = sent
                for group in groups:
                    inner = inner.setdefault(group, {})
                inner[last] = self._encoded(param, state, args[param.name])
        return sent

    def read(self, tool: WorldTool, state: State, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the operation's arguments, with its defaults; Refusal for an unknown row or value."""
        args: dict[str, Any] = {}
        for param in tool.operation.params:
            value: Any = sent
            for key in tool.paths[param.name]:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value is not None:
                args[param.name] = self._decoded(param, state, value)
            elif param.is_required:
                raise Refusal("invalid", f"{'.'.join(tool.paths[param.name])} is missing.")
            elif param.default is not None:
                args[param.name] = param.default
        return args

    def _path(self, operation: Operation, param: Param) -> tuple[str, ...]:
        if param.kind is Kind.REF:
            name = self._reference(param.target)
        else:
            name = self.style.argument(
                "new_status" if param.name == "status" == operation.key else param.name
            )
        if not self.style.is_nested or not param.group:
            return (name,)
        noun = operation.entity.noun if operation.entity is not None else ""
        return (self.style.argument(noun if param.group == "body" else param.group), name)

    def _reference(self, target: str) -> str:
        return self.style.reference(self.domain.entities[target].noun, is_record=target == "record")

    def _has_names(self, target: str) -> bool:
        return self.style.by_name and target != "record"

    def _encoded(self, param: Param, state: State, value: Any) -> Any:
        match param.kind:
            case Kind.REF:
                return self._named(state, param.target, value)
            case Kind.LINES:
                thing, count = self._reference("thing"), self.style.argument(self.domain.theme.count)
                return [
                    {thing: self._named(state, "thing", line["thing"]), count: line["count"]}
                    for line in value
                ]
            case Kind.OBJECT:
                return {self.style.argument(key): inner for key, inner in value.items()}
        return value

    def _named(self, state: State, target: str, row_id: Any) -> Any:
        return state.tables[target][row_id]["name"] if self._has_names(target) else row_id

    def _decoded(self, param: Param, state: State, value: Any) -> Any:
        match param.kind:
            case Kind.REF:
                return self._row_id(state, param.target, value)
            case Kind.LINES:
                thing, count = self._reference("thing"), self.style.argument(self.domain.theme.count)
                return [
                    {"thing": self._row_id(state, "thing", line[thing]), "count": line[count]}
                    for line in value
                ]
            case Kind.OBJECT:
                return {key: value[self.style.argument(key)] for key in ("street", "city", "postcode")}
            case Kind.ENUM if value not in param.values:
                raise Refusal(
                    "invalid", f"{param.name} must be one of {', '.join(param.values)}, not {value}."
                )
        return value

    def _row_id(self, state: State, target: str, given: Any) -> Any:
        rows = state.tables[target]
        if self._has_names(target):
            matches = [row["id"] for row in rows.values() if row["name"] == given]
        else:
            matches = [given] if isinstance(given, str | int) and given in rows else []
        if not matches:
            noun = self.domain.entities[target].noun
            what = f"name {given!r}" if self._has_names(target) else f"id {given!r}"
            raise Refusal("not_found", f"There is no {spoken(noun)} with the {what}.", f"find {target}")
        return matches[0]

    def _schema(self, operation: Operation, paths: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
        for param in operation.params:
            *groups, last = paths[param.name]
            inner = schema
            for group in groups:
                if param.is_required and group not in inner["required"]:
                    inner["required"].append(group)
                empty = {"type": "object", "properties": {}, "required": []}
                inner = inner["properties"].setdefault(group, empty)
            inner["properties"][last] = self._property(param)
            if param.is_required:
                inner["required"].append(last)
        return _without_empty(schema)

    def _property(self, param: Param) -> dict[str, Any]:
        declared: dict[str, Any] = {"type": _TYPES.get(param.kind, "string")}
        if param.kind is Kind.REF and self.style.ids == "number" and not self._has_names(param.target):
            declared["type"] = "integer"
        if param.kind is Kind.ENUM and self.style.declares_enums:
            declared["enum"] = list(param.values)
        if param.kind is Kind.LIST:
            declared["items"] = {"type": "string"}
        if param.kind is Kind.OBJECT:
            names = [self.style.argument(name) for name in ("street", "city", "postcode")]
            declared |= {"properties": {name: {"type": "string"} for name in names}, "required": names}
        if param.kind is Kind.LINES:
            declared["items"] = self._line()
        if param.default is not None and self.style.says_defaults:
            declared["default"] = param.default
        if words := self._explained(param):
            declared["description"] = words
        return declared

    def _line(self) -> dict[str, Any]:
        thing, count = self._reference("thing"), self.style.argument(self.domain.theme.count)
        param = Param("thing", Kind.REF, target="thing")
        return {
            "type": "object",
            "properties": {thing: self._property(param), count: {"type": "integer"}},
            "required": [thing, count],
        }

    def _explained(self, param: Param) -> str:
        if self.style.detail in ("none", "terse"):
            needs_form = param.kind is Kind.DATE or (
                param.kind is Kind.ENUM and not self.style.declares_enums
            )
            if not needs_form:
                return ""
        match param.kind:
            case Kind.REF:
                noun = spoken(self.domain.entities[param.target].noun)
                return f"The {'exact name' if self._has_names(param.target) else 'id'} of the {noun}."
            case Kind.DATE:
                return "A date as YYYY-MM-DD."
            case Kind.ENUM if not self.style.declares_enums:
                return f"One of {', '.join(param.values)}."
            case Kind.LIST:
                return f"All {spoken(plural(param.name.rstrip('s')))}; they replace the present ones."
        return f"The {spoken(param.name)}." if self.style.detail == "long" else ""


def _without_empty(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without empty lists of required names, as most servers write it."""
    kept = {key: value for key, value in schema.items() if key != "required" or value}
    if "properties" in kept:
        kept["properties"] = {
            name: _without_empty(inner) if inner.get("type") == "object" else inner
            for name, inner in kept["properties"].items()
        }
    return kept
