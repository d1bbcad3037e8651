"""Results and errors as text, in the layout of a server."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnwise.worlds.generated.domain import Domain, Entity, Field, Kind
from turnwise.worlds.generated.operations import Outcome, Refusal
from turnwise.worlds.generated.state import Row, State
from turnwise.worlds.generated.style import Complaint, Layout, References, Style
from turnwise.worlds.generated.vocabulary import plural, spoken

Shown = dict[str, Any]


class Presenter:
    """Writes what a world's operations return."""

    def __init__(self, domain: Domain, style: Style) -> None:
        self._domain = domain
        self._style = style

    def text(self, outcome: Outcome, state: State) -> str:
        style, entity = self._style, outcome.entity
        if entity is None:
            values = {style.argument(key): value for key, value in (outcome.values or {}).items()}
            return self._single(values, "result")
        shown = [self.row(entity, row, state, is_whole=not outcome.is_list) for row in outcome.rows]
        if not outcome.is_list:
            return self._single(shown[0], spoken(entity.noun))
        return self._list(shown, entity, outcome)

    def row(self, entity: Entity, row: Row, state: State, *, is_whole: bool) -> Shown:
        """Return a row as the server shows it: its columns, or in lists the main ones."""
        shown: Shown = {}
        for field in entity.fields:
            if (is_whole or field.is_listed) and field.name in row and row[field.name] is not None:
                shown |= self._column(field, row[field.name], state)
        return shown

    def _column(self, field: Field, value: Any, state: State) -> Shown:
        argument = self._style.argument
        match field.kind:
            case Kind.REF:
                return self._reference(field.name, field.target, value, state)
            case Kind.LINES:
                count = argument(self._domain.theme.count)
                lines = [
                    {
                        **self._reference(self._domain.theme.thing, "thing", line["thing"], state),
                        count: line["count"],
                    }
                    for line in value
                ]
                return {argument(field.name): lines}
            case Kind.OBJECT:
                return {argument(field.name): {argument(key): inner for key, inner in value.items()}}
        return {argument(field.name): value}

    def _reference(self, name: str, target: str, row_id: Any, state: State) -> Shown:
        style, called = self._style, state.tables[target][row_id]["name"]
        if style.by_name or style.references is References.NAME:
            return {style.argument(name): called}
        if style.references is References.ID:
            return {style.argument(f"{name}_id"): row_id}
        if style.layout in (Layout.TABLE, Layout.CSV, Layout.LINES, Layout.PROSE):
            return {style.argument(f"{name}_id"): row_id, style.argument(f"{name}_name"): called}
        return {style.argument(name): {"id": row_id, "name": called}}

    def _single(self, shown: Shown, noun: str) -> str:
        writers: Mapping[Layout, Callable[[], str]] = {
            Layout.JSON: lambda: json.dumps(shown, ensure_ascii=False),
            Layout.PRETTY: lambda: json.dumps(shown, ensure_ascii=False, indent=2),
            Layout.WRAPPED: lambda: json.dumps({"status": "ok", "data": shown}, ensure_ascii=False),
            Layout.TABLE: lambda: _table([shown], " | "),
            Layout.CSV: lambda: _table([shown], ","),
            Layout.PROSE: lambda: _sentence(shown, noun),
            Layout.LINES: lambda: "\n".join(f"{key}: {_cell(value)}" for key, value in shown.items()),
        }
        return writers[self._style.layout]()

    def _list(self, shown: Sequence[Shown], entity: Entity, outcome: Outcome) -> str:
        many = plural(entity.noun)
        is_paged = outcome.num_pages > 1 or outcome.page > 1
        paging = {"total": outcome.total, "page": outcome.page, "pages": outcome.num_pages}
        match self._style.layout:
            case Layout.JSON:
                return json.dumps({self._style.argument(many): shown, **paging}, ensure_ascii=False)
            case Layout.PRETTY:
                return json.dumps(
                    {**paging, "results": shown} if is_paged else shown, ensure_ascii=False, indent=2
                )
            case Layout.WRAPPED:
                return json.dumps({"status": "ok", "data": shown, "meta": paging}, ensure_ascii=False)
        footer = f"page {outcome.page} of {outcome.num_pages}, {outcome.total} {spoken(many)} in all"
        if not shown:
            return f"no {spoken(many)}"
        writers: Mapping[Layout, Callable[[], str]] = {
            Layout.TABLE: lambda: _table(shown, " | "),
            Layout.CSV: lambda: _table(shown, ","),
            Layout.PROSE: lambda: "\n".join(_sentence(row, spoken(entity.noun)) for row in shown),
            Layout.LINES: lambda: "\n".join(
                "- " + "; ".join(f"{key}: {_cell(value)}" for key, value in row.items()) for row in shown
            ),
        }
        return f"{writers[self._style.layout]()}\n{footer}"


def _table(shown: Sequence[Shown], separator: str) -> str:
    columns = list(dict.fromkeys(key for row in shown for key in row))
    lines = [separator.join(columns)]
    if separator != ",":
        lines.append("-|-".join("-" * len(column) for column in columns))
    for row in shown:
        cells = [_cell(row.get(column, "")) for column in columns]
        if separator == ",":
            cells = [f'"{cell}"' if "," in cell else cell for cell in cells]
        lines.append(separator.join(cells))
    return "\n".join(lines)


def _sentence(shown: Shown, noun: str) -> str:
    facts = [f"{spoken(key)} {_cell(value)}" for key, value in shown.items() if key not in ("id", "name")]
    name = f" {shown['name']}" if "name" in shown else ""
    label = f"{noun.capitalize()}{name}" + (f" (id {shown['id']})" if "id" in shown else "")
    return f"{label}: {', '.join(facts)}." if facts else f"{label}."


def _cell(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list() if not value:
            return "none"
        case list():
            return "; ".join(map(_cell, value))
        case Mapping():
            return ", ".join(f"{key} {_cell(inner)}" for key, inner in value.items())
    return str(value)


def complaint_text(style: Style, refusal: Refusal, tool: str, cure: str) -> str:
    """Return the error as this server words it; `cure` is the name of the tool to call first."""
    sentence = f"{refusal.sentence} Call {cure} first." if cure else refusal.sentence
    match style.complaint:
        case Complaint.CODE:
            return f"{refusal.code.upper()}: {sentence}"
        case Complaint.JSON:
            return json.dumps({"error": {"code": refusal.code, "message": sentence}}, ensure_ascii=False)
        case Complaint.TRACEBACK:
            where = f'Traceback (most recent call last):\n  File "/srv/app/handlers.py", line 88, in {tool}'
            kind = "".join(word.title() for word in refusal.code.split("_"))
            return f"{where}\n    return self.store.apply(request)\n{kind}Error: {sentence}"
    return sentence
