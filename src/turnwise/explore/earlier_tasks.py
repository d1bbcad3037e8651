"""Go on from an earlier exploration: keep its tasks that still hold, and skip what it rejected."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from turnwise.explore.continuation import Earlier, definition_digest, is_unchanged
from turnwise.explore.programs.draft import Draft
from turnwise.explore.splits import EntitySplits
from turnwise.explore.verdicts.acceptance import Accepted
from turnwise.explore.verdicts.refusal import Refusal
from turnwise.explore.verdicts.repetition import repeat
from turnwise.mcp.pool import Pool
from turnwise.types import Task


class EarlierTasks:
    """The tasks of an earlier exploration; `kept` are those whose plans were repeated with success."""

    def __init__(self, earlier: Earlier, pool: Pool) -> None:
        self._earlier = earlier
        self._pool = pool
        self.kept: tuple[Task, ...] = ()
        self.dropped: Counter[str] = Counter()
        self.is_verified = False
        """Whether `kept` is final: the task files may be written then."""

    def check(self, failures: Mapping[str, str], writable: Collection[str]) -> None:
        """Raise ValueError if a task cannot be verified: its file must not be written without it."""
        connected = {tool.server for tool in self._pool.tools}
        for task in self._earlier.tasks:
            for server in task.servers:
                if server not in connected:
                    why = failures.get(server, "it is not there now")
                    raise ValueError(f"tasks of an earlier exploration use server {server!r}: {why}")
                if task.truth.probes and self._pool.exposure(server).outside and server not in writable:
                    raise ValueError(
                        f"tasks of an earlier exploration change real data of server {server!r}: "
                        f"give --writes {server} again, or another --out"
                    )

    async def verify(self, accepted: Accepted, say: Callable[[str], None]) -> None:
        """Repeat the plans, and add the tasks that hold to `accepted`."""
        progress, tasks = self._earlier.progress, self._earlier.tasks
        now = {tool.name: definition_digest(tool) for tool in self._pool.tools}
        unchanged = [task for task in tasks if is_unchanged(task, progress.tools, now)]
        if len(unchanged) < len(tasks):
            self.dropped["a tool that it uses has changed"] = len(tasks) - len(unchanged)
        repetitions = await repeat(unchanged, self._pool, "earlier tasks", say)
        self.dropped.update(repetition.why_not for repetition in repetitions if repetition.why_not)
        for repetition in repetitions:
            if not repetition.why_not:
                task = repetition.task
                if refusal := accepted.add(task, progress.origins[task.id], repetition.calls):
                    self.dropped[refusal.reason] += 1
        self.kept = tuple(accepted.tasks)
        self.is_verified = True

    def held_out(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the combinations for test tasks only: the earlier and the wanted ones, unless trained on."""
        origins = self._earlier.progress.origins
        trained = {origins[task.id].combination for task in self.kept if task.split != "test"}
        return tuple(sorted({*self._earlier.progress.held_out, *wanted} - trained))

    def splits(self, wanted: EntitySplits) -> EntitySplits:
        """Return the splits of all entities; those of the kept tasks stay where they are."""
        origins = self._earlier.progress.origins
        seen: dict[str, set[str]] = {}
        for task in self.kept:
            for name in origins[task.id].entities:
                seen.setdefault(name, set()).add(task.split)
        fixed = {name: min(found) for name, found in seen.items() if len(found) == 1}
        several = {name for name, found in seen.items() if len(found) > 1}
        return EntitySplits({**wanted.by_entity, **fixed}, wanted.containers | several)

    def new_drafts(self, drafts: Sequence[Draft], accepted: Accepted) -> list[Draft]:
        """Return the drafts without a verdict."""
        progress = self._earlier.progress
        known = {task.id for task in self.kept}
        now = {tool.name: definition_digest(tool) for tool in self._pool.tools}
        rejected = progress.rejected if now == progress.tools else {}
        new: list[Draft] = []
        for draft in drafts:
            if draft.task_id in known:
                continue
            if draft.task_id in rejected:
                accepted.reject(draft, Refusal(rejected[draft.task_id]))
            else:
                new.append(draft)
        return new
