"""The user of a task: what is said after each turn of the model, and which tools are offered."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.runtime.bounded_regex import is_match
from turnwise.types import Cause, DemoTurn, Parsed, Stop, Task, Tool, ToolResult


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says, and the tools that appear or disappear with it."""

    text: str
    added: tuple[Tool, ...] = ()
    withdrawn: tuple[Tool, ...] = ()


class UserSide:
    """Plays the user of one episode. It calls no tools, so demonstrations use it too."""

    def __init__(self, task: Task, tools: Sequence[Tool]) -> None:
        self._task = task
        self._tools = tuple(tools)
        self.message = 0
        """The user message that the model works on, counted as in `Turn.message`."""
        self._num_replies: Counter[int] = Counter()
        """Replies so far, by the number of the rule."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model is offered now."""
        patterns = self._task.tools_at(self.message)
        return tuple(tool for tool in self._tools if tool.is_named_by(patterns))

    def answer(self, parsed: Parsed, results: Sequence[ToolResult]) -> tuple[Stop | None, UserMessage | None]:
        """Return how the exchange ended (None if it goes on) and what the user says now, if anything."""
        if parsed.error is not None:
            return None, None
        if not parsed.calls:
            reply = self._reply(parsed.text)
            return (None, reply) if reply is not None else (Stop.ANSWERED, self._next_message())
        closing = self._task.truths[self.message].ends_with
        pairs = zip(parsed.calls, results, strict=False)
        if any(call.name == closing and not result.is_error for call, result in pairs):
            return Stop.ENDED_BY_CALL, self._next_message()
        return None, None

    def answer_shown(self, turn: DemoTurn) -> tuple[Stop | None, UserMessage | None]:
        """As `answer`, for a turn of a demonstration; calls without results count as successful."""
        results = turn.results or tuple(ToolResult(call.id, "", Cause.OK, 0.0) for call in turn.calls)
        return self.answer(Parsed(turn.text, calls=turn.calls), results)

    def _reply(self, text: str) -> UserMessage | None:
        """Return what the scripted user replies to a text; None if the text is the answer."""
        user = self._task.user
        if user is None or self._num_replies.total() >= user.max_replies:
            return None
        for number, rule in enumerate(user.rules):
            is_left = self._num_replies[number] < rule.times
            if is_left and is_match(rule.when, text, is_whole=False):
                self._num_replies[number] += 1
                return UserMessage(rule.say)
        return None

    def _next_message(self) -> UserMessage | None:
        """Go on to the next message of the task; None if there is none."""
        if self.message == len(self._task.conversation):
            return None
        before = self.tools
        follow_up = self._task.conversation[self.message]
        self.message += 1
        return UserMessage(
            follow_up.message,
            added=tuple(tool for tool in self.tools if tool not in before),
            withdrawn=tuple(tool for tool in before if tool not in self.tools),
        )
