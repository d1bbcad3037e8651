"""The style of a server: how it names tools and arguments, shows rows and words its descriptions."""

from dataclasses import dataclass
from enum import StrEnum

from turnwise.worlds.generated.operations import Operation
from turnwise.worlds.generated.vocabulary import plural, spoken
from turnwise.worlds.stream import Stream


class Layout(StrEnum):
    """How a result is written."""

    JSON = "json"
    PRETTY = "pretty"
    WRAPPED = "wrapped"
    TABLE = "table"
    CSV = "csv"
    PROSE = "prose"
    LINES = "lines"


class Complaint(StrEnum):
    """How an error is written."""

    SENTENCE = "sentence"
    CODE = "code"
    JSON = "json"
    TRACEBACK = "traceback"


class References(StrEnum):
    """How a row shows which row of another entity belongs to it."""

    ID = "id"
    NAME = "name"
    BOTH = "both"


_VERBS = {
    "list": ("list", "get_all", "query", "browse"),
    "get": ("get", "fetch", "show", "read"),
    "find": ("find", "search", "lookup"),
    "set": ("set", "change", "edit"),
    "update": ("update", "modify", "patch"),
    "create": ("create", "add", "new", "register"),
    "advance": ("advance", "move", "transition"),
    "cancel": ("cancel", "revoke", "withdraw"),
    "verify": ("verify", "confirm", "validate"),
    "convert": ("convert", "exchange"),
    "tell_facts": ("get", "show", "describe"),
    "open_session": ("open", "start", "begin"),
}
_OBJECTS = {"convert": ("currency", "amount", "price"), "tell_facts": ("policy", "settings", "info", "rules")}


@dataclass(frozen=True, slots=True)
class Style:
    """One server's habits."""

    case: str
    """snake, camel, kebab or dotted."""
    is_verb_last: bool
    prefix: str
    verbs: dict[str, str]
    objects: dict[str, str]
    has_camel_arguments: bool
    is_nested: bool
    by_name: bool
    """Whether arguments name a row by its name instead of its id; records have ids only."""
    ids: str
    """number, code or token."""
    references: References
    layout: Layout
    complaint: Complaint
    detail: str
    """Descriptions: none, terse, usual or long."""
    declares_enums: bool
    says_defaults: bool

    def tool_name(self, operation: Operation) -> str:
        """Return the tool's name: a verb and what it is done to, in the order and case of the server."""
        key = operation.key
        verb, rest = self.verbs[key], ""
        if operation.entity is not None:
            is_many = key in ("list", "find")
            rest = plural(operation.entity.noun) if is_many else operation.entity.noun
            rest += f"_{operation.field}" if operation.field else ("_status" if key == "advance" else "")
        else:
            rest = self.objects.get(key, "session")
        parts = [rest, verb] if self.is_verb_last else [verb, rest]
        match self.case:
            case "dotted":
                return f"{self.prefix}{rest}.{verb}"
            case "camel":
                return camel("_".join([self.prefix.rstrip("_"), *parts]).strip("_"))
            case "kebab":
                return f"{self.prefix}{'_'.join(parts)}".replace("_", "-")
        return f"{self.prefix}{'_'.join(parts)}"

    def argument(self, name: str) -> str:
        return camel(name) if self.has_camel_arguments else name

    def reference(self, noun: str, *, is_record: bool = False) -> str:
        """Return the name of an argument or column that names a row."""
        return self.argument(f"{noun}_name" if self.by_name and not is_record else f"{noun}_id")

    def new_id(self, noun: str, number: int) -> str | int:
        match self.ids:
            case "number":
                return 1001 + number * 7
            case "code":
                return f"{noun.replace('_', '')[:3].upper()}-{2001 + number * 3}"
        return f"{noun[:2]}_{(number * 7919 + 104_729) % 16_777_213:06x}"


def draw_style(stream: Stream, theme_name: str) -> Style:
    return Style(
        case=stream.pick(("snake", "snake", "camel", "kebab", "dotted")),
        is_verb_last=stream.unit() < 0.25,
        prefix=stream.pick(("", "", "", f"{theme_name}_")),
        verbs={key: stream.pick(verbs) for key, verbs in _VERBS.items()},
        objects={key: stream.pick(names) for key, names in _OBJECTS.items()},
        has_camel_arguments=stream.unit() < 0.3,
        is_nested=stream.unit() < 0.4,
        by_name=stream.unit() < 0.35,
        ids=stream.pick(("number", "code", "token")),
        references=stream.pick(tuple(References)),
        layout=stream.pick(tuple(Layout)),
        complaint=stream.pick(tuple(Complaint)),
        detail=stream.pick(("none", "terse", "usual", "usual", "long")),
        declares_enums=stream.unit() < 0.75,
        says_defaults=stream.unit() < 0.7,
    )


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


_SENTENCES = {
    "list": "Lists {many}.",
    "get": "Returns one {one} with all its fields.",
    "find": "Finds {many} by a part of the name.",
    "set": "Changes the {field} of one {one}.",
    "update": "Changes fields of one {one}; what is left out stays as it is.",
    "create": "Creates a {one}.",
    "advance": "Moves a {one} to another status.",
    "cancel": "Cancels a {one}.",
    "verify": "Marks a {one} as verified.",
    "convert": "Converts an amount of money from one currency to another at the house rate.",
    "tell_facts": "Returns the settings of this service.",
    "open_session": "Opens a session.",
}
_MORE = {
    "list": "Results come in pages where there are many; filters that are left out match everything.",
    "get": "Fails if there is no such {one}.",
    "find": "Upper and lower case are the same. An empty list means that nothing matches.",
    "advance": "Which statuses may follow is up to the service.",
    "create": "The new {one} is returned with its id and its first status.",
    "convert": "Rates are those of this service and differ from the market's.",
}


def description_of(style: Style, operation: Operation) -> str:
    """Return the tool's description, as long as the server's habit is."""
    noun = "" if operation.entity is None else operation.entity.noun
    words = {
        "one": spoken(noun),
        "many": spoken(plural(noun)) if noun else "",
        "field": spoken(operation.field),
    }
    sentence = _SENTENCES[operation.key].format(**words)
    match style.detail:
        case "none":
            return ""
        case "terse":
            return sentence.split(";")[0].rstrip(".")
        case "long":
            return f"{sentence} {_MORE.get(operation.key, 'The whole {one} is returned.').format(**words)}"
    return sentence
