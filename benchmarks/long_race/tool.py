"""The tool `read` and the reward for TRL: functions in its own process, without a server."""

import asyncio
import json

from episodes import read_terms, reward_of

TERMS = read_terms()
SCRIPT = json.loads(TERMS.script_file.read_text())


async def read(page: int):  # type: ignore[no-untyped-def]  # an annotation would be part of the schema
    await asyncio.sleep(float(TERMS.delay_file.read_text()) / 1000)
    return SCRIPT["observation"]


read.__doc__ = f"{SCRIPT['tool']['description']}\n\nArgs:\n    page: The page to read.\n"


def reward(completion_ids, **_):  # type: ignore[no-untyped-def]
    """The rewards of a group's or a batch's episodes."""
    return [reward_of(ids) for ids in completion_ids]
