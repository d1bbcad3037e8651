"""Fresh server processes, kept ahead of demand: a set for each episode, over one copy of the user's data."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from turnwise.mcp.calls.exhaustion import size_of
from turnwise.mcp.processes.mounts import Mount, Way
from turnwise.mcp.processes.named_data import named_data, outermost
from turnwise.mcp.processes.private_folders import find_enclosure, find_fresh, with_real
from turnwise.mcp.processes.scratch import Scratch, episode_path
from turnwise.mcp.processes.surroundings import installer, is_enclosed, surroundings
from turnwise.mcp.processes.walls import Enclosure, Namespace, NotPrivate, open_namespace
from turnwise.mcp.session import ConnectFailed, Session
from turnwise.mcp.spec import EPISODE_DIR, ServerSpec
from turnwise.types import ServerLoss

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ProcessSet:
    """One episode's own processes: one of each server, all with the same private folders."""

    namespace: Namespace | None = None
    sessions: dict[str, Session] = field(default_factory=dict)
    spent: str = ""
    """Why its processes were ended, if they took too much of the disk."""
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)


class Stock:
    """Process sets for one group of servers: those that name the same data, or one server alone."""

    def __init__(
        self, name: str, specs: Sequence[ServerSpec], *, tasks: asyncio.TaskGroup, scratch: Scratch
    ) -> None:
        self.name = name
        self.not_private = ""
        """Why the group's servers could not be walled in on this machine; empty if they are."""
        self._specs = specs
        self._num_warm = max(spec.options.num_warm for spec in specs)
        self._max_sets = min(spec.options.max_processes for spec in specs)
        self.max_disk_bytes = max(spec.options.max_disk_bytes for spec in specs)
        self._tasks = tasks
        self._scratch = scratch
        self._enclosure: Enclosure | None = None
        self._finding_enclosure = asyncio.Lock()
        self._members: dict[str, StockedServer] = {}
        self._sets: set[ProcessSet] = set()
        self._ready: asyncio.Queue[ProcessSet | ConnectFailed] = asyncio.Queue()
        self._num_waiting = 0
        self._num_spawning = 0
        self._num_alive = 0
        self._is_closing = False

    @property
    def enclosure(self) -> Enclosure:
        """What the processes of a set can change; empty before the first set is made."""
        return self._enclosure or Enclosure()

    def encloses(self, spec: ServerSpec) -> bool:
        """Return whether all folders that the server can reach are private or read-only."""
        return is_enclosed(spec) and self.enclosure.is_walled

    @property
    def network(self) -> bool | Literal["real"]:
        """Whether the group's servers have network: one of them opens it for all, as they share processes."""
        opened = [spec.options.network for spec in self._specs if is_enclosed(spec) and spec.options.network]
        return "real" if opened and all(network == "real" for network in opened) else bool(opened)

    def private_folders(self, spec: ServerSpec) -> list[str]:
        """Return the server's data folders that are private to each set; marks copies, for their cost."""
        copied = {mount.folder for mount in self.enclosure.mounts if mount.way is Way.COPY}
        if not self.enclosure.mounts:
            return []
        return [
            f"{folder} (copied for every episode)" if folder in copied else str(folder)
            for folder in named_data(spec).data
        ]

    def add(self, member: "StockedServer", first: ProcessSet) -> None:
        """Put a process of this server into every new set; `first` has the one that listed its tools."""
        self._members[member.name] = member
        self._num_alive += 1
        self._ready.put_nowait(first)
        self._top_up()

    async def new_set(self, real: Sequence[Path] = ()) -> ProcessSet:
        """Create a set without processes; its folders are private, except `real`. Raises ConnectFailed."""
        enclosure = await self._found_enclosure()
        processes = ProcessSet()
        if enclosure != Enclosure():
            try:
                if real:
                    enclosure = with_real(enclosure, real)
                processes.namespace = await open_namespace(enclosure, self._scratch)
            except (NotPrivate, OSError) as error:
                reason = f"has no walls around it: {error}"
                raise ConnectFailed(ServerLoss(self.name, reason)) from None
        self._sets.add(processes)
        return processes

    async def install(
        self, spec: ServerSpec, start: Callable[[ProcessSet], Awaitable[Session]]
    ) -> ConnectFailed | None:
        """Let `npx`, `uvx` and the like fill the real caches once: else every set would install again.

        The command does this whenever it runs. No tool is called in this set. A failure is returned: on a
        machine without network, the caches may have all that is needed.
        """
        package_installer = installer(spec)
        if package_installer is None or not (await self._found_enclosure()).is_walled:
            return None
        processes = await self.new_set(real=package_installer.caches)
        try:
            await start(processes)
        except ConnectFailed as error:
            program = Path(spec.command or "").name
            words = f"{error.loss.message} when {program} started it with network, to install it"
            if not error.loss.stderr_tail:  # npm says nothing while it tries again
                words += "; is its package registry reachable? Run the command once yourself"
            return ConnectFailed(replace(error.loss, message=words), error.rest_seconds)
        finally:
            await self.discard(processes)
        return None

    async def take(self) -> ProcessSet:
        """Return the next fresh set; waits until one is spawned, or given back if all are in use."""
        self._num_waiting += 1
        try:
            while True:
                self._top_up()
                item = await self._ready.get()
                if isinstance(item, ConnectFailed):
                    raise item
                if any(session.is_open for session in item.sessions.values()):
                    return item
                self.recycle(item)
        finally:
            self._num_waiting -= 1
            self._top_up()

    def recycle(self, used: ProcessSet) -> None:
        """Close a set in the background; then another may be spawned."""
        if not self._is_closing:
            self._tasks.create_task(self._retire(used), name=f"mcp retire {self.name}")

    async def discard(self, used: ProcessSet) -> None:
        """End a set's processes, then remove its private folders."""
        async with used.ending:
            if used not in self._sets:
                return
            await asyncio.gather(*(session.close() for session in used.sessions.values()))
            if used.namespace is not None:
                await used.namespace.close()
                await self._scratch.discard(used.namespace.directory)
            self._sets.discard(used)

    async def end_spenders(self) -> None:
        """End the sets that take more of the disk than they may."""
        for processes in tuple(self._sets):
            if processes.namespace is not None:
                num_bytes, _ = await asyncio.to_thread(size_of, processes.namespace.directory)
                if num_bytes > self.max_disk_bytes:
                    processes.spent = (
                        f"the episode's changes took {num_bytes / 1e6:,.0f} MB of disk, and its servers were "
                        f"ended; max_disk_bytes allows {self.max_disk_bytes / 1e6:,.0f} MB"
                    )
                    await self.discard(processes)

    async def close(self) -> None:
        self._is_closing = True
        await asyncio.gather(*(self.discard(processes) for processes in tuple(self._sets)))

    async def _found_enclosure(self) -> Enclosure:
        async with self._finding_enclosure:
            if self._enclosure is None:
                self._enclosure = await self._find_enclosure()
            return self._enclosure

    async def _find_enclosure(self) -> Enclosure:
        enclosed = [spec for spec in self._specs if is_enclosed(spec)]
        named = outermost(folder for spec in enclosed for folder in named_data(spec).folders)
        around = [folder for spec in enclosed for folder in surroundings(spec)]
        try:
            fresh = [
                Mount(episode_path(spec.name), Way.FRESH, spec.options.template)
                for spec in self._specs
                if uses_scratch(spec)
            ]
            if not enclosed:
                return await find_fresh(fresh, self._scratch)
            has_network = bool(self.network)
            return await find_enclosure(named, around, fresh, self._scratch, has_network=has_network)
        except (NotPrivate, OSError) as error:
            self.not_private = str(error) if enclosed else ""
            return Enclosure()

    def _top_up(self) -> None:
        """Start as many spawns as waiting episodes and the warm stock need, up to `max_processes`."""
        if self._is_closing:
            return
        wanted = self._num_waiting + self._num_warm - self._ready.qsize() - self._num_spawning
        if any(member.is_broken() for member in self._members.values()):
            wanted = min(wanted, self._num_waiting - self._num_spawning)
        for _ in range(min(wanted, self._max_sets - self._num_alive)):
            self._num_spawning += 1
            self._num_alive += 1
            self._tasks.create_task(self._spawn(), name=f"mcp spawn {self.name}")

    async def _spawn(self) -> None:
        try:
            processes = await self.new_set()
            await self._start_all(processes)
        except ConnectFailed as error:
            self._num_alive -= 1
            if self._num_waiting:
                self._ready.put_nowait(error)
            elif not self._is_closing:
                logger.warning("%s", error)
        else:
            self._ready.put_nowait(processes)
        finally:
            self._num_spawning -= 1

    async def _start_all(self, made: ProcessSet) -> None:
        """Start every member's process; a failure is only logged: an episode may not need that server.

        Raises ConnectFailed if none starts or the pool is closing.
        """
        members = tuple(self._members.values())
        outcomes = await asyncio.gather(*(_started(member, made) for member in members))
        failures = [outcome for outcome in outcomes if isinstance(outcome, ConnectFailed)]
        if len(failures) == len(members) or self._is_closing:
            await self.discard(made)
            raise failures[0] if failures else ConnectFailed(ServerLoss(self.name, "the pool is closing"))
        for failure in failures:
            logger.warning("%s", failure)

    async def _retire(self, used: ProcessSet) -> None:
        await self.discard(used)
        self._num_alive -= 1
        self._top_up()


