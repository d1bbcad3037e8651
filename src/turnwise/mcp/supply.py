"""Takes one server's spec, keeps connections to it ready, and hands them to episodes by its isolation."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import mcp_types as wire

from turnwise.mcp.gate import BreakerOpen, Gate
from turnwise.mcp.scratch import Scratch
from turnwise.mcp.session import CallFailed, ConnectFailed, Session, describe
from turnwise.mcp.spec import EPISODE_DIR, Isolation, ServerSpec
from turnwise.types import Cause, ServerLoss

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Holding:
    """One episode's hold on one server, from lease to release."""

    supply: "Supply"
    episode: str
    session: Session
    losses: list[ServerLoss]
    """The lease's own list: every death noticed through this hold is told there."""
    was_used: bool = False
    is_lost: bool = False
    mourned: Session | None = None
    """The last session whose death the lease was told of."""

    async def usable(self) -> Session:
        """The session to call now: a dead one is replaced, unless the episode's state died with it."""
        self.note_death()
        if self.is_lost:
            raise CallFailed(Cause.CLOSED, describe(self.losses[-1]), was_sent=False)
        if not self.session.is_open:
            self.session = await self.supply.replacement(self.session)
        self.was_used = True
        return self.session

    def note_death(self) -> None:
        """Tell the lease, once, that the server behind it is gone."""
        if self.session.is_open or self.mourned is self.session:
            return
        self.mourned = self.session
        self.is_lost = self.was_used and self.supply.isolation is not Isolation.SHARED
        self.losses.append(replace(self.session.loss, is_state_lost=self.is_lost))


