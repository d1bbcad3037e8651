"""The stages of an exploration in order: survey, programs, verdicts."""

import datetime
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from turnwise.explore.continuation import Earlier, Progress, progress_of
from turnwise.explore.earlier_tasks import EarlierTasks
from turnwise.explore.exploration import Exploration, Limit, Link, ServerFinding, ToolFinding
from turnwise.explore.options import ExploreOptions
from turnwise.explore.politeness import affordable
from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.drawn_inputs import with_drawn_inputs
from turnwise.explore.programs.knowledge import Knowledge
from turnwise.explore.programs.selection import common_values, drafts_of
from turnwise.explore.records import ServerFacts, Survey
from turnwise.explore.splits import EntitySplits, assigned, held_out_combinations
from turnwise.explore.sql.exploring import sql_programs
from turnwise.explore.survey.surveying import SurveyOptions, may_call, survey
from turnwise.explore.verdicts.acceptance import Accepted, Target, accept
from turnwise.explore.verdicts.repetition import PlayedCall
from turnwise.explore.verdicts.witnesses import witnesses_of
from turnwise.explore.writing.model import ModelSource
from turnwise.explore.writing.writer import Writer
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Tool

Say = Callable[[str], None]

_SURVEY_END, _SQL_END, _VERIFIED_END = 0.5, 0.65, 0.9
"""The shares of the time when these stages end at the latest. Then all tasks are played once more."""
_MIN_PER_KIND, _KINDS = 8, 8
"""One kind of program has at most an eighth of the tasks, as long as there are other kinds."""


def in_another_time_zone(spec: ServerSpec) -> ServerSpec:
    """Return the server with a clock that is hours away and shows another day."""
    hour = datetime.datetime.now(datetime.UTC).hour
    zone = "Etc/GMT-14" if hour >= 10 else "Etc/GMT+12"  # POSIX signs: 14 hours ahead, 12 behind
    return spec if spec.is_remote else spec.model_copy(update={"env": {**spec.env, "TZ": zone}})


