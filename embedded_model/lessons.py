"""Lessons: verified demonstrations as the tokens of an episode; and the tasks of the demo."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from embedded_model.drills import own_sample
from embedded_model.phrasings import lesson_families
from embedded_model.slips import Slip, slipped
from turnwise.config import ToolsConfig
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load
from turnwise.models.chat import RenderedChat
from turnwise.rewards import is_success
from turnwise.run.demonstrations.lessons import lesson_of
from turnwise.tasks.proof.answers import NUMBER, plain
from turnwise.tasks.selection import split_of
from turnwise.training.packing.samples import Sample
from turnwise.types import Task, Tool
from turnwise.worlds.market.families.kit import Family
from turnwise.worlds.market.families.lookups import BAR_KEYS, FIGURES
from turnwise.worlds.market.families.making import make_tasks
from turnwise.worlds.market.services import DEFAULT_FILE
from turnwise.worlds.market.world import open_world

SERVERS = ("fmp", "polygon", "tavily", "python", "slack")
TOOLS = (
    *("fmp_get_quote", "fmp_search_ticker", "polygon_get_previous_close", "tavily_qna_search"),
    *("execute_python", "send_slack_message", "get_slack_channel_history"),
)
"""The tools of every demo task: with the same tools, all prompts have the same tokens before the question,
which are computed once."""

DEMO_WORLD = 0
"""The world of the demo; no lesson is about its held-out companies."""

_KEYS: Mapping[str, Mapping[str, str]] = {
    "quote_figure": {what: key for what, (key, _, _) in FIGURES.items()},
    "previous_bar": BAR_KEYS,
}
"""By family, the words for a figure in questions and its key in results."""

_NUM_FOLLOW_UPS = 3


@dataclass(frozen=True, slots=True)
class LessonCounts:
    """The world of the lessons and their number."""

    world: int
    per_family: int
    slips: tuple[Slip, ...] = ()


@dataclass(frozen=True, slots=True)
class LessonTasks:
    """Tasks with demonstrations, and the tools offered with them."""

    tasks: Sequence[Task]
    tools: Sequence[Tool]
    """The tools, in the order of an episode."""


async def make_demo_tasks(num_by_split: Mapping[str, int]) -> Sequence[Task]:
    """The tasks of the demo, `num_by_split` of every family; `recipes/cpu` holds 120, 5 and 20."""
    async with Pool(load(DEFAULT_FILE, {"TURNWISE_WORLD_SEED": str(DEMO_WORLD)})) as pool:
        made = await make_tasks(
            open_world(DEMO_WORLD).market,
            pool.lease,
            num_by_split,
            earns=is_success,
            families=lesson_families(),
            servers=SERVERS,
            tools=TOOLS,
        )
    assert not made.rejected, made.rejected[0]
    return made.tasks


async def make_lesson_tasks(counts: LessonCounts) -> LessonTasks:
    """Tasks with demonstrations from the five servers of the world; slips have their share of a family."""
    held_out = {
        name
        for company in open_world(DEMO_WORLD).market.companies()
        if split_of(company.symbol) != "train"
        for name in (company.name, company.symbol)
    }
    families = lesson_families()
    wanted: list[tuple[Family, float]] = []
    for name, family in families.items():
        wrong = [slip for slip in counts.slips if slip.family == name]
        wanted.append((family, 1 - sum(slip.share for slip in wrong)))
        wanted.extend((slipped(slip, family), slip.share) for slip in wrong)
    made: list[Task] = []
    market = open_world(counts.world).market
    async with Pool(load(DEFAULT_FILE, {"TURNWISE_WORLD_SEED": str(counts.world)})) as pool:
        for family, share in wanted:
            verified = await make_tasks(
                market,
                pool.lease,
                {"train": round(counts.per_family * share)},
                earns=None,  # slips earn nothing
                seed=counts.world,
                families={family.name: family},
                servers=SERVERS,
            )
            assert not verified.rejected, verified.rejected[0]
            made.extend(verified.tasks)
        tools = [
            tool for server in SERVERS for tool in pool.tools if tool.server == server and tool.name in TOOLS
        ]
    own = [task for task in made if not any(name in task.prompt[0].content for name in held_out)]
    return LessonTasks(own, tools)


class Teacher:
    """Converts tasks to samples for one chat and one list of tools."""

    def __init__(self, chat: RenderedChat, tools: Sequence[Tool]) -> None:
        self._chat = chat
        self._tools = tools
        self._phrasings = {name: family.phrasings_for("train") for name, family in lesson_families().items()}

    def lesson(self, task: Task) -> Sample:
        """The demonstration as if the model had sampled it."""
        longest = ToolsConfig().max_result_tokens
        return lesson_of(task, self._tools, self._chat, max_result_tokens=longest)

    def reading(self, task: Task, rng: random.Random) -> Sample:
        """A lesson with further questions about the same result, for practice in finding its figures."""
        lesson = self.lesson(task)
        ids, mask = list(lesson.token_ids), list(lesson.loss_mask)
        result = json.loads(task.demonstration[0].results[0].content)
        keys = _KEYS[task.family]
        symbol = result.get("symbol") or result["ticker"]
        for what in rng.sample(list(keys), _NUM_FOLLOW_UPS):
            wording = rng.choice(self._phrasings[task.family])
            question = f"{wording.format(symbol=symbol, what=what)} {NUMBER}"
            asked = self._chat.extend(ids, [("", question)])
            answer = self._chat.say(plain(result[keys[what]]))
            ids += [*asked, *answer]
            mask += [*(0,) * len(asked), *(1,) * len(answer)]
        return own_sample(tuple(ids), tuple(mask), task.id)


def is_readable(task: Task) -> bool:
    """Whether the task has one result with several figures."""
    return task.family in _KEYS
