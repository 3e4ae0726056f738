"""The supervisor: servers side by side, then the roles; what dies comes back; Ctrl-C drains in reverse.

A page of story: bring up (servers -> topics and schema -> the roles that need them, each behind its readiness gate),
keep (one watcher per process), drain (the first rank that makes work stops first, the servers last), all within ten
seconds. The state file always says what is so. A second Ctrl-C kills at once, which loses nothing either.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from .member import Member, Process
from .state import StackState, birth_of, write_state

_SERVER_READY_S = 180.0
_ROLE_READY_S = 120.0
_DRAIN_S = 9.0
_SERVERS_S = 5.0
_LAST_MOMENT_S = 0.5


class ServerPlan(NamedTuple):
    """A server to start, and what to do once it answers (make topics, run the schema): told in a line."""

    name: str
    launch: Callable[[], Process]
    prepare: Callable[[Process], str]


class RolePlan(NamedTuple):
    """A role to start. ``stop_rank``: the lowest stops first. ``needs``: which servers must be prepared; None: all."""

    name: str
    launch: Callable[[], Process]
    stop_rank: int
    needs: frozenset[str] | None = None


class Whereabouts(NamedTuple):
    """Where the servers are, for those who read the state file."""

    bootstrap: str
    contact_points: str
    cassandra_port: int
    api: str = ""


class Supervisor:
    """Runs one stack in one data folder. ``where`` is asked once the servers are known."""

    def __init__(
        self,
        data_dir: Path,
        servers: Sequence[ServerPlan],
        roles: Sequence[RolePlan],
        *,
        where: Callable[[], Whereabouts],
        say: Callable[[str], None],
    ) -> None:
        self._data_dir = data_dir
        self._where = where
        self._heard = say
        self._is_written = True
        self._phase = "starting"
        self._started_at_s = time.time()
        self._plans = servers
        self._role_plans = roles
        self._servers = [self._member(plan.name, plan.launch, _SERVER_READY_S) for plan in servers]
        self._ranks = {plan.name: plan.stop_rank for plan in roles}
        self._roles = [self._member(plan.name, plan.launch, _ROLE_READY_S) for plan in roles]
        self._stop = asyncio.Event()
        self._watchers: list[asyncio.Task[None]] = []

    async def run(self, when_ready: Callable[[], None]) -> None:
        """Bring everything up, keep it until SIGINT or SIGTERM, drain. Raises StackTrouble when it cannot start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._asked_to_stop)
        bringing_up = asyncio.create_task(self._bring_up())
        asked = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((bringing_up, asked), return_when=asyncio.FIRST_COMPLETED)
            if bringing_up.done():
                bringing_up.result()
                when_ready()  # before the state file says so: whoever waits for that finds everything said
                self._enter("ready")
                await asked
        finally:
            bringing_up.cancel()
            asked.cancel()
            await asyncio.gather(bringing_up, return_exceptions=True)
            await self._drain()

    async def _bring_up(self) -> None:
        """All servers side by side, each with its preparation; a role as soon as those that it needs are prepared."""
        prepared = {plan.name: asyncio.Event() for plan in self._plans}
        for member in self._servers:
            member.launch()
        try:
            async with asyncio.TaskGroup() as group:
                for server, member in zip(self._plans, self._servers, strict=True):
                    group.create_task(self._server_up(server, member, prepared[server.name]))
                for role, member in zip(self._role_plans, self._roles, strict=True):
                    needed = [event for name, event in prepared.items() if role.needs is None or name in role.needs]
                    group.create_task(self._role_up(member, needed))
        except ExceptionGroup as failed:  # the first cause is the one to tell
            raise failed.exceptions[0] from None

    async def _server_up(self, plan: ServerPlan, member: Member, prepared: asyncio.Event) -> None:
        await member.first_ready()
        process = member.process
        assert process is not None, "ready without a process"
        self._say(f"{member.name} ready: {getattr(process, 'address', '')}")
        self._say(await _left_behind_at_a_stop(lambda: plan.prepare(process)))
        self._watch(member)
        prepared.set()

    async def _role_up(self, member: Member, needed: Sequence[asyncio.Event]) -> None:
        for event in needed:
            await event.wait()
        member.launch()
        await member.first_ready()
        self._say(f"{member.name} ready")
        self._watch(member)

    def _watch(self, member: Member) -> None:
        self._watchers.append(asyncio.create_task(member.keep()))

    async def _drain(self) -> None:
        """Nobody is restarted from here on; those that make work stop first, the servers last."""
        deadline = time.monotonic() + _DRAIN_S
        self._enter("stopping")
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for rank in sorted(set(self._ranks.values())):
            members = [member for member in self._roles if self._ranks[member.name] == rank]
            left_s = max(_LAST_MOMENT_S, deadline - _SERVERS_S - time.monotonic())
            await asyncio.gather(*(member.stop(left_s) for member in members))
        left_s = max(_LAST_MOMENT_S, deadline - time.monotonic())
        await asyncio.gather(*(member.stop(left_s) for member in self._servers))
        self._enter("stopped")

    def _asked_to_stop(self) -> None:
        if not self._stop.is_set():
            self._say("stopping (once more to kill)")
            self._stop.set()
            return
        for member in (*self._roles, *self._servers):
            if member.process is not None:
                member.process.kill()

    def _member(self, name: str, launch: Callable[[], Process], ready_within_s: float) -> Member:
        return Member(name, launch, ready_within_s=ready_within_s, say=self._say, changed=self._publish)

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._publish()

    def _publish(self) -> None:
        pid = os.getpid()
        where = self._where()
        state = StackState(
            pid=pid,
            born=birth_of(pid),
            phase=self._phase,
            started_at_s=self._started_at_s,
            bootstrap=where.bootstrap,
            contact_points=where.contact_points,
            cassandra_port=where.cassandra_port,
            processes=tuple(member.state() for member in (*self._servers, *self._roles)),
            api=where.api,
        )
        try:
            write_state(self._data_dir, state)
        except OSError as error:  # the disk is full, say: what runs is kept, and the next change is written again
            if self._is_written:
                self._say(f"the state file is out of date, it cannot be written: {error}")
            self._is_written = False
        else:
            self._is_written = True

    def _say(self, line: str) -> None:
        """Whoever listened may be gone, and a log may be full: that ends nothing."""
        with suppress(OSError):
            self._heard(line)


async def _left_behind_at_a_stop(work: Callable[[], str]) -> str:
    """What ``work`` returns or raises. Nobody joins its thread where the wait is cancelled.

    A thread of asyncio's own pool would be: topics and tables are asked for up to a minute, of servers that are gone.
    """
    found: Future[str] = Future()
    found.set_running_or_notify_cancel()  # so it is never cancelled itself, and takes what comes too late

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            found.set_exception(error)

    Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(found)
