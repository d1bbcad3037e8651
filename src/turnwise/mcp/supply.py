"""One server's connections, handed to episodes as its isolation asks."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from turnwise.mcp.calls.gate import BreakerOpen, Gate
from turnwise.mcp.processes.scratch import Scratch, episode_path
from turnwise.mcp.processes.walls import Namespace
from turnwise.mcp.session import NO_NETWORK, CallFailed, ConnectFailed, Session, describe
from turnwise.mcp.spec import Data, Isolation, ServerSpec
from turnwise.mcp.stock import ProcessSet, Stock, StockedServer, uses_scratch
from turnwise.types import Cause, ServerLoss

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Holding:
    """One episode's hold on one server, from lease to release."""

    supply: "Supply"
    episode: str
    session: Session
    losses: list[ServerLoss]
    """The lease's own list: a lost connection is appended once."""
    was_used: bool = False
    is_lost: bool = False
    mourned: Session | None = None
    """The last session whose loss was appended."""
    process_set: ProcessSet | None = None
    """The episode's own processes; None without process isolation."""

    @property
    def is_private(self) -> bool:
        """Whether the server's processes and data belong to the episode alone."""
        options = self.supply.spec.options
        return self.process_set is not None and options.data is Data.PRIVATE and not options.network

    async def usable(self) -> Session:
        """Return the session to call; replaces a closed one. CallFailed if it held the episode's state."""
        if self.spent:
            raise CallFailed(Cause.TOOL_ERROR, self.spent, was_sent=False)
        self.note_death()
        if self.is_lost:
            raise CallFailed(Cause.CLOSED, describe(self.losses[-1]), was_sent=False)
        if not self.session.is_open:
            self.session = await self.supply.replacement(self.process_set)
        self.was_used = True
        return self.session

    @property
    def spent(self) -> str:
        """Why the episode's processes were ended, if it took too much of the disk."""
        return self.process_set.spent if self.process_set is not None else ""

    def note_death(self) -> None:
        """Append the loss of a closed session to `losses`, once; none if the episode itself is at fault."""
        if self.spent or self.session.is_open or self.mourned is self.session:
            return
        self.mourned = self.session
        self.is_lost = self.was_used and self.supply.isolation is not Isolation.SHARED
        self.losses.append(replace(self.session.loss, is_state_lost=self.is_lost))


