"""The recipe blocks for experiment trackers, which get metrics and episodes in addition to the run folder."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from turnwise.config.episodes import SECTION_CONFIG

KINDS = ("wandb", "weave", "tensorboard", "trackio")
"""Built-in trackers; every one is an extra of the same name."""

_OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    "project": ("wandb", "weave", "trackio"),
    "artifacts": ("wandb",),
    "space": ("trackio",),
}
"""Keys that only some kinds use; a tracker of your own has `options` instead."""


class TrackerConfig(BaseModel):
    """One tracker; see docs/guides/trackers.md."""

    model_config = SECTION_CONFIG

    kind: str
    """wandb, weave, tensorboard or trackio; or your own as `module:Class`."""
    project: str = ""
    """Name of the project, for wandb and weave also OWNER/PROJECT; empty: WANDB_PROJECT or WEAVE_PROJECT,
    else `turnwise`."""
    artifacts: Literal["none", "files", "checkpoint"] = "files"
    """wandb: what is uploaded at the end; files: recipe, versions, metrics, evaluations; checkpoint: also the
    last checkpoint, which may be large."""
    space: str = ""
    """trackio: a Space on the Hugging Face hub; empty: this machine, without network."""
    episodes_per_step: int = Field(default=16, ge=0)
    """Number of episodes sent per step, the first ones, and 16 times as many per evaluation; the run folder
    has all."""
    close_seconds: float = Field(default=30.0, ge=0)
    """Maximum wait at the end of a run for records that are still queued."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of a tracker of your own."""

    @property
    def episodes_per_evaluation(self) -> int:
        """Number of episodes sent per evaluation; its metrics always cover all."""
        return 16 * self.episodes_per_step

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> "TrackerConfig":
        is_own = self.kind not in KINDS
        if is_own and not all(self.kind.partition(":")):
            near = difflib.get_close_matches(self.kind, KINDS, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"kind {self.kind!r} is not one of {', '.join(KINDS)}, nor module:Class{hint}")
        for key, kinds in _OPTIONS_OF.items():
            if self.kind not in kinds and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} is an option of {' and '.join(kinds)}, not of {self.kind}")
        if self.options and not is_own:
            raise ValueError(f"options are for trackers of your own, not for {self.kind}")
        return self


def _as_blocks(value: Any) -> Any:
    """Expand the short forms `"wandb"` and `["wandb", …]` to blocks with only a kind."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        return value
    return [{"kind": block} if isinstance(block, str) else block for block in value]


def _unique_kinds(trackers: tuple[TrackerConfig, ...]) -> tuple[TrackerConfig, ...]:
    kinds = [tracker.kind for tracker in trackers]
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)}: named more than once")
    return trackers


Trackers = Annotated[tuple[TrackerConfig, ...], BeforeValidator(_as_blocks), AfterValidator(_unique_kinds)]
"""Any number of trackers, at most one per kind."""
