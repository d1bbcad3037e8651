"""The tool `read` and the reward for TRL: functions in its own process, without a server."""

import asyncio
import json

from episodes import read_terms, reward_of

TERMS = read_terms()
SCRIPT = json.loads(TERMS.script_file.read_text())


# an annotated result would be part of the schema
async def read(page: int, milliseconds: int):  # type: ignore[no-untyped-def]
    await asyncio.sleep(milliseconds / 1000)
    return SCRIPT["observation"]


ARGUMENTS = "Args:\n    page: The page to read.\n    milliseconds: How long it takes.\n"
read.__doc__ = f"{SCRIPT['tool']['description']}\n\n{ARGUMENTS}"


def reward(completion_ids, **_):  # type: ignore[no-untyped-def]
    """The rewards of a group's or a batch's episodes."""
    return [reward_of(ids) for ids in completion_ids]
