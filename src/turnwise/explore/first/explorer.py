"""The stages of an exploration in order: survey, stability, changes, programs, verdicts."""

import asyncio
import datetime
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from turnwise.explore.exploration import Exploration, Limit, ServerFinding, ToolFinding
from turnwise.explore.first.acceptance import Accepted, Target, accept
from turnwise.explore.first.caller import ServerCaller
from turnwise.explore.first.change import Change
from turnwise.explore.first.change_search import find_changes
from turnwise.explore.first.continuation import Earlier, Progress, progress_of
from turnwise.explore.first.day_dependence import Today
from turnwise.explore.first.drawn_programs import Drawn, draw
from turnwise.explore.first.earlier_tasks import EarlierTasks
from turnwise.explore.first.entities import roots_of
from turnwise.explore.first.material import Material, material_of, steady
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.offered_values import offered_values
from turnwise.explore.first.options import ExploreOptions
from turnwise.explore.first.paraphrase import ChatModel, Paraphraser
from turnwise.explore.first.politeness import affordable, limits_for
from turnwise.explore.first.reasons import ToolHistory, why_in_no_task
from turnwise.explore.first.repetition import PlayedCall
from turnwise.explore.first.selection import drafts_of
from turnwise.explore.first.splits import held_out_combinations
from turnwise.explore.first.stability import Steadiness, examine, examine_later
from turnwise.explore.first.surroundings import Surroundings
from turnwise.explore.first.survey import Survey, ToolRecord
from turnwise.explore.first.tool_verbs import presumes_reading
from turnwise.explore.first.value_sources import config_values, description_values
from turnwise.explore.first.values import ValueStore
from turnwise.explore.first.verdicts import OUT_OF_TIME
from turnwise.explore.survey.budget import Budget
from turnwise.mcp.offerings import Offerings
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Task, Tool

_CHANGE_CALLS = 1_200
"""Calls of one server that the search for changes may make in any case."""

Say = Callable[[str], None]

_SURVEY_END, _STABILITY_END, _CHANGES_END = 0.25, 0.35, 0.5
_PAUSE_END, _LATER_END, _VERIFIED_END = 0.55, 0.65, 0.9
"""The shares of the time when these stages end at the latest. Then all tasks are played once more."""
_MIN_PER_KIND, _KINDS = 8, 8
"""One kind of program has at most an eighth of the tasks, as long as there are other kinds."""


