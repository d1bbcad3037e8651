"""One episode in play: its turns, the calls that are carried out, and the probes after each exchange."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnwise.rollout.earlier_attempts import has_own_fault, judged, num_ended_alike
from turnwise.rollout.repetition import SAME_RESULT, find_repetition, is_known
from turnwise.tasks.user_side import UserMessage, UserSide, shown_reply
from turnwise.types import (
    Cause,
    Fault,
    FormatErrorKind,
    Mistake,
    ProbeResult,
    Stop,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    Trajectory,
    Turn,
)
from turnwise.types.protocols import PROBE_TOKENS, Toolbox, UserModel


@dataclass(frozen=True, slots=True)
class EpisodeRules:
    """What an episode tells the model about its mistakes, and which ones it mends or ends at.

    As they are here, the plain rules of evaluations: each mistake is reported, and nothing else happens.
    """

    has_hints: bool = False
    """Whether a malformed turn or a refused call is answered with what to write, too."""
    max_repeats: int = 0
    """Equal failing turns that end the episode, see `find_repetition`; 0: never."""
    marks_repeats: bool = False
    """Whether a result says that the same call gave it before."""
    mends_literals: bool = False
    """Whether a turn in which only Python's True, False and None are wrong is read as its calls."""


PLAIN = EpisodeRules()


