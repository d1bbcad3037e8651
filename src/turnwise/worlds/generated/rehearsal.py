"""Rehearse a task on a copy of a world's state: what the plan calls, what comes back, what the user says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.tasks.proof.answers import looked_up
from turnwise.tasks.proof.case import Case, Conclusion, Exchange, PlanStep, Question, Results
from turnwise.tasks.proof.verification import TaskDraft
from turnwise.types import Answer, Difficulty, ExpectedWrite, Matcher, StateProbe, answer_of
from turnwise.worlds.generated.domain import Field, Kind
from turnwise.worlds.generated.operations import Outcome, Refusal
from turnwise.worlds.generated.state import Row, State
from turnwise.worlds.generated.tools import WorldTool
from turnwise.worlds.generated.world import World
from turnwise.worlds.stream import Stream


class Unfit(Exception):
    """The world has nothing that this kind of task could be about."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A value of a call or reply that nobody said or showed: how it follows from values that were."""

    value: Any
    how: str
    """count, sum, difference, product or next."""
    inputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """One call of the plan, and the text that it must return."""

    call: PlanStep
    sent: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class _Planned:
    """One user message and the plan for it."""

    message: str
    exchange: Exchange


@dataclass(slots=True)
class Rehearsal:
    """The plan of one task while it is written; every call is carried out at once."""

    world: World
    stream: Stream
    side: int = 0
    """Which side of a contrast pair this is."""
    state: State = field(init=False)
    derived: list[Derived] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    """Tools that are not offered with the first message."""
    planned: list[_Planned] = field(default_factory=list)
    guesses: list[Case] = field(default_factory=list)
    _turns: list[list[_Step]] = field(default_factory=list)
    _expected: list[str] = field(default_factory=list)
    _writes: list[ExpectedWrite] = field(default_factory=list)
    _changed: dict[tuple[str, Any], None] = field(default_factory=dict)
    _used: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = self.world.start.copy()

    def call(self, tool: WorldTool, *, same_turn: bool = False, **args: Any) -> Outcome:
        """Make a call that must succeed; `args` are those of the operation, rows by their ids."""
        sent = self.world.translator.styled(
            tool, self.state, {_plain(name): value for name, value in args.items()}
        )
        try:
            outcome = self.world.run(tool, self.state, sent)
        except Refusal as refusal:
            raise Unfit(f"{tool.name}: {refusal}") from None
        self._note(tool, sent, self.world.presenter.text(outcome, self.state), same_turn=same_turn)
        if not tool.operation.is_read_only:
            self._writes.append(ExpectedWrite(tool.name, sent))
            if outcome.entity is not None:
                self._changed[outcome.entity.key, outcome.rows[0]["id"]] = None
        return outcome

    def refused(self, tool: WorldTool, sent: Mapping[str, Any]) -> Refusal:
        """Make a call that a rule must refuse; `sent` are the styled arguments."""
        try:
            self.world.run(tool, self.state, sent)
        except Refusal as refusal:
            self._note(tool, sent, self.world.complaint(refusal, tool), is_refused=True)
            return refusal
        raise Unfit(f"{tool.name} is not refused")

    def styled(self, tool: WorldTool, **args: Any) -> dict[str, Any]:
        return self.world.translator.styled(
            tool, self.state, {_plain(name): value for name, value in args.items()}
        )

    def _note(
        self,
        tool: WorldTool,
        sent: Mapping[str, Any],
        text: str,
        *,
        is_refused: bool = False,
        same_turn: bool = False,
    ) -> None:
        step = _Step(PlanStep(tool.name, lambda _: sent, is_refused), sent, text)
        if same_turn and self._turns:
            self._turns[-1].append(step)
        else:
            self._turns.append([step])
        self._expected.append(text)
        self._used[tool.name] = None

    def finish(
        self,
        message: str,
        answer: Answer,
        text: str,
        *,
        question: Question | None = None,
        forbidden: Sequence[str] = (),
        tools: tuple[str, ...] | None = None,
    ) -> None:
        """End the exchange: the user's message, and the answer that the plan gives."""
        expected, writes = tuple(self._expected), tuple(self._writes)
        conclusion = Conclusion(answer, text, writes, self._probes())

        def conclude(results: Results) -> Conclusion:
            for place, wanted in enumerate(expected):
                if str(results[place]).removeprefix("error: ") != wanted:
                    raise ValueError(f"result {place} is not the rehearsed one, or is cut")
            return conclusion

        exchange = Exchange(
            form="",
            turns=tuple(tuple(step.call for step in turn) for turn in self._turns),
            conclude=conclude,
            tools=tools,
            question=question,
            min_tool_calls=int(any(not step.call.is_refused for turn in self._turns for step in turn)),
            forbidden_tools=tuple(forbidden),
        )
        self.planned.append(_Planned(message, exchange))
        self._turns, self._writes, self._changed = [], [], {}

    def _probes(self) -> tuple[StateProbe, ...]:
        """Return probes that show each changed row as it is now, through the tool that gets one."""
        probes = []
        for entity, row_id in self._changed:
            tool = self.world.tool("get", entity)
            sent = self.world.translator.styled(tool, self.state, {"ref": row_id})
            row = self.state.tables[entity][row_id]
            if self.world.start.tables[entity].get(row_id) == row:
                continue  # as it was at the start, so that the probe would hold before anything was done
            text = self.world.presenter.text(Outcome(self.world.domain.entities[entity], (row,)), self.state)
            probes.append(StateProbe(tool.name, sent, equals=text))
            self._used[tool.name] = None
        return tuple(probes)

    def case(self, *, is_guess: bool = False) -> Case:
        """Return the whole plan; a guess shares the prompt and must earn nothing."""
        first, later = self.planned[0].exchange, tuple(plan.exchange for plan in self.planned[1:])
        return Case(
            words={},
            form="",
            turns=first.turns,
            conclude=first.conclude,
            parse=str,
            tools=None if is_guess else self._offered(),
            question=None if is_guess else first.question,
            later=later,
            guesses=tuple(self.guesses),
            min_tool_calls=first.min_tool_calls,
            forbidden_tools=first.forbidden_tools,
            are_reads_open=True,
        )

    def _offered(self) -> tuple[str, ...]:
        """Return the plan's tools and some others in the world's order, without the hidden ones."""
        names = [tool.name for tool in self.world.tools]
        rest = [name for name in names if name not in self._used]
        others = set(self.stream.shuffled(rest)[: self.stream.integer(2, 8)])
        return tuple(
            name for name in names if (name in self._used or name in others) and name not in self.hidden
        )

    def draft(self, task_id: str, family: str, split: str) -> TaskDraft:
        num_turns = sum(len(plan.exchange.turns) + 1 + bool(plan.exchange.question) for plan in self.planned)
        return TaskDraft(
            task_id=task_id,
            family=family,
            split=split,
            difficulty=Difficulty.EASY
            if num_turns <= 3
            else Difficulty.MEDIUM
            if num_turns <= 6
            else Difficulty.HARD,
            servers=(self.world.name,),
            required_tools=(),
            messages=tuple(plan.message for plan in self.planned),
            case=self.case(),
            seed=0,
            world="",
            max_turns=num_turns + 4,
        )

    def pick_row(self, entity: str, fits: Any = None) -> Row:
        rows = [row for row in self.state.rows(entity) if fits is None or fits(row)]
        if not rows:
            raise Unfit(f"no {entity} fits")
        return self.stream.pick(rows)

    def tool(self, key: str, entity: str = "", field_name: str = "") -> WorldTool:
        try:
            return self.world.tool(key, entity, field_name)
        except LookupError as error:
            raise Unfit(str(error)) from None

    def derive(self, value: Any, how: str, *inputs: Any) -> Any:
        """Note that a value follows from others, and return it."""
        self.derived.append(Derived(value, how, inputs))
        return value

    def say(self, *phrasings: str, **words: Any) -> str:
        """Return one of the phrasings, filled in; which one depends on the task only."""
        return self.stream.pick(phrasings).format(**words)


def _plain(name: str) -> str:
    return name.removesuffix("_") if name == "from_" else name


def spoken_value(one: Field, value: Any) -> str:
    """Return a field's value as a short answer."""
    match one.kind:
        case Kind.BOOLEAN:
            return "yes" if value else "no"
        case Kind.LIST:
            return ", ".join(value) if value else "none"
    return str(value)


def answer_for(one: Field, value: Any) -> Answer:
    """Return the answer that states a field's value."""
    match one.kind:
        case Kind.NUMBER:
            return looked_up(float(value))
        case Kind.INTEGER:
            return answer_of(int(value))
    return Answer(spoken_value(one, value), Matcher.NORMALISED)