@dataclass(frozen=True, slots=True)
class StockedServer:
    """A server of a stock: how to start its process in a set, and whether that fails at present."""

    name: str
    start: Callable[[ProcessSet], Awaitable[Session]]
    is_broken: Callable[[], bool]


async def _started(member: StockedServer, made: ProcessSet) -> Session | ConnectFailed:
    try:
        return await member.start(made)
    except ConnectFailed as error:
        return error


def grouped(specs: Sequence[ServerSpec]) -> list[list[ServerSpec]]:
    """Group the servers whose data folders overlap; every other server is its own group."""
    groups: list[tuple[list[ServerSpec], list[Path]]] = []
    for spec in specs:
        folders = list(named_data(spec).data) if is_enclosed(spec) else []
        together = [group for group in groups if _overlap(folders, group[1])]
        groups = [group for group in groups if group not in together]
        members = [member for group in together for member in group[0]]
        groups.append(([*members, spec], [*(folder for group in together for folder in group[1]), *folders]))
    return [members for members, _ in groups]


def _overlap(left: Sequence[Path], right: Sequence[Path]) -> bool:
    return any(one.is_relative_to(other) or other.is_relative_to(one) for one in left for other in right)


def uses_scratch(spec: ServerSpec) -> bool:
    """Return whether the server has its own directory in every episode."""
    texts = (spec.command or "", *spec.args, *spec.env.values(), str(spec.cwd or ""))
    return spec.options.template is not None or any(f"${{{EPISODE_DIR}}}" in text for text in texts)