class Supply:
    """One server's connections: a single shared one, or a fresh process for every episode from its stock."""

    def __init__(
        self,
        spec: ServerSpec,
        *,
        stock: Stock,
        tasks: asyncio.TaskGroup,
        scratch: Scratch,
        spawn_slots: asyncio.Semaphore,
        clean: Callable[[str], str],
    ) -> None:
        self.spec = spec
        self.gate = Gate(spec.options)
        self.isolation = spec.options.isolation
        self.stock = stock
        self._tasks = tasks
        self._scratch = scratch
        self._spawn_slots = spawn_slots
        self._clean = clean
        self._first: Session | None = None
        self._connecting = asyncio.Lock()
        self._live: set[Session] = set()
        self._is_closing = False
        self._has_told = False

    async def connect(self) -> Session:
        """Open the first connection, list the tools, resolve `auto` isolation; return the session."""
        async with self._connecting:
            if self._first is not None and (self._first.is_open or self.isolation is Isolation.PROCESS):
                return self._first  # another lease connected while we waited for the lock
            not_installed = None
            if self._first is None:
                not_installed = await self.stock.install(self.spec, self._open)
            first = await self.stock.new_set()
            try:
                session = await self._open(first)
                self._require_keyed_still(session)
            except ConnectFailed as error:
                await self.stock.discard(first)
                raise (not_installed or error) from None
            self._settle(session)
            self._first = session
            if self.isolation is Isolation.PROCESS:
                member = StockedServer(self.spec.name, self._open, lambda: self.gate.breaker.is_open)
                self.stock.add(member, first)
            return session

    async def acquire(self, episode: str, losses: list[ServerLoss], sets: dict[Stock, ProcessSet]) -> Holding:
        """Return a hold for one episode; raises ConnectFailed if the server cannot be started or reached.

        `sets` has the episode's process set of each stock; all servers of a stock share it.
        """
        await self.gate.patient(for_breaker=self.isolation is Isolation.PROCESS)
        if self.isolation is not Isolation.PROCESS:
            return Holding(self, episode, await self._current(), losses)
        session = await self._take(sets)
        return Holding(self, episode, session, losses, process_set=sets[self.stock])

    async def replacement(self, process_set: ProcessSet | None) -> Session:
        """Return a live session in place of a closed one that held no state of the episode."""
        if process_set is None:
            return await self._current()
        # the breaker has already admitted the call that asks
        return await self._open(process_set)

    async def release(self, holding: Holding) -> None:
        """Have a keyed server drop the episode's state; processes end with their set."""
        if self.isolation is Isolation.KEYED and holding.was_used:
            await holding.session.drop(holding.episode)

    async def close(self) -> None:
        self._is_closing = True
        await asyncio.gather(*(session.close() for session in self._live))

    def _require_keyed_still(self, session: Session) -> None:
        """Raise ConnectFailed if a server that kept episodes apart no longer does after a reconnect.

        A fault during the negotiation of the protocol version can hide that promise: all episodes would then
        share one state.
        """
        if self.keeps_episodes_apart and not session.introduction.keeps_episodes_apart:
            self.gate.breaker.failed()
            raise ConnectFailed(ServerLoss(self.spec.name, "came back without keeping episodes apart"))

    def _settle(self, session: Session) -> None:
        options, introduction = self.spec.options, session.introduction
        if options.isolation is Isolation.KEYED and not introduction.is_keyed:
            raise ValueError(
                f"server {self.spec.name!r}: isolation 'keyed', but it does not keep state per episode; "
                "use 'process', or 'shared' if it keeps no state"
            )
        if options.isolation is not Isolation.AUTO:
            self.isolation = options.isolation
        elif introduction.is_keyed:
            self.isolation = Isolation.KEYED
        elif self.spec.is_remote or introduction.is_stateless:
            self.isolation = Isolation.SHARED
        else:
            self.isolation = Isolation.PROCESS

    @property
    def keeps_episodes_apart(self) -> bool:
        """Whether the server itself promises that no episode sees the changes of another."""
        return self._first is not None and self._first.introduction.keeps_episodes_apart

    async def _current(self) -> Session:
        session = self._first
        return session if session is not None and session.is_open else await self.connect()

    def rest(self, seconds: float) -> None:
        """Send the server no calls for `seconds`, as it asked."""
        if not self.gate.rest_seconds:
            logger.warning("server %s asks for a rest of %.3g s", self.spec.name, seconds)
        self.gate.rest(seconds)

    async def _open(self, process_set: ProcessSet) -> Session:
        """Spawn or reach the server; if it asks for a rest, try again after it, within `patience_seconds`."""
        until = time.monotonic() + self.spec.options.patience_seconds
        while True:
            try:
                return await self._open_once(process_set)
            except ConnectFailed as error:
                if error.rest_seconds is not None:
                    self.rest(error.rest_seconds)
                if error.rest_seconds is None or time.monotonic() + self.gate.rest_seconds > until:
                    self.gate.breaker.failed()
                    raise
            await asyncio.sleep(self.gate.rest_seconds)

    async def _open_once(self, process_set: ProcessSet) -> Session:
        """Spawn or reach the server, within the pool's limit on concurrent spawns."""
        spec, namespace = self.spec, process_set.namespace
        async with self._spawn_slots:
            directory, is_own = None, False
            if uses_scratch(spec):
                is_own = namespace is None  # else it is one of the set's private folders
                directory = await self._directory(namespace)
            if self._is_closing:
                raise ConnectFailed(ServerLoss(spec.name, "was not started: the pool is closing"))
            session = Session(spec, directory, self._clean, namespace)
            process_set.sessions[spec.name] = session
            self._live.add(session)
            task = self._hold_open(session, directory if is_own else None)
            self._tasks.create_task(task, name=f"mcp {spec.name}")
            await session.wait_ready()
            return session

    async def _directory(self, namespace: Namespace | None) -> Path:
        if namespace is not None:
            return episode_path(self.spec.name)
        return await self._scratch.fresh(self.spec.name, self.spec.options.template)

    async def _hold_open(self, session: Session, directory: Path | None) -> None:
        try:
            await session.run()
        finally:
            self._live.discard(session)
            if (
                session.missed_network and session.introduction.tools and not self._has_told
            ):  # else its failure says so
                self._has_told = True
                logger.warning("server %s tried to reach the network; it %s", self.spec.name, NO_NETWORK)
            if directory is not None:
                await self._scratch.discard(directory)

    async def _take(self, sets: dict[Stock, ProcessSet]) -> Session:
        """Return a fresh process for a lease; raises ConnectFailed if the breaker is open."""
        try:
            is_trial = self.gate.breaker.admit()
        except BreakerOpen as error:
            raise ConnectFailed(ServerLoss(self.spec.name, f"is not being started: {error}")) from None
        try:
            if self.stock not in sets:
                sets[self.stock] = await self.stock.take()
            session = sets[self.stock].sessions.get(self.spec.name)
            if session is None or not session.is_open:
                session = await self._open(sets[self.stock])
            if is_trial:
                self.gate.breaker.succeeded()
            return session
        finally:
            if is_trial:
                self.gate.breaker.withdrawn()