class Explorer:
    """An exploration under way; `result` is what was found so far."""

    def __init__(
        self,
        pool: Pool,
        later: Pool,
        specs: Sequence[ServerSpec],
        options: ExploreOptions,
        say: Say,
        earlier: Earlier | None = None,
    ) -> None:
        """`later` has the same servers with a clock that is hours away."""
        self._pool = pool
        self._later = later
        self._specs = {spec.name: spec for spec in specs}
        self._options = options
        self._say = say
        self._started = time.monotonic()
        self._failures: dict[str, str] = {}
        self._survey = Survey({})
        self._held_out: tuple[str, ...] = ()
        self._accepted = Accepted()
        self._num_drafts: Counter[str] = Counter()
        self._earlier = None if earlier is None else EarlierTasks(earlier, pool)
        self._rewordings: Counter[str] = Counter()

    async def run(self) -> None:
        """Go through all stages; may be cancelled at any time."""
        self._say(f"starting {', '.join(self._specs)}")
        failures = await self._pool.connect()
        self._failures = {name: str(error).partition("\n")[0] for name, error in failures.items()}
        if self._earlier is not None:
            self._earlier.check(self._failures, self._options.writable)
            await self._earlier.verify(self._accepted, self._say)
        specs = [spec for name, spec in self._specs.items() if name not in self._failures]
        options = self._options
        seconds = options.minutes * 60 * _SURVEY_END
        surveying = SurveyOptions(options.seed, seconds, options.writable, options.values)
        self._survey = await survey(self._pool, specs, surveying, self._say)
        self._accepted.secrets.learn(answer.text for answer in self._survey.answers())
        deadline = self._started + self._options.minutes * 60 * _SQL_END
        self._survey, in_sql = await sql_programs(self._pool, self._survey, surveying, deadline, self._say)
        self._survey = await with_drawn_inputs(self._pool, self._survey, options.seed, deadline)
        drafts = drafts_of(Knowledge(self._survey, self._options.seed), in_sql)
        self._num_drafts = Counter(tool for draft in drafts for tool in dict.fromkeys(draft.tools))
        self._say(f"programs: {len(drafts)}")
        splits = self._splits(drafts)
        if self._earlier is not None:
            splits = self._earlier.splits(splits)
            drafts = self._earlier.new_drafts(drafts, self._accepted)
        self._held_out = held_out_combinations(drafts, splits, self._options.seed)
        if self._earlier is not None:
            self._held_out = self._earlier.held_out(self._held_out)
        remote = [spec.name for spec in self._specs.values() if spec.is_remote]
        limited = [name for name, facts in self._survey.servers.items() if facts.is_limited]
        drafts = affordable(drafts, remote, limited, self._accepted)
        await self._verify(drafts, splits)
        if options.writer is not None:
            await self._write(options.writer)

    async def _write(self, source: ModelSource) -> None:
        """Have a model choose, word and join the tasks that it has not seen yet."""
        accepted = self._accepted
        fresh = [task for task in accepted.tasks if not accepted.origins[task.id].is_reworded]
        allowed = [tool for tool in self._pool.tools if self._may_call(tool)]
        model = await source.opened()
        writer = Writer(model, self._pool, allowed, self._options.seed)
        self._rewordings = writer.outcomes
        try:
            written = await writer.write(fresh, self._say)
        finally:
            await model.close()
        accepted.rewrite(written.tasks, written.dropped)

    def _splits(self, drafts: Sequence[Draft]) -> EntitySplits:
        common = common_values(drafts)
        groups = [([one for one in draft.entities if one not in common], 1.0) for draft in drafts]
        found = assigned([group for group in groups if group[0]], self._options.seed)
        return EntitySplits(found.by_entity, common)

    def _may_call(self, tool: Tool) -> bool:
        return may_call(self._pool, tool, SurveyOptions(writable=self._options.writable))

    async def _verify(self, drafts: Sequence[Draft], splits: EntitySplits) -> None:
        target = Target(
            num_tasks=self._options.num_tasks,
            deadline=self._started + self._options.minutes * 60 * _VERIFIED_END,
            per_kind=max(_MIN_PER_KIND, self._options.num_tasks // _KINDS),
            pause_seconds=self._options.pause_seconds,
            end=self._started + self._options.minutes * 60,
        )
        await self._later.connect()
        await accept(
            drafts,
            self._pool,
            self._later,
            witnesses_of(self._survey, self._accepted.secrets),
            splits,
            self._held_out,
            target,
            self._accepted,
            self._say,
        )

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
        """The calls of the plans of all tasks, and those of the survey."""
        surveyed = [
            [PlayedCall(answer.call.tool, dict(answer.call.arguments), answer.text)]
            for answer in self._survey.answers()
        ]
        return [*self._accepted.calls.values(), *surveyed]

    def result(self, *, was_interrupted: bool = False) -> Exploration:
        """Return what was found so far."""
        num_tasks = Counter(name for task in self._accepted.tasks for name in task.truth.required_tools)
        redact, examples = self._accepted.secrets.redaction.redact, self._accepted.examples
        return Exploration(
            servers=tuple(self._server_finding(name, num_tasks) for name in self._specs),
            links=tuple(self._links()),
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

    def _links(self) -> list[Link]:
        return [
            Link(place.tool, place.column, link.tool, link.parameter, num_calls=1)
            for link in self._survey.links
            for place in link.columns[:1]
        ]

    def _limit(self) -> Limit:
        if len(self._accepted.tasks) >= self._options.num_tasks:
            return Limit.TASKS
        is_late = time.monotonic() - self._started >= self._options.minutes * 60 * _VERIFIED_END
        return (
            Limit.TIME
            if is_late or any(one.why_stopped for one in self._survey.servers.values())
            else Limit.NONE
        )

    def _server_finding(self, name: str, num_tasks: Mapping[str, int]) -> ServerFinding:
        if name in self._failures:
            return ServerFinding(name, (), 0, 0.0, why_not=self._failures[name])
        tools = [tool for tool in self._pool.tools if tool.server == name]
        findings = tuple(self._tool_finding(tool, num_tasks[tool.name]) for tool in tools)
        facts = self._survey.servers.get(name, ServerFacts("", 0, 0.0))
        why_not = facts.why_stopped if tools else "it has no tools"
        return ServerFinding(name, findings, facts.num_calls, facts.seconds, why_not=why_not)

    def _tool_finding(self, tool: Tool, num_tasks: int) -> ToolFinding:
        facts = self._survey.tools.get(tool.name)
        if facts is None:
            why = f"not called: {self._pool.exposure(tool.server)}"
            return ToolFinding(tool, 0, 0, is_reader=False, is_stable=False, why_not=why)
        is_reached = facts.role != "unreached"
        redact = self._accepted.secrets.redaction.redact
        return ToolFinding(
            tool,
            facts.num_calls,
            max(len(facts.answers), int(is_reached)) if is_reached else 0,
            is_reader=facts.role == "reader",
            is_stable=bool(facts.answers),
            why_not="" if num_tasks else redact(self._why_in_no_task(tool.name)),
            num_tasks=num_tasks,
        )

    def _why_in_no_task(self, name: str) -> str:
        """Return why a tool is in no task: what was tried, or what became of its drafts."""
        facts = self._survey.tools[name]
        if facts.reason:
            return facts.reason
        rejections = self._accepted.rejections_by_tool.get(name, Counter())
        if rejections:
            reason, _ = rejections.most_common(1)[0]
            return f"no program of {rejections.total()} passed: {reason}"
        if self._accepted.not_verified[name]:
            return f"its programs were not verified: {self._accepted.why_stopped}"
        if facts.role == "writer":
            return "it changes something, and no other call shows what its arguments name"
        return "its answers hold nothing that can be asked for"