class Conversation:
    """The turns of an episode so far. Players add turns; `advance` carries out the last one."""

    def __init__(
        self,
        task: Task,
        toolbox: Toolbox,
        *,
        episode_id: str,
        seed: int = 0,
        user_model: UserModel | None = None,
        rules: EpisodeRules = PLAIN,
        lost: Sequence[Trajectory] = (),
    ) -> None:
        """user_model: plays the user of a task with a `ModelUser`. lost: its attempts that were lost."""
        self.task = task
        self.toolbox = toolbox
        self.episode_id = episode_id
        self.seed = seed
        self.turns: list[Turn] = []
        self.probes: list[ProbeResult] = []
        self.endings: list[Stop] = []
        """How the exchanges before the current one ended."""
        self.last_reply = ""
        """What the environment said as it ended the episode."""
        self._user = UserSide(task, toolbox.tools)
        self._user_model = user_model
        self._rules = rules
        self.lost = lost

    @property
    def message(self) -> int:
        """The user message that the model works on, counted as in `Turn.message`."""
        return self._user.message

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model is offered now."""
        return self._user.tools

    async def advance(self) -> Stop | UserMessage | None:
        """Carry out the last turn: return why the episode ends, what the user says, or None after calls."""
        self.turns[-1], stop = await self._execute_calls(self.turns[-1])
        await self._report_mistake()
        if stop is not None:
            return stop
        message = self.message
        reply = await self._ask_user() if self._user.needs_model(self.turns[-1].parsed) else ""
        turn = self.turns[-1]
        ending, said = self._user.answer(turn.parsed, turn.results, reply)
        if ending is Stop.ANSWERED and said is None:
            ending, said = await self._hear(turn)
        if self.toolbox.environment.is_over:
            self.last_reply = said.text if said is not None else ""
            return Stop.ENDED
        if ending is None or said is None:
            is_over = ending is None and said is None and self._is_repeating()
            return Stop.REPEATED if is_over else ending or said
        failed = await self.probe(message)
        if failed is not None:
            return failed
        self.endings.append(ending)
        return said

    async def _ask_user(self) -> str:
        """Return what the user's model replies to the last turn. Raises UserDown."""
        if self.turns[-1].is_given:
            return shown_reply(self.task, len(self.turns) - 1, self.message)
        if self._user_model is None:
            raise ValueError(f"task {self.task.id!r}: user.kind is 'model', and no model plays the user")
        started = time.perf_counter()
        reply = await self._user_model.reply(
            self.task, self.turns, episode_id=self.episode_id, seed=self.seed
        )
        self.turns[-1] = replace(self.turns[-1], tool_seconds=time.perf_counter() - started)
        return reply

    async def _hear(self, turn: Turn) -> tuple[Stop | None, UserMessage | None]:
        """Return what the environment replies to a text that the user has no reply to."""
        started = time.perf_counter()
        environment = self.toolbox.environment
        reply = await environment.hear(turn.parsed.text)
        self.turns[-1] = replace(turn, tool_seconds=time.perf_counter() - started)
        return (None, self._user.say(reply, environment.offered)) if reply else (Stop.ANSWERED, None)

    async def _report_mistake(self) -> None:
        """Let the environment hear of a malformed turn; it may answer the model in its own words."""
        turn, error = self.turns[-1], self.turns[-1].parsed.error
        if error is None:
            return
        mistake = Mistake(error.kind, error.message, error.written or turn.parsed.text)
        words = await self.toolbox.environment.mistaken(mistake)
        if words:
            parsed = replace(turn.parsed, error=replace(error, message=words))
            self.turns[-1] = replace(turn, parsed=parsed)

    async def probe(self, message: int) -> Stop | None:
        """Read the state of the servers as the truth of a message asks; return a Stop if a server failed."""
        probes = self.task.truths[message].probes
        if not probes:
            return None
        calls = [ToolCall(f"probe.{n}", probe.tool, probe.arguments) for n, probe in enumerate(probes)]
        results = await self.toolbox.call(calls, max_tokens=PROBE_TOKENS)
        self.probes += [
            ProbeResult(probe, result.content, result.is_error, message)
            for probe, result in zip(probes, results, strict=True)
        ]
        faults = [result for result in results if result.fault is Fault.INFRA]
        if not faults:
            return None
        is_proven = all(result.is_provable for result in faults)
        is_own = is_proven and num_ended_alike(self.lost, self.turns, Stop.TOOL_DOWN) >= 2
        return Stop.BROKE_SERVER if is_own else Stop.TOOL_DOWN

    async def _execute_calls(self, turn: Turn) -> tuple[Turn, Stop | None]:
        """Make the calls of a turn; a Stop means that the episode ends with this turn."""
        turn = self._read_again(turn)
        parsed = turn.parsed
        if parsed.error is not None and parsed.error.kind is FormatErrorKind.TRUNCATED:
            return turn, Stop.TRUNCATED
        if parsed.error is not None or not parsed.calls:
            return turn, None
        started = time.perf_counter()
        results = judged(self.lost, [*self.turns[:-1], turn], await self._call(parsed.calls))
        taught = tuple(map(self._taught, parsed.calls, results))
        acted = replace(turn, results=taught, tool_seconds=time.perf_counter() - started)
        if any(result.fault is Fault.INFRA for result in results):
            return acted, Stop.TOOL_DOWN
        is_state_lost = any(loss.is_state_lost for loss in self.toolbox.losses)
        return acted, Stop.BROKE_SERVER if has_own_fault(results) and is_state_lost else None

    def _is_repeating(self) -> bool:
        most = self._rules.max_repeats
        return most > 0 and find_repetition(self.turns, most) is not None

    def _read_again(self, turn: Turn) -> Turn:
        """Return a malformed turn with its calls mended, or with what to write in the message."""
        parsed, error = turn.parsed, turn.parsed.error
        if error is None:
            return turn
        if self._rules.mends_literals and error.mended:
            number = len(self.turns) - 1
            calls = tuple(replace(call, id=f"{number}.{n}") for n, call in enumerate(error.mended))
            return replace(turn, parsed=replace(parsed, calls=calls, error=None, is_mended=True))
        if self._rules.has_hints and error.hint:
            hinted = replace(error, message=f"{error.message} {error.hint}", hint="")
            return replace(turn, parsed=replace(parsed, error=hinted))
        return turn

    def _taught(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result as the model reads it: with what to write, and whether it was read before."""
        content = result.content
        if self._rules.has_hints and result.hint:
            content = f"{content}\n{result.hint}"
        shown = replace(result, content=content)
        if self._rules.marks_repeats and is_known(call, shown, self.turns[:-1]):
            return replace(shown, content=f"{content}\n{SAME_RESULT}")
        return shown

    async def _call(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Make calls; one to a tool that is leased but not offered now is refused like any unknown tool."""
        offered = {tool.name for tool in self.tools}
        hidden = {tool.name for tool in self.toolbox.tools} - offered
        results = iter(await self.toolbox.call([call for call in calls if call.name not in hidden]))
        # The message names no tool that the model does not know.
        refusal = f"error: no such tool is offered now; the tools are {', '.join(sorted(offered)) or 'none'}"
        return [
            ToolResult(call.id, refusal, Cause.UNKNOWN_TOOL, seconds=0.0)
            if call.name in hidden
            else next(results)
            for call in calls
        ]
