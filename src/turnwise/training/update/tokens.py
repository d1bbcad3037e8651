"""What an update computed for every token, by sample, and the file it is written to.

Columns have one entry per own token, in the order they were sampled. A column of equal entries is stored as
one number, such as a sample's group advantage, or the ratios of a single optimizer step.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from turnwise.system.files.atomic_write import write_atomically
from turnwise.training.update.statistics import Trace
from turnwise.training.update.targets import Lesson

MAX_TOKENS = 65_536
"""The limit of one step, whatever the recipe asks for: diagnostics must not slow training down."""

_DIGITS = 4

Column = float | None | list[float | None]
"""None stands for NaN or infinity, which JSON does not have."""


@dataclass(frozen=True, slots=True)
class TokenFigures:
    """One sample's own tokens, as the last pass of the update scored them."""

    row: int
    """The index of its sample in the batch."""
    num_tokens: int
    old_logprobs: Column
    """π_old's, before the update."""
    logprobs: Column
    """π_θ's in the last pass, before the optimizer step that followed."""
    ratios: Column
    """As the loss used them; with GSPO the sequence's ratio."""
    advantages: Column
    clips: str
    """One sign per token: `.` active, clipped `l` low, `h` high or `d` dual, `x` dropped before the loss."""


def token_figures(lesson: Lesson, trace: Trace, num_groups: int) -> tuple[TokenFigures, ...]:
    """Return the figures of the first groups, up to MAX_TOKENS, without samples that no pass scored."""
    batch = lesson.batch
    first = {row for members in list(batch.groups.values())[:num_groups] for row in members}
    is_seen_B = trace.seen_BT.any(dim=1).tolist()
    rows = _that_fit([row for row in sorted(first) if is_seen_B[row]], batch.mask_BT)
    if not rows:
        return ()
    columns_CRT = torch.stack(
        [
            trace.old_logprobs_BT[rows],
            trace.logprobs_BT[rows],
            trace.ratio_BT[rows],
            lesson.targets.advantages_BT[rows],
            _signs(trace)[rows],
        ]
    )
    lengths = batch.mask_BT[rows].sum(dim=1).tolist()
    found = []
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        old, new, ratio, advantage = (_column(columns_CRT[number, place, :length]) for number in range(4))
        clips = "".join(".lhdx"[int(sign)] for sign in columns_CRT[4, place, :length].tolist())
        found.append(TokenFigures(row, length, old, new, ratio, advantage, clips))
    return tuple(found)


def write_tokens(path: Path, step: int, episodes: Sequence[str], found: Sequence[TokenFigures]) -> None:
    """Write one line per sample, named by its episode; the file appears complete or not at all."""
    lines = [
        {
            "kind": "tokens",
            "step": step,
            "episode": episodes[row.row],
            "num_tokens": row.num_tokens,
            "old": row.old_logprobs,
            "new": row.logprobs,
            "ratio": row.ratios,
            "advantage": row.advantages,
            "clip": row.clips,
        }
        for row in found
    ]
    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines)
    write_atomically(path, text.encode())


def _that_fit(rows: Sequence[int], mask_BT: Tensor) -> list[int]:
    num_left, fitting = MAX_TOKENS, []
    for row, length in zip(rows, mask_BT.sum(dim=1)[list(rows)].tolist(), strict=True):
        num_left -= length
        if num_left < 0:
            break
        fitting.append(row)
    return fitting


def _signs(trace: Trace) -> Tensor:
    """Return indices into `.lhdx`; a dropped token is `x`, whatever its ratio."""
    signs_BT = torch.zeros_like(trace.ratio_BT)
    for sign, where_BT in enumerate((trace.is_low_BT, trace.is_high_BT, trace.is_dual_BT), start=1):
        signs_BT[where_BT] = sign
    signs_BT[~trace.learnable_BT] = 4
    return signs_BT


def _column(values_T: Tensor) -> Column:
    scale = 10.0**_DIGITS
    # integers divided by 10^4 print with at most four digits; adding 0.0 turns -0.0 into 0.0
    rounded_T = (values_T.double() * scale).round() / scale + 0.0
    values: list[float | None] = rounded_T.tolist()
    if not bool(rounded_T.isfinite().all()):
        values = [
            value if is_number else None
            for value, is_number in zip(values, rounded_T.isfinite(), strict=True)
        ]
    return values[0] if values and values.count(values[0]) == len(values) else values
