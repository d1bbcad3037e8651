"""turnwise trains language models to use tools over many turns, against real MCP servers.

    import turnwise as tw

    run = tw.train("recipe.toml", settings={"run.num_steps": 20})
    run.metrics.to_pandas()

docs/python.md is the guide. A name is imported when it is used: torch alone takes seconds. `__init__.pyi` has
the same names for type checkers and editors.
"""

from typing import Any

# Two packages have the name of a function. Python makes a package an attribute when it is loaded, and never
# again: loaded and deleted here, they leave the names to the functions.
from turnwise import explore, rollout
from turnwise.version import __version__ as __version__

del explore, rollout

_MODULES = {
    "api.evaluation": ("Evaluation",),
    "api.exploring": ("explore",),
    "api.playing": ("evaluate", "play", "print_episode", "rollout"),
    "rewards.terms": (
        "answer",
        "efficiency",
        "error_rate",
        "forbidden_tools",
        "format",
        "judge",
        "milestones",
        "outcome",
        "probes",
        "required_tools",
        "weighted",
        "writes",
    ),
    "api.run": ("Run", "load_run"),
    "api.training": ("sft", "train"),
    "api.vocabulary": (
        "Answer",
        "CallFailed",
        "EnvironmentDown",
        "FollowUp",
        "Matcher",
        "Message",
        "Mistake",
        "ModelUser",
        "Recipe",
        "ScriptedUser",
        "StoredEpisode",
        "Task",
        "ToolCall",
        "ToolResult",
        "Trajectory",
        "Truth",
        "Unavailable",
        "UserRule",
    ),
}
"""The names that each module offers here."""

_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'turnwise' has no attribute {name!r}")
    from turnwise.api.lazy_names import load_name

    value = load_name(_HOME[name], name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
