"""The blocks of a recipe that say where else a run's figures and episodes go, besides its own folder."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from turnwise.config.playing import STRICT

KINDS = ("wandb", "weave", "tensorboard", "trackio")
"""Those that come with turnwise; each is an extra of the same name."""

_OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    "project": ("wandb", "weave", "trackio"),
    "entity": ("wandb", "weave"),
    "mode": ("wandb",),
    "tags": ("wandb",),
    "artifacts": ("wandb",),
    "space": ("trackio",),
}
"""What only some kinds have a use for; your own have `options` instead."""


class TrackerConfig(BaseModel):
    """One tracker; see docs/trackers.md."""

    model_config = STRICT

    kind: str
    """wandb, weave, tensorboard or trackio; or `module:Class` of your own."""
    project: str = ""
    """Empty: WANDB_PROJECT or WEAVE_PROJECT, else `turnwise`."""
    entity: str = ""
    """wandb, weave: whose project it is; empty: your own, or WANDB_ENTITY."""
    name: str = ""
    """Of the run there; empty: the run folder's."""
    mode: Literal["", "online", "offline"] = ""
    """wandb: offline needs no network and no key, `wandb sync` sends it later; empty: WANDB_MODE, else
    online."""
    tags: tuple[str, ...] = ()
    """wandb: to find the run by."""
    artifacts: Literal["none", "files", "checkpoint"] = "files"
    """wandb: what is kept there of the folder at the end; files: recipe, versions, figures, evaluations;
    checkpoint: the last one too, which may be large."""
    space: str = ""
    """trackio: a Space on the Hugging Face hub; empty: this machine, without any network."""
    episodes_per_step: int = Field(default=16, ge=0)
    """Of each step's episodes, the first so many are sent, whole; a run's folder has them all."""
    episodes_per_evaluation: int = Field(default=256, ge=0)
    """The same for an evaluation, whose figures are always of all."""
    max_waiting: int = Field(default=4_096, ge=1)
    """Records and episodes that may wait for a slow tracker; what comes on top is dropped and counted."""
    close_seconds: float = Field(default=30.0, ge=0)
    """How long the end of a run waits at most for what is still to be written."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Passed to your own."""

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> "TrackerConfig":
        is_own = self.kind not in KINDS
        if is_own and not all(self.kind.partition(":")):
            near = difflib.get_close_matches(self.kind, KINDS, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"kind {self.kind!r} is none of {', '.join(KINDS)}, nor module:Class{hint}")
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


def _as_blocks(given: Any) -> Any:
    """`"wandb"` and `["wandb", …]` are short for blocks with nothing but the kind."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list | tuple):
        return given
    return [{"kind": each} if isinstance(each, str) else each for each in given]


def _once_each(trackers: tuple[TrackerConfig, ...]) -> tuple[TrackerConfig, ...]:
    kinds = [tracker.kind for tracker in trackers]
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)}: named more than once")
    return trackers


Trackers = Annotated[tuple[TrackerConfig, ...], BeforeValidator(_as_blocks), AfterValidator(_once_each)]
"""Any number of them, each kind once."""
