"""The user of a task: what is said after each turn of the model, and which tools are offered."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.system.bounded_regex import is_match
from turnwise.types import (
    END_WORD,
    Cause,
    ModelUser,
    Parsed,
    ScriptedUser,
    Stop,
    Task,
    Tool,
    ToolResult,
    Turn,
)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says, and the tools that appear or disappear with it."""

    text: str
    added: tuple[Tool, ...] = ()
    withdrawn: tuple[Tool, ...] = ()


class UserSide:
    """Plays the user of one episode. It calls no tools and no model, so demonstrations use it too."""

    def __init__(self, task: Task, tools: Sequence[Tool]) -> None:
        self._task = task
        self._tools = tuple(tools)
        self.message = 0
        """The user message that the model works on, counted as in `Turn.message`."""
        self._num_replies: Counter[int] = Counter()
        """Replies so far, by the number of the rule; a user that a model plays has one."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model is offered now."""
        patterns = self._task.tools_at(self.message)
        return tuple(tool for tool in self._tools if tool.is_named_by(patterns))

    def say(self, text: str, offered: Sequence[Tool] | None) -> UserMessage:
        """Return what an environment says, with the tools that it offers from now on; None: the same ones."""
        before = self.tools
        if offered is not None:
            self._tools = tuple(offered)
        return self._with_tools(text, before)

    def needs_model(self, parsed: Parsed) -> bool:
        """Whether `answer` needs what the model that plays the user replies to this turn."""
        user = self._task.user
        if not isinstance(user, ModelUser) or parsed.error is not None or parsed.calls:
            return False
        return self._num_replies.total() < user.max_replies

    def answer(
        self, parsed: Parsed, results: Sequence[ToolResult], reply: str = ""
    ) -> tuple[Stop | None, UserMessage | None]:
        """Return how the exchange ended (None if it goes on) and what the user says now, if anything.

        `reply`: what the user's model says, if `needs_model`.
        """
        if parsed.error is not None:
            return None, None
        if self.needs_model(parsed):
            if END_WORD in reply:
                return Stop.ENDED_BY_USER, self._next_message()
            self._num_replies[0] += 1
            return None, UserMessage(reply)
        if not parsed.calls:
            said = self._scripted_reply(parsed.text)
            return (None, said) if said is not None else (Stop.ANSWERED, self._next_message())
        closing = self._task.truths[self.message].ends_with
        pairs = zip(parsed.calls, results, strict=False)
        if any(call.name == closing and not result.is_error for call, result in pairs):
            return Stop.ENDED_BY_CALL, self._next_message()
        return None, None

    def answer_shown(self, number: int) -> tuple[Stop | None, UserMessage | None]:
        """As `answer`, for turn `number` of the demonstration; calls without results count as successful."""
        turn = self._task.demonstration[number]
        results = turn.results or tuple(ToolResult(call.id, "", Cause.OK, 0.0) for call in turn.calls)
        reply = shown_reply(self._task, number, self.message)
        return self.answer(Parsed(turn.text, calls=turn.calls), results, reply)

    def _scripted_reply(self, text: str) -> UserMessage | None:
        """Return what the scripted user replies to a text; None if the text is the answer."""
        user = self._task.user
        if not isinstance(user, ScriptedUser) or self._num_replies.total() >= user.max_replies:
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
        return self._with_tools(follow_up.message, before)

    def _with_tools(self, text: str, before: Sequence[Tool]) -> UserMessage:
        return UserMessage(
            text,
            added=tuple(tool for tool in self.tools if tool not in before),
            withdrawn=tuple(tool for tool in before if tool not in self.tools),
        )


def shown_reply(task: Task, number: int, message: int) -> str:
    """Return what a `ModelUser` says after turn `number` of the demonstration, during this message.

    It is the `user` of the next turn. The exchange ends if that is empty, or is the task's next message.
    """
    said = "".join(turn.user for turn in task.demonstration[number + 1 : number + 2])
    is_next_message = said in [follow_up.message for follow_up in task.conversation[message : message + 1]]
    return END_WORD if not said or is_next_message else said


class DemonstratedUser:
    """Says what the user says in the task's demonstration; see `protocols.UserModel`."""

    async def reply(self, task: Task, turns: Sequence[Turn], *, episode_id: str, seed: int) -> str:
        del episode_id, seed
        return shown_reply(task, len(turns) - 1, turns[-1].message)
