"""Convert one row of a task file to a `Task` and back; a `RowError` names the field."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from turnwise.types import (
    Answer,
    Cause,
    DemoTurn,
    Difficulty,
    ExpectedWrite,
    FollowUp,
    Matcher,
    Message,
    ModelUser,
    ScriptedUser,
    StateProbe,
    Task,
    ToolCall,
    ToolResult,
    Truth,
    UserRule,
    answer_of,
)

_SHOWN_CHARS = 120


class RowError(ValueError):
    """A mistake in a row: the field, and a message that gives the reason and the value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


def shown(value: object) -> str:
    """Return a value's repr for an error message, cut after 120 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


class _Row(BaseModel):
    # Strict: "3" is not accepted as a number, nor 0 as text.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _MessageRow(_Row):
    role: str
    content: str

    def build(self) -> Message:
        return Message(self.role, self.content)


class _AnswerRow(_Row):
    value: Any
    matcher: Annotated[Matcher, Field(strict=False)] = Matcher.NORMALISED
    tolerance: float | None = None
    unit: str = ""

    def build(self) -> Answer:
        return Answer(self.value, self.matcher, self.tolerance, self.unit)


class _WriteRow(_Row):
    tool: str
    arguments: dict[str, Any]

    def build(self) -> ExpectedWrite:
        return ExpectedWrite(self.tool, self.arguments)


class _ProbeRow(_Row):
    tool: str
    arguments: dict[str, Any]
    contains: str = ""
    lacks: str = ""
    equals: str = ""

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if not self.model_fields_set & {"contains", "lacks", "equals"}:
            raise ValueError("needs a text that the answer `contains`, `lacks` or `equals`")
        return self

    def build(self) -> StateProbe:
        return StateProbe(self.tool, self.arguments, self.contains, self.lacks, self.equals)


class _TruthRow(_Row):
    answer: _AnswerRow | None = None
    writes: list[_WriteRow] | None = None
    probes: list[_ProbeRow] = []
    required_tools: list[str] = []
    min_tool_calls: Annotated[int, Field(ge=0)] = 0
    forbidden_tools: list[str] = []
    milestones: list[str] = []
    rubric: str = ""
    ends_with: str = ""

    def build(self) -> Truth:
        return Truth(
            answer=None if self.answer is None else self.answer.build(),
            writes=None if self.writes is None else tuple(row.build() for row in self.writes),
            probes=tuple(row.build() for row in self.probes),
            required_tools=tuple(self.required_tools),
            min_tool_calls=self.min_tool_calls,
            forbidden_tools=tuple(self.forbidden_tools),
            milestones=tuple(self.milestones),
            rubric=self.rubric,
            ends_with=self.ends_with,
        )


def _with_truth(row: Any) -> Any:
    """Write the short form `answer` of a row out as `truth`."""
    if not isinstance(row, Mapping) or "answer" not in row or "truth" in row:
        return row
    full = dict(row)
    value = full.pop("answer")
    is_block = isinstance(value, Mapping) and "value" in value
    return full | {"truth": {"answer": value if is_block else _answer_row(answer_of(value))}}


class _FollowUpRow(_Row):
    message: str
    truth: _TruthRow = _TruthRow()
    tools: list[str] | None = None

    def build(self) -> FollowUp:
        return FollowUp(self.message, self.truth.build(), None if self.tools is None else tuple(self.tools))


class _RuleRow(_Row):
    when: str
    say: str
    times: Annotated[int, Field(ge=1)] = 1

    def build(self) -> UserRule:
        return UserRule(self.when, self.say, self.times)


class _ScriptedUserRow(_Row):
    kind: Literal["scripted"]
    rules: Annotated[list[_RuleRow], Field(min_length=1)]
    max_replies: Annotated[int, Field(ge=1)] = 8

    def build(self) -> ScriptedUser:
        return ScriptedUser(tuple(row.build() for row in self.rules), self.max_replies)


class _ModelUserRow(_Row):
    kind: Literal["model"]
    persona: str
    goal: str
    max_replies: Annotated[int, Field(ge=1)] = 8

    def build(self) -> ModelUser:
        return ModelUser(self.persona, self.goal, self.max_replies)


class _CallRow(_Row):
    id: str = ""
    name: str
    arguments: dict[str, Any]

    def build(self, default_id: str) -> ToolCall:
        return ToolCall(self.id or default_id, self.name, self.arguments)


class _ResultRow(_Row):
    call_id: str
    content: str
    cause: Annotated[Cause, Field(strict=False)] = Cause.OK
    seconds: float = 0.0
    num_retries: int = 0
    repairs: list[str] = []
    is_replayed: bool = False

    def build(self) -> ToolResult:
        return ToolResult(
            call_id=self.call_id,
            content=self.content,
            cause=self.cause,
            seconds=self.seconds,
            num_retries=self.num_retries,
            repairs=tuple(self.repairs),
            is_replayed=self.is_replayed,
        )


class _DemoTurnRow(_Row):
    user: str = ""
    text: str = ""
    calls: list[_CallRow] = []
    results: list[_ResultRow] = []

    def build(self, number: int) -> DemoTurn:
        calls = tuple(row.build(f"{number}.{position}") for position, row in enumerate(self.calls))
        return DemoTurn(self.text, calls, tuple(row.build() for row in self.results), self.user)


def _messages(prompt: Any) -> Any:
    """Turn a prompt that is plain text into one user message."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


