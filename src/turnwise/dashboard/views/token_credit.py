"""Every token's part in the update: ratio, advantage and clipping."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.dashboard.index.index import Index
from turnwise.records.run_facts import ShownRecipe
from turnwise.training.algorithms import advantages

_OF_A_GROUP = {
    "mean": advantages.mean,
    "grpo": advantages.grpo,
    "rloo": advantages.rloo,
    "maxrl": advantages.maxrl,
}
"""Advantages computed from a group's rewards alone; others need the batch, values or turn rewards."""

_COLUMNS = {"old": "olds", "new": "news", "ratio": "ratios", "advantage": "advantages"}
"""Names in the line of the tokens file, and the page's names for the same columns."""


def traced(index: Index, row: Mapping[str, Any], lengths: Sequence[int]) -> list[dict[str, Any]] | None:
    """The logged columns, split by turn; `lengths` are the turns' numbers of sampled tokens.

    None if the run logged none for this episode, or if they do not match `lengths`.
    """
    if row["source"] != "train":
        return None
    with index.reading() as connection:
        place = connection.execute(
            "SELECT file, offset, length FROM traces WHERE step = ? AND episode = ?",
            (row["step"], row["episode"]),
        ).fetchone()
    if place is None:
        return None
    try:
        line = index.line(place["file"], place["offset"], place["length"])
        return _by_turn(line, lengths)
    except (LookupError, TypeError, ValueError):  # removed since it was indexed, or of another shape
        return None


def why_not(row: Mapping[str, Any]) -> str:
    """Explain why this episode has no logged token values."""
    if row["source"] != "train":
        return "episodes of an evaluation are not learned from"
    return "kept only of the first groups that a step learns from, not of this one"


def group_advantage(
    rows: Sequence[Mapping[str, Any]], episode: int, recipe: ShownRecipe
) -> tuple[float | None, str]:
    """The episode's advantage, computed from its group's rewards, and a note that says how.

    None and an empty note if the algorithm's advantage needs more than the rewards.
    """
    kind = recipe.algorithm.advantage
    if kind not in _OF_A_GROUP or recipe.algorithm.kl.placement == "reward":
        return None, ""
    [values] = _OF_A_GROUP[kind]([[row["reward"] for row in rows]])
    note = f"{kind}: from the rewards of its group of {len(rows)}, the same for every token"
    return values[[row["id"] for row in rows].index(episode)], note


def _by_turn(line: Mapping[str, Any], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Split a line's columns by turn. ValueError, KeyError or TypeError if the line does not match."""
    num, clips = sum(lengths), line["clip"]
    columns = {ours: _spread(line[theirs], num) for theirs, ours in _COLUMNS.items()}
    if line["num_tokens"] != num or len(clips) != num:
        raise ValueError("of another number of tokens")
    turns, end = [], 0
    for length in lengths:
        start, end = end, end + length
        turns.append(
            {name: column[start:end] for name, column in columns.items()} | {"clips": clips[start:end]}
        )
    return turns


def _spread(column: Any, num: int) -> list[float | None]:
    """The column as a list; a single number is repeated for every token."""
    values = column if isinstance(column, list) else [column] * num
    if len(values) != num:
        raise ValueError("of another number of tokens")
    return [None if value is None else float(value) for value in values]
