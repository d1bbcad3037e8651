"""Print an episode to a terminal: every turn with its calls, results, times and faults."""

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from turnwise.rewards import succeeded
from turnwise.rewards.outcome import is_decidable, successes_of
from turnwise.rollout.store import StoredEpisode
from turnwise.system.terminal import printable
from turnwise.types import Trajectory, Turn

_RESULT_CHARS = 600
_TEXT_CHARS = 2_000
_NAME_CHARS = 200


def print_episode(played: StoredEpisode, console: Console) -> None:
    """Print the episode; output of models and tools is plain text, never markup or escape sequences."""
    trajectory, reward = played.trajectory, played.reward
    body: list[Text] = [_line(message.role, message.content, "bold") for message in trajectory.task.prompt]
    for number, turn in enumerate(trajectory.turns, start=1):
        body.extend(_turn(number, turn))
    if trajectory.last_reply:
        body.append(_line("environment, at the end", trajectory.last_reply, "bold"))
    body.extend(_line(_name(name), note, "dim") for name, note in trajectory.notes.items())
    parts = ", ".join(f"{_name(name)} {value:g}" for name, value in reward.parts.items())
    num_tokens = sum(len(turn.completion.token_ids) for turn in trajectory.turns)
    body.append(
        Text(
            f"{trajectory.stop}{_messages(trajectory)} · reward {reward.total:g} ({parts}) · "
            f"{len(trajectory.turns)} turns · {num_tokens} tokens sampled · {trajectory.seconds:.2f} s",
            style="dim",
        )
    )
    title = Text(f"{_name(trajectory.task.id)} · {_name(trajectory.episode_id)}")
    style = "green" if succeeded(trajectory, reward) else "red"
    console.print(Panel(Group(*body), title=title, title_align="left", border_style=style))


def _messages(trajectory: Trajectory) -> str:
    """Say how many messages of a conversation succeeded; nothing about other tasks."""
    task = trajectory.task
    if not task.conversation or not is_decidable(task):
        return ""
    successes = successes_of(trajectory)
    return f" · {sum(successes)} of {len(successes)} messages"


def _turn(number: int, turn: Turn) -> list[Text]:
    lines = []
    parsed = turn.parsed
    if turn.user:
        lines.append(_line("user", turn.user, "bold"))
    if parsed.reasoning:
        lines.append(_line(f"{number} thought", parsed.reasoning, "italic dim"))
    if parsed.text:
        speaker = "plan" if turn.is_given else "model"
        lines.append(_line(f"{number} {speaker}", parsed.text, "cyan"))
    if parsed.error is not None:
        lines.append(_line(f"{number} {parsed.error.kind}", parsed.error.message, "red"))
    for position, call in enumerate(parsed.calls):
        label = "call of the plan" if turn.is_given else "call"
        lines.append(_line(f"{number} {label}", f"{call.name} {dict(call.arguments)!r}", "cyan"))
        if position < len(turn.results):
            result = turn.results[position]
            note = f"{number} {result.cause}, {result.seconds * 1000:.0f} ms"
            lines.append(_line(note, result.content, "red" if result.is_error else "green", _RESULT_CHARS))
    return lines


def _name(text: str) -> str:
    return printable(text[:_NAME_CHARS]).replace("\n", " ")


def _line(label: str, content: str, style: str, max_chars: int = _TEXT_CHARS) -> Text:
    rest = f" … {len(content) - max_chars:,} more characters" if len(content) > max_chars else ""
    return Text.assemble((f"{label}: ", "dim"), (printable(content[:max_chars]), style), (rest, "dim"))