class _TaskRow(_Row):
    id: Annotated[str, Field(min_length=1)] | None = None
    prompt: Annotated[list[_MessageRow], BeforeValidator(_messages)]
    servers: list[str] = []
    truth: _TruthRow = _TruthRow()
    tools: list[str] | None = None
    difficulty: Annotated[Difficulty, Field(strict=False)] = Difficulty.MEDIUM
    max_turns: Annotated[int, Field(ge=1)] | None = None
    seed: int = 0
    family: str = ""
    split: str = "train"
    world: str = ""
    demonstration: list[_DemoTurnRow] = []
    conversation: list[Annotated[_FollowUpRow, BeforeValidator(_with_truth)]] = []
    user: Annotated[_ScriptedUserRow | _ModelUserRow, Field(discriminator="kind")] | None = None

    def build(self) -> Task:
        return Task(
            id=self.id or "",
            prompt=tuple(row.build() for row in self.prompt),
            servers=tuple(self.servers),
            truth=self.truth.build(),
            tools=None if self.tools is None else tuple(self.tools),
            difficulty=self.difficulty,
            max_turns=self.max_turns,
            seed=self.seed,
            family=self.family,
            split=self.split,
            world=self.world,
            demonstration=tuple(row.build(number) for number, row in enumerate(self.demonstration)),
            conversation=tuple(row.build() for row in self.conversation),
            user=None if self.user is None else self.user.build(),
        )


def task_of(row: Mapping[str, Any]) -> Task:
    """Build a task from a row of our own schema; RowError reports the first mistake.

    A row may also be `{"question": …, "answer": …}`. Without an `id` the task has none yet: see `tasks.ids`.
    """
    try:
        return _TaskRow.model_validate(_in_full(row)).build()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        value = "" if first["type"] == "missing" else f", got {shown(first['input'])}"
        raise RowError(_field(first["loc"], first["type"]), f"{first['msg']}{value}") from None


def _field(place: tuple[int | str, ...], kind: str) -> str:
    """Return where an error is; pydantic writes the value of user.kind into the place."""
    if kind.startswith("union_tag"):
        place = (*place, "kind")
    elif place[0] == "user":
        place = (*place[:1], *place[2:])
    return ".".join(str(part) for part in place)


