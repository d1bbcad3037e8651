"""Environments in Python: a class of the user's own is the other side of an episode, in place of MCP servers.

    class GuessTheNumber:
        def reset(self, task): ...   # the prompt: a text, messages, or None for the task's own prompt
        def tools(self): ...         # optional: functions or descriptions of tools
        def step(self, said): ...    # the model's text or its calls -> (observation, done)
        def score(self): ...         # optional: {"outcome": 1.0}, parts from 0 to 1
        def close(self): ...         # optional
        @staticmethod
        def tasks(): ...             # optional: the tasks, if no file has them

Methods may be async. docs/guides/environments.md is the guide.
"""

from turnwise.worlds.environment.leased import LeasedEnvironment
from turnwise.worlds.environment.python_class import (
    PythonEnvironment,
    find_environment,
    generated_tasks,
    scores_episodes,
)

__all__ = [
    "LeasedEnvironment",
    "PythonEnvironment",
    "find_environment",
    "generated_tasks",
    "scores_episodes",
]