class Supply:
    """One server's connections: a single shared one, or a stock of fresh processes kept ahead of demand."""

    def __init__(
        self,
        spec: ServerSpec,
        *,
        tasks: asyncio.TaskGroup,
        scratch: Scratch,
        spawn_slots: asyncio.Semaphore,
        clean: Callable[[str], str],
    ) -> None:
        self.spec = spec
        self.gate = Gate(spec.options)
        self.isolation = spec.options.isolation
        self._tasks = tasks
        self._scratch = scratch
        self._spawn_slots = spawn_slots
        self._clean = clean
        self._first: Session | None = None
        self._connecting = asyncio.Lock()
        self._ready: asyncio.Queue[Session | ConnectFailed] = asyncio.Queue()
        self._num_waiting = 0
        self._num_spawning = 0
        self._num_alive = 0
        self._live: set[Session] = set()
        self._is_closing = False

    async def connect(self) -> Session:
        """Open the first connection, learn the tools, settle what `auto` means; returns that session."""
        async with self._connecting:
            if self._first is not None and (self._first.is_open or self.isolation is Isolation.PROCESS):
                return self._first  # leases that came together: one of them was here before
            session = await self._open()
            self._settle(session)
            self._first = session
            if self.isolation is Isolation.PROCESS:
                self._num_alive += 1
                self._ready.put_nowait(session)
                self._top_up()
            return session

    async def acquire(self, episode: str, losses: list[ServerLoss]) -> Holding:
        """A hold for one episode; raises ConnectFailed when the server cannot be had."""
        await self.gate.patient()
        session = await (self._take() if self.isolation is Isolation.PROCESS else self._current())
        return Holding(self, episode, session, losses)

    async def replacement(self, dead: Session) -> Session:
        """A live session in place of a dead one that holds nothing of the episode's."""
        if self.isolation is not Isolation.PROCESS:
            return await self._current()
        self._recycle(dead)
        return await self._next()  # the call that asks has been admitted by the breaker already

    async def release(self, holding: Holding) -> None:
        """Drop what the episode left behind; a process that was used is never used again."""
        if self.isolation is Isolation.PROCESS:
            self._recycle(holding.session)
        elif self.isolation is Isolation.KEYED and holding.was_used:
            await holding.session.drop(holding.episode)

    async def close(self) -> None:
        self._is_closing = True
        await asyncio.gather(*(session.close() for session in self._live))

    def _settle(self, session: Session) -> None:
        options = self.spec.options
        if options.isolation is Isolation.KEYED and not session.is_keyed:
            raise ValueError(
                f"server {self.spec.name!r}: isolation 'keyed', but it does not keep state per episode; "
                "use 'process', or 'shared' if it keeps no state"
            )
        if options.isolation is not Isolation.AUTO:
            self.isolation = options.isolation
        elif session.is_keyed:
            self.isolation = Isolation.KEYED
        elif self.spec.is_remote or all(is_read_only(tool) for tool in session.tools):
            self.isolation = Isolation.SHARED
        else:
            self.isolation = Isolation.PROCESS

    async def _current(self) -> Session:
        session = self._first
        return session if session is not None and session.is_open else await self.connect()

    def rest(self, seconds: float) -> None:
        """Leave the server alone for so long, as it asks."""
        if not self.gate.rest_seconds:
            logger.warning("server %s asks for a rest of %.3g s", self.spec.name, seconds)
        self.gate.rest(seconds)

    async def _open(self) -> Session:
        """Spawn or reach the server; one that asks for a rest is given it, as long as there is patience."""
        until = time.monotonic() + self.spec.options.patience_seconds
        while True:
            try:
                return await self._open_once()
            except ConnectFailed as error:
                if error.rest_seconds is not None:
                    self.rest(error.rest_seconds)
                if error.rest_seconds is None or time.monotonic() + self.gate.rest_seconds > until:
                    self.gate.breaker.failed()
                    raise
            await asyncio.sleep(self.gate.rest_seconds)

    async def _open_once(self) -> Session:
        """Spawn or reach the server, within the pool's bound on spawns at once."""
        spec = self.spec
        async with self._spawn_slots:
            directory = None
            if _uses_scratch(spec):
                directory = await self._scratch.fresh(spec.name, spec.options.template)
            if self._is_closing:
                raise ConnectFailed(ServerLoss(spec.name, "was not started: the pool is closing"))
            session = Session(spec, directory, self._clean)
            self._live.add(session)
            self._tasks.create_task(self._hold_open(session), name=f"mcp {spec.name}")
            await session.opened()
            return session

    async def _hold_open(self, session: Session) -> None:
        try:
            await session.run()
        finally:
            self._live.discard(session)
            if session.directory is not None:
                await self._scratch.discard(session.directory)

    async def _take(self) -> Session:
        """A fresh process for a lease, if the breaker lets us have one."""
        try:
            is_trial = self.gate.breaker.admit()
        except BreakerOpen as error:
            raise ConnectFailed(ServerLoss(self.spec.name, f"is not being started: {error}")) from None
        try:
            session = await self._next()
            if is_trial:
                self.gate.breaker.succeeded()
            return session
        finally:
            if is_trial:
                self.gate.breaker.withdrawn()

    async def _next(self) -> Session:
        """The next fresh process; waits for one to be spawned, or to be given back when all are out."""
        self._num_waiting += 1
        try:
            while True:
                self._top_up()
                item = await self._ready.get()
                if isinstance(item, ConnectFailed):
                    raise item
                if item.is_open:
                    return item
                self._recycle(item)
        finally:
            self._num_waiting -= 1
            self._top_up()

    def _top_up(self) -> None:
        """Start as many spawns as waiting episodes and the warm stock ask for, up to the limit."""
        if self._is_closing:
            return
        options = self.spec.options
        wanted = self._num_waiting + options.num_warm - self._ready.qsize() - self._num_spawning
        if self.gate.breaker.is_open:
            wanted = min(wanted, self._num_waiting - self._num_spawning)
        for _ in range(min(wanted, options.max_processes - self._num_alive)):
            self._num_spawning += 1
            self._num_alive += 1
            self._tasks.create_task(self._stock(), name=f"mcp spawn {self.spec.name}")

    async def _stock(self) -> None:
        try:
            session = await self._open()
        except ConnectFailed as error:
            self._num_alive -= 1
            if self._num_waiting:
                self._ready.put_nowait(error)
            elif not self._is_closing:
                logger.warning("%s", error)
        else:
            self._ready.put_nowait(session)
        finally:
            self._num_spawning -= 1

    def _recycle(self, session: Session) -> None:
        """Close a used process behind the scenes and let another be spawned."""
        if not self._is_closing:
            self._tasks.create_task(self._retire(session), name=f"mcp retire {self.spec.name}")

    async def _retire(self, session: Session) -> None:
        await session.close()
        self._num_alive -= 1
        self._top_up()


def _uses_scratch(spec: ServerSpec) -> bool:
    texts = (spec.command or "", *spec.args, *spec.env.values(), str(spec.cwd or ""))
    return spec.options.template is not None or any(f"${{{EPISODE_DIR}}}" in text for text in texts)


def is_read_only(tool: wire.Tool) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True