def _in_full(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with the short forms `question` and `answer` written out as `prompt` and `truth`."""
    full = dict(row)
    if "question" in full and "prompt" not in full:
        full["prompt"] = full.pop("question")
    return dict(_with_truth(full))


def _answer_row(answer: Answer) -> dict[str, Any]:
    row = {"value": answer.value, "matcher": str(answer.matcher), "unit": answer.unit}
    return row if answer.tolerance is None else {**row, "tolerance": answer.tolerance}


def row_of(task: Task) -> dict[str, Any]:
    """Return a task as JSON values, without empty fields; `task_of` restores an equal task."""
    row: dict[str, Any] = {
        "id": task.id,
        "family": task.family,
        "split": task.split,
        "world": task.world,
        "difficulty": str(task.difficulty),
        "prompt": [{"role": message.role, "content": message.content} for message in task.prompt],
        "servers": list(task.servers),
        "tools": None if task.tools is None else list(task.tools),
        "max_turns": task.max_turns,
        "seed": task.seed,
        "truth": _truth_row(task.truth),
        "conversation": [_follow_up_row(follow_up) for follow_up in task.conversation],
        "user": None if task.user is None else _user_row(task.user),
        "demonstration": [_demo_row(turn) for turn in task.demonstration],
    }
    empty: dict[str, Any] = {
        "family": "",
        "world": "",
        "tools": None,
        "max_turns": None,
        "seed": 0,
        "conversation": [],
        "user": None,
        "demonstration": [],
    }
    return {key: value for key, value in row.items() if key not in empty or value != empty[key]}


def _truth_row(truth: Truth) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if truth.answer is not None:
        row["answer"] = _answer_row(truth.answer)
    if truth.writes is not None:
        # Kept if empty: () forbids every change, None checks nothing.
        row["writes"] = [{"tool": write.tool, "arguments": dict(write.arguments)} for write in truth.writes]
    row["probes"] = [_probe_row(probe) for probe in truth.probes]
    row["required_tools"] = list(truth.required_tools)
    row["min_tool_calls"] = truth.min_tool_calls
    row["forbidden_tools"] = list(truth.forbidden_tools)
    row["milestones"] = list(truth.milestones)
    row["rubric"] = truth.rubric
    row["ends_with"] = truth.ends_with
    return {key: value for key, value in row.items() if value or key == "writes"}


def _follow_up_row(follow_up: FollowUp) -> dict[str, Any]:
    row: dict[str, Any] = {"message": follow_up.message, "truth": _truth_row(follow_up.truth)}
    return row if follow_up.tools is None else row | {"tools": list(follow_up.tools)}


def _user_row(user: ScriptedUser | ModelUser) -> dict[str, Any]:
    if isinstance(user, ModelUser):
        return {"kind": "model", **asdict(user)}
    rules = [{"when": rule.when, "say": rule.say, "times": rule.times} for rule in user.rules]
    return {"kind": "scripted", "rules": rules, "max_replies": user.max_replies}


def _probe_row(probe: StateProbe) -> dict[str, Any]:
    row = {"tool": probe.tool, "arguments": dict(probe.arguments)}
    texts = {"contains": probe.contains, "lacks": probe.lacks, "equals": probe.equals}
    return row | ({name: text for name, text in texts.items() if text} or {"contains": ""})


def _demo_row(turn: DemoTurn) -> dict[str, Any]:
    row: dict[str, Any] = {"user": turn.user} if turn.user else {}
    row["text"] = turn.text
    if turn.calls:
        row["calls"] = [
            {"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in turn.calls
        ]
    if turn.results:
        row["results"] = [_result_row(result) for result in turn.results]
    return row


def _result_row(result: ToolResult) -> dict[str, Any]:
    row: dict[str, Any] = {
        "call_id": result.call_id,
        "content": result.content,
        "cause": str(result.cause),
        "seconds": result.seconds,
    }
    if result.num_retries:
        row["num_retries"] = result.num_retries
    if result.repairs:
        row["repairs"] = list(result.repairs)
    if result.is_replayed:
        row["is_replayed"] = True
    return row
