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
    "entity": ("wandb", "weave"),
    "mode": ("wandb",),
    "tags": ("wandb",),
    "artifacts": ("wandb",),
    "space": ("trackio",),
}
"""Keys that only some kinds use; a tracker of your own has `options` instead."""


class TrackerConfig(BaseModel):
    """One tracker; see docs/trackers.md."""

    model_config = SECTION_CONFIG

    kind: str
    """wandb, weave, tensorboard or trackio; or your own as `module:Class`."""
    project: str = ""
    """Project name; empty: WANDB_PROJECT or WEAVE_PROJECT, else `turnwise`."""
    entity: str = ""
    """wandb, weave: owner of the project; empty: WANDB_ENTITY, else your account."""
    name: str = ""
    """Name of the run in the tracker; empty: the name of the run folder."""
    mode: Literal["", "online", "offline"] = ""
    """wandb: offline needs no network and no key, and `wandb sync` uploads later; empty: WANDB_MODE, else
    online."""
    tags: tuple[str, ...] = ()
    """wandb: tags of the run."""
    artifacts: Literal["none", "files", "checkpoint"] = "files"
    """wandb: what is uploaded at the end; files: recipe, versions, metrics, evaluations; checkpoint: also the
    last checkpoint, which may be large."""
    space: str = ""
    """trackio: a Space on the Hugging Face hub; empty: this machine, without network."""
    episodes_per_step: int = Field(default=16, ge=0)
    """Number of episodes sent per step, the first ones; the run folder has all."""
    episodes_per_evaluation: int = Field(default=256, ge=0)
    """Number of episodes sent per evaluation; its metrics always cover all."""
    max_waiting: int = Field(default=4_096, ge=1)
    """Maximum queue of records and episodes for a slow tracker; the excess is dropped and counted."""
    close_seconds: float = Field(default=30.0, ge=0)
    """Maximum wait at the end of a run for records that are still queued."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of a tracker of your own."""

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
        if self.max_waiting <= max(self.episodes_per_step, self.episodes_per_evaluation):
            raise ValueError(
                f"max_waiting {self.max_waiting} has no room for the {self.episodes_per_step} episodes of a "
                f"step or the {self.episodes_per_evaluation} of an evaluation"
            )
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
