"""What every route stands on: ports, threads, waiters, limits; made once, started and stopped with the server.

What must hold: blocking calls never run on the event loop, no more of them wait than there may be, and no tenant takes
all threads (``turns.py``); whatever is started here is stopped here, within seconds. How it fails: a thread that dies
ends the process (``on_death``).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, ParamSpec, TypeVar

from waterclock.clock import Clock
from waterclock.log.port import Log, TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.events import Answered, Revised
from waterclock.model.ids import US_PER_S, Instant
from waterclock.serving import Served, who_serves
from waterclock.settings import Settings
from waterclock.store.made_runs import UpkeptStore
from waterclock.store.placing import Placing
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from .answers import Answers
from .crew import Crew
from .keyring import Keyring
from .measures import Measures
from .outbox import LINGER_S, Outbox
from .problems import Problem, busy
from .rates import Rates
from .resting import Resting
from .tail import SeenBatch, Tail
from .turning import Turning
from .turns import Turns
from .watchers import Watchers

_QUESTIONS_MAX = 200
APART_US = 60 * US_PER_S
"""How far the clocks of processes may be apart. Where it is more, an operation may be pending for good."""
_STOP_S = 12.0
_LOOK_S = 2.0
_BELIEVED_S = 10.0
STUCK_S = 30.0
"""A thread that has not moved for so long is stuck."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Services:
    """One API process without its HTTP. ``start`` and the routes belong to one event loop."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        log: Log,
        store: UpkeptStore,
        *,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        limits = settings.api
        self.settings = settings
        self.clock = clock
        self.log = log
        self.store = store
        self.names = Names(settings.kafka.prefix)
        self.pools = Pools(log, self.names, clock)
        self.measures = Measures()
        self.answers = Answers()
        self.watchers = Watchers(limits.streams_max)
        self.outbox = Outbox(log.appender(linger_s=LINGER_S), limits.queue_max)
        self.rates = Rates(clock, limits.rate_per_s, limits.burst)
        self.keyring = Keyring(store, clock, self.call, tenant=settings.tenant, require_key=limits.require_key)
        self.crew = Crew(clock, self._who_serves)
        self.placing = Placing(clock, [settings.tenant, *settings.intake.tenants.values()])
        self.importing = Turns(2)
        """So many calendar files are read at once: each by a process of its own."""
        self.picking = Turns(1)
        """One has a second picked at a time."""
        self.looking_back = asyncio.Lock()
        """One reads much of the log's past at a time."""
        self.in_flight: set[tuple[str, str]] = set()
        """(tenant, Idempotency-Key) of the requests that are being served."""
        self._on_death = on_death
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="store")
        self._turns = Turns(limits.threads)
        self._turns_back = Turns(1)
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="log")  # one: its questions go through one client
        self._questions = 0
        self._threads: list[Turning] = []
        self._looking: asyncio.Task[None] | None = None
        self._seen_s: dict[str, float] = {}
        self.tail: Tail | None = None
        self.searched: OrderedDict[str, int] = OrderedDict()
        """By operation, up to which offset of its partition its answer was looked for in vain."""
        self.resting = Resting(clock, self._turn_tail)
        self.resting.needs += [lambda: self.answers.are_owed(clock.now()), lambda: len(self.watchers) > 0]

    # -- life

    async def start(self, *, threads: bool = True) -> None:
        """Begin to read and to send. ``threads`` False: somebody else steps outbox and tail. Raises BackendDown."""
        loop = asyncio.get_running_loop()
        self.tail = tail = Tail(self.log, self.names.run_events, loop, self._take, self._tail_began, self._tail_missed)
        self.watchers.positions.update(await self.ask(tail.begin))
        self.resting.start()
        self._show()
        if threads:
            for name, core in (("outbox", self.outbox), ("tail", tail)):
                turning = Turning(name, core.step, self.clock, close=core.close, on_death=self._on_death)
                turning.start()
                self._threads.append(turning)
        await self._look()
        self._looking = asyncio.create_task(self._look_for_ever())

    async def stop(self) -> None:
        """End streams, send what waits, let go of the ports."""
        self.watchers.close()
        if self._looking is not None:
            self._looking.cancel()
        for turning in self._threads:
            await asyncio.to_thread(turning.stop, _STOP_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._asking.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def next_command_id() -> str:
        """Unique, and not to be guessed: an answer is found by it."""
        return f"api-{secrets.token_hex(16)}"

    # -- blocking calls

    async def call(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a call of the store, or heavy work, off the loop. Raises what that raises; Problem (503) at the bound."""
        async with self._turns.turn():
            return await _run(self._pool, function, *args, **kwargs)

    async def ask(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Ask the log something, one question at a time. Raises what that raises; Problem (503) at the bound."""
        if self._questions >= _QUESTIONS_MAX:
            raise busy(f"{_QUESTIONS_MAX} questions to the log wait")
        self._questions += 1
        try:
            return await _run(self._asking, function, *args, **kwargs)
        finally:
            self._questions -= 1

    async def look_back(
        self, turn_within_s: float | None, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs
    ) -> _R:
        """As ``ask``, for what reads much of the log: one at a time, so that short questions never wait for two; and of
        each tenant one waits for that, so that tenants take turns.

        Raises Problem (503) where it is not its turn within ``turn_within_s``.
        """
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(turn_within_s):
                    await turn.enter_async_context(self._turns_back.turn())
                    await turn.enter_async_context(self.looking_back)
            except TimeoutError:
                raise busy("others are reading the past of the log") from None
            return await self.ask(function, *args, **kwargs)

    async def follow(self) -> None:
        """Have run-events read from now on: before anything is sent whose answer is waited for. Raises BackendDown."""
        await self.resting.follow()

    def would_have_seen(self, job_id: str, command_id: str, sent_at: Instant) -> bool:
        """Whether an answer to what was sent then has passed this process, or has not come yet.

        Then there is no use in a search through the log: whoever follows an operation asks several times a second.
        Another process may have sent it, by a clock that is ahead of ours: so what was sent within ``APART_US`` after
        we began to follow is searched for all the same. The price is a short read for each question, for a minute.
        """
        since = self.resting.followed_since
        if since is None:
            return False
        if self.answers.is_owed(job_id, command_id):
            return True
        return sent_at > max(since, self.answers.forgotten_until) + APART_US

    async def _who_serves(self) -> dict[str, Served]:
        lease_ttl_s = self.settings.worker.lease_ttl_s
        return await self.ask(who_serves, self.log, self.names, lease_ttl_s=lease_ttl_s, now=self.clock.now())

    # -- how it goes

    def stuck(self) -> list[str]:
        """The threads that have not moved for ``STUCK_S``: progress, not the process, is what /healthz tells."""
        now_s = self.clock.monotonic_s()
        return [turning.name for turning in self._threads if now_s - turning.moved_s > STUCK_S]

    def away(self) -> list[str]:
        """The backends that have not answered lately: then there is no use in sending requests here."""
        now_s = self.clock.monotonic_s()
        return [name for name in ("kafka", "cassandra") if now_s - self._seen_s.get(name, -1e9) > _BELIEVED_S]

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self.resting.look()
            await self._look()

    async def _look(self) -> None:
        """Ask each backend something small."""
        first = TopicPartition(self.names.run_events, 0)
        questions: dict[str, Callable[[], Awaitable[Any]]] = {
            "kafka": lambda: self.ask(self.log.high_watermark, first),
            "cassandra": lambda: self.call(self.store.release),
        }
        for name, question in questions.items():
            try:
                await question()
            except (BackendDown, Problem):  # a Problem: too many wait already
                continue  # `away` tells
            self._seen_s[name] = self.clock.monotonic_s()

    def _follows(self) -> float:
        return float(self.resting.followed_since is not None)

    def _turn_tail(self, turn: int) -> None:
        assert self.tail is not None
        if not turn:
            self.answers.pass_unseen()
        self.tail.turn_to(turn)

    def _tail_began(self, turn: int, ends: Mapping[int, int]) -> None:
        self.resting.began(turn, ends, self.watchers.positions)

    def _tail_missed(self, ends: Mapping[int, int]) -> None:
        self.answers.pass_unseen()
        self.resting.miss()
        self.watchers.miss(ends)

    def _take(self, batch: SeenBatch) -> None:
        for seen in batch.orders:
            detail = seen.event.detail
            if isinstance(detail, Answered):
                self.answers.settle(seen.event.job_id, detail, self.clock.now())
            elif isinstance(detail, Revised):
                self.answers.revised(seen.job_id, detail)
        self.watchers.take(batch)

    def _show(self) -> None:
        gauge = self.measures.gauge
        gauge("waterclock_api_commands_waiting", "Commands that wait for the log", lambda: self.outbox.depth)
        gauge("waterclock_api_answers_awaited", "Commands whose answer is waited for", lambda: self.answers.waiting)
        gauge("waterclock_api_streams", "Open streams of events", lambda: len(self.watchers))
        gauge("waterclock_api_follows", "Whether run-events are read: 0 while nobody wants what comes", self._follows)


async def _run(pool: ThreadPoolExecutor, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, lambda: function(*args, **kwargs))