class Explorer:
    """An exploration under way; `result` is what was found so far."""

    def __init__(
        self,
        pool: Pool,
        specs: Sequence[ServerSpec],
        options: ExploreOptions,
        say: Say,
        earlier: Earlier | None = None,
    ) -> None:
        self._pool = pool
        self._specs = {spec.name: spec for spec in specs}
        self._options = options
        self._say = say
        self._started = time.monotonic()
        self._failures: dict[str, str] = {}
        self._callers: dict[str, ServerCaller] = {}
        self._offerings: dict[str, Offerings] = {}
        self._survey: Survey | None = None
        self._steadiness: dict[str, Steadiness] = {}
        self._material: Material | None = None
        self._held_out: tuple[str, ...] = ()
        self._accepted = Accepted()
        self._num_drafts: Counter[str] = Counter()
        self._num_cut: Counter[str] = Counter()
        self._num_of_today: Counter[str] = Counter()
        self._late: set[str] = set()
        """Servers that a stage had no time for."""
        self._earlier = None if earlier is None else EarlierTasks(earlier, pool)
        self._rewordings: Counter[str] = Counter()

    async def run(self) -> None:
        """Go through all stages; may be cancelled at any time."""
        try:
            await self._run()
        finally:
            for caller in self._callers.values():
                await caller.end_session()

    async def _run(self) -> None:
        self._say(f"starting {', '.join(self._specs)}")
        failures = await self._pool.connect()
        self._failures = {name: str(error).partition("\n")[0] for name, error in failures.items()}
        if self._earlier is not None:
            self._earlier.check(self._failures, self._options.writable)
            await self._earlier.verify(self._accepted, self._say)
        tools = [tool for tool in self._pool.tools if self._may_call(tool)]
        servers = dict.fromkeys(tool.server for tool in tools)
        seconds = self._options.minutes * 60 * _CHANGES_END
        self._callers = {
            server: ServerCaller(self._pool, server, Budget(limits_for(self._specs[server], seconds)))
            for server in servers
        }
        self._offerings = {server: await self._pool.offerings(server) for server in servers}
        known = self._known_values(tools)
        self._survey = Survey(self._callers, tools, known)
        self._begin(_SURVEY_END)
        await self._survey.run(self._options.seed, self._say)
        self._accepted.secrets.learn(seen.document.text for seen in self._survey.observations)
        self._end()
        self._begin(_STABILITY_END)
        await self._examine(self._survey)
        self._end()
        changes = await self._find_changes(self._survey)
        drawn = await self._draw(self._survey)
        self._begin(_LATER_END)
        await self._examine_later(self._survey)
        self._begin(math.inf)
        stable = self._stable(self._survey)
        observations = [seen for seen in stable if seen.tool.name not in drawn.tools]
        self._material = material_of(observations, changes, self._options.seed, roots_of(known))
        drafts = drafts_of(self._material, self._options.seed, drawn.drafts)
        self._num_drafts = Counter(tool for draft in drafts for tool in dict.fromkeys(draft.tools))
        self._say(f"programs: {len(drafts)}")
        splits = self._material.splits
        if self._earlier is not None:
            splits = self._earlier.splits(splits)
            drafts = self._earlier.new_drafts(drafts, self._accepted)
        self._held_out = held_out_combinations(drafts, splits, self._options.seed)
        if self._earlier is not None:
            self._held_out = self._earlier.held_out(self._held_out)
        remote = [spec.name for spec in self._specs.values() if spec.is_remote]
        limited = [name for name, caller in self._callers.items() if caller.budget.is_limited]
        drafts = affordable(drafts, remote, limited, self._accepted)
        target = Target(
            num_tasks=self._options.num_tasks,
            deadline=self._time_at(_VERIFIED_END),
            per_kind=max(_MIN_PER_KIND, self._options.num_tasks // _KINDS),
        )
        await accept(
            drafts,
            self._pool,
            Surroundings(tuple(filter(self._repeats, stable)), tuple(changes), self._accepted.secrets.is_in),
            splits,
            self._held_out,
            target,
            self._accepted,
            self._say,
        )
        if self._options.paraphrase is not None:
            await self._paraphrase(self._options.paraphrase)

    async def _paraphrase(self, model: ChatModel) -> None:
        """Reword the questions that no model has worded yet."""
        accepted = self._accepted
        places = {task.id: place for place, task in enumerate(accepted.tasks)}
        tasks = [task for task in accepted.tasks if not accepted.origins[task.id].is_reworded]
        endpoint = model.opened()

        def take(task: Task) -> None:
            accepted.tasks[places[task.id]] = task
            accepted.origins[task.id] = replace(accepted.origins[task.id], is_reworded=True)

        allowed = [tool for tool in self._pool.tools if self._may_call(tool)]
        paraphraser = Paraphraser(endpoint, self._pool, allowed)
        self._rewordings = paraphraser.outcomes
        try:
            await paraphraser.paraphrase(tasks, self._options.seed, take, self._say)
        finally:
            await endpoint.close()

    def _time_at(self, share: float) -> float:
        """Return when this share of the time is over."""
        return self._started + self._options.minutes * 60 * share

    def _begin(self, end: float) -> None:
        """Begin a stage that ends when this share of the time is over."""
        for caller in self._callers.values():
            caller.budget.deadline = self._time_at(end)

    def _end(self) -> None:
        """End a stage, and keep which servers it had no time for."""
        self._late |= {server for server, caller in self._callers.items() if caller.budget.is_late}

    @property
    def has_verified_earlier(self) -> bool:
        """Whether the tasks of an earlier exploration were looked at: their files may be written then."""
        return self._earlier is None or self._earlier.is_verified

    @property
    def progress(self) -> Progress:
        """What a later exploration needs to go on."""
        accepted = self._accepted
        ids = {task.id for task in accepted.tasks}
        origins = {name: origin for name, origin in accepted.origins.items() if name in ids}
        return progress_of(self._options.seed, self._pool.tools, self._held_out, origins, accepted.rejected)

    @property
    def episodes(self) -> list[Sequence[PlayedCall]]:
        """The calls of the plans of all tasks, and those of the survey that answered alike when repeated."""
        return [*self._accepted.calls.values(), *([call] for call in self._surveyed())]

    def _surveyed(self) -> list[PlayedCall]:
        return [
            PlayedCall(seen.tool.name, dict(seen.plain_arguments), seen.document.text)
            for seen in (self._survey.observations if self._survey is not None else ())
            if not seen.document.is_cut
            and seen.number in self._steadiness.get(seen.tool.server, Steadiness()).stable
        ]

    def _may_call(self, tool: Tool) -> bool:
        """Return whether a call cannot change anything of the user's, or the user allows it."""
        exposed = self._pool.exposure(tool.server)
        return tool.is_read_only or not exposed.outside or tool.server in self._options.writable

    def _known_values(self, tools: Sequence[Tool]) -> ValueStore:
        store = ValueStore()
        for value in self._options.values:
            store.add(value)
        for spec in self._specs.values():
            for value in config_values(spec):
                store.add(value)
        for tool in tools:
            for value in description_values(tool):
                store.add(value)
        for offerings in self._offerings.values():
            for value in offered_values(offerings):
                store.add(value)
        return store

    async def _examine(self, survey: Survey) -> None:
        servers = list(self._callers)
        found = await asyncio.gather(
            *(
                examine(
                    self._callers[server],
                    [seen for seen in survey.observations if seen.tool.server == server],
                    self._say,
                )
                for server in servers
            )
        )
        self._steadiness = dict(zip(servers, found, strict=True))

    async def _examine_later(self, survey: Survey) -> None:
        left = self._time_at(_PAUSE_END) - time.monotonic()
        pause = max(0.0, min(self._options.pause_seconds, left))
        await asyncio.gather(
            *(
                examine_later(caller, survey.observations, self._steadiness[server], pause, self._say)
                for server, caller in self._callers.items()
            )
        )

    async def _find_changes(self, survey: Survey) -> list[Change]:
        self._begin(_CHANGES_END)
        searches = []
        for server, caller in self._callers.items():
            writers = [
                name
                for name, record in survey.records.items()
                if record.tool.server == server and self._is_writer(record.tool)
            ]
            # A survey that made all of its calls leaves some for the tools that change something.
            if not self._specs[server].is_remote:
                caller.budget.extend(_CHANGE_CALLS)
            searches.append(find_changes(caller, survey, writers, self._options.seed))
        changes = [change for found in await asyncio.gather(*searches) for change in found]
        self._end()
        self._begin(math.inf)
        self._say(f"changes: {len(changes)} that a later call shows")
        return changes

    def _is_writer(self, tool: Tool) -> bool:
        return tool.name in self._steadiness[tool.server].changers or not presumes_reading(tool)

    async def _draw(self, survey: Survey) -> Drawn:
        changers = {name for steadiness in self._steadiness.values() for name in steadiness.changers}
        drawn = await draw(self._callers, survey, changers, self._options.seed)
        self._say(f"drawn inputs: {len(drawn.drafts)} programs of {len(drawn.tools)} tools")
        return drawn

    def _stable(self, survey: Survey) -> list[Observation]:
        """Return the observations that programs may use, without volatile fields."""
        stable: list[Observation] = []
        today = Today(datetime.datetime.now(datetime.UTC))
        for observation in survey.observations:
            steadiness = self._steadiness[observation.tool.server]
            volatile = steadiness.stable.get(observation.number)
            is_pure = observation.tool.name not in steadiness.changers
            if volatile is None or not is_pure:
                continue
            document = steadiness.renewed.get(observation.number, observation.document)
            pruned = steady(replace(observation, document=document), volatile)
            if document.is_cut:
                self._num_cut[observation.tool.name] += 1
            elif today.is_in(pruned):
                self._num_of_today[observation.tool.name] += 1
            else:
                stable.append(pruned)
        return stable

    def _repeats(self, observation: Observation) -> bool:
        """Return whether a stable answer has no volatile fields."""
        return not self._steadiness[observation.tool.server].stable[observation.number]

    def result(self, *, was_interrupted: bool = False) -> Exploration:
        """Return what was found so far."""
        num_tasks = Counter(name for task in self._accepted.tasks for name in task.truth.required_tools)
        redact, examples = self._accepted.secrets.redaction.redact, self._accepted.examples
        return Exploration(
            servers=tuple(self._server_finding(name, num_tasks) for name in self._specs),
            links=() if self._material is None else self._material.links,
            tasks=tuple(self._accepted.tasks),
            rejections=dict(self._accepted.rejections.most_common()),
            rejected_examples={reason: redact(example) for reason, example in examples.items()},
            held_out=self._held_out,
            seconds=time.monotonic() - self._started,
            seed=self._options.seed,
            limit=self._limit(),
            was_interrupted=was_interrupted,
            num_kept=0 if self._earlier is None else len(self._earlier.kept),
            rewordings=dict(self._rewordings.most_common()),
            dropped={} if self._earlier is None else dict(self._earlier.dropped),
        )

    def _limit(self) -> Limit:
        if len(self._accepted.tasks) >= self._options.num_tasks:
            return Limit.TASKS
        budgets = [caller.budget for caller in self._callers.values()]
        is_late = self._late or time.monotonic() >= self._time_at(1.0)
        is_spent = any(budget.seconds >= budget.limits.seconds for budget in budgets)
        return Limit.TIME if is_late or is_spent else Limit.NONE

    def _server_finding(self, name: str, num_tasks: Mapping[str, int]) -> ServerFinding:
        if name in self._failures:
            return ServerFinding(name, (), 0, 0.0, why_not=self._failures[name])
        tools = [tool for tool in self._pool.tools if tool.server == name]
        caller = self._callers.get(name)
        offerings = self._offerings.get(name, Offerings())
        return ServerFinding(
            name,
            tuple(self._tool_finding(tool, num_tasks[tool.name]) for tool in tools),
            caller.budget.num_calls if caller else 0,
            caller.budget.seconds if caller else 0.0,
            num_resources=len(offerings.resources),
            num_prompts=len(offerings.prompts),
            why_not=(caller.budget.why_spent if caller else "") if tools else "it has no tools",
        )

    def _tool_finding(self, tool: Tool, num_tasks: int) -> ToolFinding:
        record = None if self._survey is None else self._survey.records.get(tool.name)
        if record is None:
            why = f"not called: {self._pool.exposure(tool.server)}"
            return ToolFinding(tool, 0, 0, is_reader=False, is_stable=False, why_not=why)
        steadiness = self._steadiness.get(tool.server, Steadiness())
        redact = self._accepted.secrets.redaction.redact
        numbers = [seen.number for seen in record.observations]
        stable = [number for number in numbers if number in steadiness.stable]
        volatile = {name for number in stable for name in steadiness.stable[number]}
        return ToolFinding(
            tool,
            record.num_calls,
            record.num_answers,
            is_reader=presumes_reading(tool) and tool.name not in steadiness.changers,
            is_stable=bool(stable),
            volatile=tuple(sorted(volatile)),
            why_not="" if num_tasks else redact(why_in_no_task(self._history(record))),
            num_tasks=num_tasks,
        )

    def _history(self, record: ToolRecord) -> ToolHistory:
        tool = record.tool
        steadiness = self._steadiness.get(tool.server, Steadiness())
        numbers = [seen.number for seen in record.observations]
        spent = self._callers[tool.server].budget.why_spent
        return ToolHistory(
            record,
            is_writer=tool.name in steadiness.changers or not presumes_reading(tool),
            num_stable=sum(number in steadiness.stable for number in numbers),
            num_differing=sum(number in steadiness.unstable for number in numbers),
            num_cut=self._num_cut[tool.name],
            num_of_today=self._num_of_today[tool.name],
            num_drafts=self._num_drafts[tool.name],
            why_not_worth="" if self._material is None else self._material.worth.why_not.get(tool.name, ""),
            rejections=self._accepted.rejections_by_tool.get(tool.name, Counter()),
            num_not_verified=self._accepted.not_verified[tool.name],
            why_not_verified=self._accepted.why_stopped,
            why_stopped=spent or (OUT_OF_TIME.reason if tool.server in self._late else ""),
        )
