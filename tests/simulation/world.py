"""The world of one play: one cluster, one set of tables, and the lives of the processes in their slots.

A *slot* is a stable name (``dispatcher-1``), a *life* one process that ran under it. A killed life never acts again:
every port call of it raises Killed. What a role holds in memory dies with it; topics and tables stay.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from waterclock.dispatcher.loop import Dispatcher
from waterclock.retry_router.loop import RetryRouter
from waterclock.workers.executors.emitting import Emissions, Outlet
from waterclock.workers.executors.port import Attempt, EndedAttempt
from waterclock.workers.loop import Worker

from waterclock.clock import Clock, ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.model.events import Outcome
from waterclock.model.ids import US_PER_S, Instant, murmur2
from waterclock.recorder.loop import Recorder
from waterclock.role import Role
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.wire.names import Names, topic_specs

from .dice import dice
from .plan import POOLS, Plan

GENERATION = 1
NAMES = Names()
_SESSION_S = {"dispatcher": 6.0}
_HANDLER_US = (50_000, 500_000, 4_000_000)
OUTPUTS = "sim.outputs"
_GONE = "sim.gone"
"""A topic that was there when the handler emitted to it, and is not when the round is sent."""


class SkewedClock:
    """A machine's clock that is off by ``skew_us``. The monotonic one is nobody's to shift."""

    def __init__(self, true: ManualClock, skew_us: int) -> None:
        self._true = true
        self.skew_us = skew_us

    def now(self) -> Instant:
        return self._true.now() + self.skew_us

    def monotonic_s(self) -> float:
        return self._true.monotonic_s()


def emits_count(run_id: str) -> int:
    """How many records the code of a run with handler ``sim.emits`` sends: the same in each call of it."""
    return murmur2(run_id.encode()) % 4


class DrawnExecutors:
    """Executors that run no code: how long an attempt takes and how it ends is drawn. ``called`` is told each start."""

    def __init__(self, clock: Clock, rng: random.Random, called: Callable[[Attempt], None]) -> None:
        self._clock = clock
        self._rng = rng
        self._called = called
        self._running: list[tuple[float, EndedAttempt]] = []

    @property
    def busy(self) -> bool:
        """Whether user code is running."""
        return bool(self._running)

    def submit(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._called(attempt)
            ends_at_s = self._clock.monotonic_s() + self._rng.choice(_HANDLER_US) / US_PER_S
            self._running.append((ends_at_s, self._end(attempt)))

    def take_ended(self) -> list[EndedAttempt]:
        now_s = self._clock.monotonic_s()
        ended = [end for ends_at_s, end in self._running if ends_at_s <= now_s]
        self._running = [each for each in self._running if each[0] > now_s]
        return ended

    def wait(self, enough: int, timeout_s: float) -> None:
        """The schedule moves the clock."""

    def allow_until(self, monotonic_s: float) -> None:
        """Nothing runs that could be stopped."""

    def forget(self) -> None:
        self._running = []

    def stop(self, grace_s: float) -> None:
        self.forget()

    def _end(self, attempt: Attempt) -> EndedAttempt:
        handler = attempt.work.handler
        if handler == "sim.fails" or (handler == "sim.flaky" and self._rng.random() < 0.5):
            return EndedAttempt(attempt, Outcome.FAILED, error_class="Drawn", error_message="it was to fail")
        if handler == "sim.emits":
            return self._emitting(attempt)
        return EndedAttempt(attempt, Outcome.SUCCEEDED, result=b"1")

    def _emitting(self, attempt: Attempt) -> EndedAttempt:
        """Some fail after they have emitted, and some emit to a topic that is gone: nothing of either may be seen."""
        emissions = Emissions(Outlet(NAMES.prefix, lambda _: True), attempt.work)
        draw = self._rng.random()
        for number in range(emits_count(attempt.work.run_id)):
            emissions.emit(_GONE if number == 0 and draw < 0.05 else OUTPUTS, f"k{number}", attempt.work.run_id)
        if draw > 0.9:
            return EndedAttempt(attempt, Outcome.FAILED, error_class="Drawn", error_message="it was to fail")
        return EndedAttempt(attempt, Outcome.SUCCEEDED, emitted=emissions.close())


class Life:
    """One process. ``core`` is None while it is being built; one that is ``leaving`` drains and steps no more."""

    def __init__(self, slot: str, number: int) -> None:
        self.slot = slot
        self.role = slot.rpartition("-")[0]
        self.client = f"{slot}#{number}"
        self.core: Role | None = None
        self.alive = True
        self.leaving = False


class World:
    """Everything that outlives a process, and the newest life of every slot."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = ManualClock(plan.start_at)
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, plan.partitions, POOLS):
            append_time = spec.config.get("message.timestamp.type") == "LogAppendTime"
            compact = spec.config.get("cleanup.policy") == "compact"
            self.cluster.create_topic(spec.name, spec.partitions, append_time=append_time, compact=compact)
        self.cluster.create_topic(OUTPUTS, plan.partitions)
        self.tables = MemoryTables(self.clock)
        self.outside = MemoryLog(self.cluster, "outside")
        self.clocks = {slot: SkewedClock(self.clock, skew_us) for slot, skew_us in plan.skew_us.items()}
        self.skew_us_max = max(abs(skew_us) for skew_us in plan.skew_us.values())
        self.newest: dict[str, Life] = {}
        self.lives: dict[str, Life] = {}
        self.executors: dict[str, DrawnExecutors] = {}
        self.calls: list[dict[str, object]] = []
        """The ledger outside the system: every start of user code."""
        self._owners: dict[int, str] = {}

    def transactional_id(self, slot: str) -> str:
        """Of the slot's producer."""
        return NAMES.transactional_id(slot.rpartition("-")[0], slot)

    def register(self, slot: str) -> Life:
        """A new life for a slot. Whoever lived there before is not touched."""
        life = Life(slot, len(self.lives) + 1)
        self.lives[life.client] = self.newest[slot] = life
        return life

    def build(self, life: Life) -> None:
        """Build the life's core. Raises what building raises."""
        log = MemoryLog(self.cluster, life.client, session_timeout_s=_SESSION_S.get(life.role, 10.0))
        life.core = self._core(life, log, self.clocks[life.slot])

    def kill(self, life: Life) -> None:
        """SIGKILL."""
        life.alive = False
        self.executors.pop(life.client, None)
        self.cluster.kill(life.client)

    def skew(self, slot: str, skew_us: int) -> None:
        """Step the wall clock of one slot."""
        self.clocks[slot].skew_us = skew_us
        self.skew_us_max = max(self.skew_us_max, abs(skew_us))

    def count_take_overs(self, counts: Counter[str]) -> None:
        """Compare who owns the shards with who owned them last."""
        group = self.cluster.group(NAMES.group("dispatcher"))
        for member in group._members.values():
            for place in member.assignment:
                before = self._owners.get(place.partition)
                slot = str(member.instance)
                if before is not None and before != slot:
                    counts["take-over"] += 1
                self._owners[place.partition] = slot

    def _core(self, life: Life, log: MemoryLog, clock: Clock) -> Role:
        slot, store = life.slot, MemoryStore(clock, self.tables, life.client)
        if life.role == "dispatcher":
            pace = self.plan.pace
            return Dispatcher(clock, log, store, NAMES, instance=slot, generation=GENERATION, pace=pace)
        if life.role == "worker":
            executors = DrawnExecutors(clock, dice(self.plan.seed, f"handlers/{life.client}"), self._note_call(life))
            self.executors[life.client] = executors
            return Worker(
                clock,
                log,
                NAMES,
                executors,
                worker=slot,
                slots=8,
                generation=GENERATION,
                process=life.client,
                pool=self.plan.pool_of.get(slot, "default"),
            )
        if life.role == "recorder":
            return Recorder(log, store, clock, NAMES, slot, generation=GENERATION)
        return RetryRouter(log, clock, NAMES, slot, generation=GENERATION)

    def _note_call(self, life: Life) -> Callable[[Attempt], None]:
        def note(attempt: Attempt) -> None:
            work = attempt.work
            emits = emits_count(work.run_id) if work.handler == "sim.emits" else 0
            call = {"run_id": work.run_id, "attempt": work.attempt, "token": attempt.token, "worker": life.slot}
            self.calls.append({**call, "emits": emits})

        return note
