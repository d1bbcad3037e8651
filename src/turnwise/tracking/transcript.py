"""An episode as plain text, for trackers without a view of conversations."""

from turnwise.tracking.records import Episode, Said


def transcript(episode: Episode) -> str:
    outcome = "success" if episode.is_success else "no success"
    parts = ", ".join(f"{name} {value:g}" for name, value in episode.parts.items())
    head = (
        f"{episode.task_id} · {episode.id}\n"
        f"{outcome} · reward {episode.reward:g} ({parts}) · {episode.stop} · {episode.num_turns} turns · "
        f"{episode.num_calls} calls · {episode.num_tokens} tokens · {episode.seconds:.2f} s"
    )
    return "\n\n".join([head, *(_message(said) for said in episode.said)])


def _message(said: Said) -> str:
    label = f"{said.role} {said.name}".strip()
    if said.role == "tool":
        label += f" ({'error, ' if said.is_error else ''}{said.seconds * 1000:.0f} ms)"
    calls = [f"→ {call.name} {call.arguments}" for call in said.calls]
    return "\n".join([f"[{label}]", *([said.content] if said.content else []), *calls])
