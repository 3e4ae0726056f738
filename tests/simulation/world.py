"""The world of one play: one cluster, one set of tables, and the lives of the processes in their slots.

A *slot* is a stable name (``dispatcher-1``), a *life* one process that ran under it. A killed life never acts again:
every port call of it raises Killed. What a role holds in memory dies with it; topics and tables stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from waterclock.dag_engine.loop import DagEngine
from waterclock.dispatcher.loop import Dispatcher
from waterclock.dispatcher.pace import Pace
from waterclock.retry_router.keeper import Keeper
from waterclock.retry_router.ladder import Ladder
from waterclock.retry_router.loop import RetryRouter
from waterclock.workers.executors.port import Attempt
from waterclock.workers.loop import Worker

from tests.skewed_clock import SkewedClock
from waterclock.clock import Clock, ManualClock
from waterclock.intake.confluent import NoRegistry
from waterclock.intake.judge import Judge
from waterclock.intake.loop import Intake
from waterclock.intake.topic_listener import TopicListener
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Committed, Isolation, Record, TopicPartition
from waterclock.model.events import Ended, EventKind, RunEvent, Started
from waterclock.model.fold import WINDOW
from waterclock.model.ids import Instant, job_of_run, ordinal
from waterclock.model.job import Tier
from waterclock.recorder.loop import Recorder
from waterclock.role import Role
from waterclock.settings import WorkerSettings
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.wire.messages import event_message
from waterclock.wire.names import ROLES_WITH_STATE, Names, topic_specs
from waterclock.wire.pools import Pools

from .api_process import ApiProcess
from .dice import dice
from .handlers import OUTPUTS, DrawnExecutors, emits_count
from .hearing import HearingLog, is_behind
from .history import History
from .holders import Holders
from .in_hand import InHand
from .intake_process import IntakeProcess
from .late_answers import LateAnswers
from .onlooker import Onlooker
from .plan import POOLS, Plan
from .senders import ACME_EVENTS, OTHER_TENANT, OWN_TENANT, SHOP, SOLD, tenants_of
from .tenants import put_keys

GENERATION = 1
NAMES = Names()
_POLLS_MAX = 10_000
_SESSION_S = {"dispatcher": 6.0}


class Life:
    """One process. ``core`` is None while it is being built; one that is ``leaving`` drains and steps no more."""

    def __init__(self, slot: str, number: int) -> None:
        self.slot = slot
        self.role = slot.rpartition("-")[0]
        self.client = f"{slot}#{number}"
        self.core: Role | None = None
        self.alive = True
        self.leaving = False
        self.log: HearingLog | None = None
        self.idle_turns = 0
        self.rests_until = 0


class World:
    """Everything that outlives a process, and the newest life of every slot."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = ManualClock(plan.start_at)
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, plan.partitions, POOLS, ingress=(ACME_EVENTS,)):
            append_time = spec.config.get("message.timestamp.type") == "LogAppendTime"
            compact = spec.config.get("cleanup.policy") == "compact"
            self.cluster.create_topic(spec.name, spec.partitions, append_time=append_time, compact=compact)
        self.cluster.create_topic(OUTPUTS, plan.partitions)
        self.cluster.create_topic(SHOP, plan.partitions)
        self.tables = MemoryTables(self.clock)
        self.outside = MemoryLog(self.cluster, "outside")
        self.clocks = {slot: SkewedClock(self.clock, skew_us) for slot, skew_us in plan.skew_us.items()}
        self.skews = [(slot, 0, skew_us) for slot, skew_us in plan.skew_us.items()]
        """Whose clock was off from when on, and by how much, in the order of time."""
        put_keys(MemoryStore(self.clock, self.tables, "outside"), {OWN_TENANT, OTHER_TENANT}, plan.start_at)
        self.history = History()
        self.newest: dict[str, Life] = {}
        self.lives: dict[str, Life] = {}
        self.executors: dict[str, DrawnExecutors] = {}
        self.calls: list[dict[str, object]] = []
        """The ledger outside the system: every start of user code."""
        self.in_hand: list[InHand] = []
        """Of each process of a worker: what it had in hand, and when that was asked to stop."""
        self.leases: dict[TopicPartition, dict[int, tuple[Record, Instant]]] = {}
        """Every committed record of ``leases``, also those that the log cleaner has removed since, and when it came."""
        self.stood: list[tuple[str, Instant, Instant, str]] = []
        """Who stood still, from when to when by the brokers' clock, and before which call."""
        self.forged: set[tuple[int, int]] = set()
        """Partition and offset of the records on run-events that no role wrote."""
        self.has_healed = False
        self.is_closing = False
        """Nothing new is asked for any more: user code ends soon, and well."""
        self.healed_at: Instant = 0
        self.cursors_lost: list[Instant] = []
        """When a tool erased those of the dispatchers."""
        self.lost_roles: set[str] = set()
        """Roles whose groups have lost their positions."""
        self.swallowed: list[tuple[str, int, int, int]] = []
        """Topic, partition, first offset and end of the work that was passed over behind its workers' backs."""
        self.holders = Holders(self.cluster)
        self.rows_lost: list[str] = []
        """Jobs whose next row the store has lost; ``rows_missing``: those that the sweep had not made good in its time;
        ``rows_repaired``: those of which it says so."""
        self.rows_missing: list[str] = []
        self.rows_repaired: list[str] = []
        self.zone_is_gone = False
        self.take_zone_away: Callable[[], None] = lambda: None
        self.late_us: Callable[[], int] = lambda: 0
        """How long the store's answer to an errand takes."""
        self.onlooker = Onlooker(self.outside, NAMES)
        self._owners: dict[int, Life] = {}
        self._herds: dict[str, Counter[str]] = {}
        self._wakes: dict[str, int] = {}
        self._transaction_s = {"worker": WorkerSettings(lease_ttl_s=plan.lease_s).transaction_timeout_s}

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
        clock = self.clocks[life.slot]
        life.log = log = HearingLog(
            self.cluster,
            life.client,
            transaction_timeout_s=self._transaction_s.get(life.role, 10.0),
            session_timeout_s=_SESSION_S.get(life.role, 10.0),
            clock=clock,
        )
        life.core = self._core(life, log, clock)

    def kill(self, life: Life) -> None:
        """SIGKILL."""
        life.alive = False
        self.executors.pop(life.client, None)
        self.cluster.kill(life.client)
        if isinstance(life.core, ApiProcess):
            life.core.abandon()

    def compact(self) -> None:
        """The log cleaner comes by; what it takes from ``leases`` is evidence, and kept outside."""
        self.keep_leases()
        for topic in (*map(NAMES.state, ROLES_WITH_STATE), NAMES.leases):
            self.cluster.compact(topic)

    def keep_leases(self) -> None:
        """Take what stands on ``leases``."""
        places = [TopicPartition(NAMES.leases, number) for number in range(self.plan.partitions)]
        appended = {place: self.appended_at(place) for place in places}
        reader = self.outside.reader(Isolation.COMMITTED)
        reader.assign(dict.fromkeys(places, 0))
        for _ in range(_POLLS_MAX):
            if not is_behind(reader._cursor):
                return
            for record in reader.poll(1_000, 0.0):  # a short poll may bring none, and is not the end
                place = TopicPartition(record.topic, record.partition)
                self.leases.setdefault(place, {})[record.offset] = record, appended[place][record.offset]
        raise RuntimeError("leases was not read to its end")

    def appended_at(self, place: TopicPartition) -> dict[int, Instant]:
        """By offset when each record there was appended, by the brokers' clock: stamps are their writers'."""
        return {entry.offset: entry.appended_us for entry in self.cluster.partition(place)._entries}

    def forge(self, run_id: str, attempt: int, worker: str, kind: EventKind) -> None:
        """A claim by somebody who did not get the attempt, and its outcome under the token of that claim."""
        now, job_id = self.clock.now(), job_of_run(run_id)
        claim = RunEvent(EventKind.STARTED, job_id, run_id, now, attempt, worker, detail=Started("sim.torn", 0, 0))
        appender = self.outside.appender()
        place = appender.append(event_message(NAMES, claim))
        assert place.offset is not None
        token = ordinal(GENERATION, place.offset)
        outcome = RunEvent(kind, job_id, run_id, now, attempt, worker, token=token, detail=Ended(now, "Forged"))
        for ticket in (place, appender.append(event_message(NAMES, outcome))):
            assert ticket.offset is not None
            self.forged.add((ticket.partition, ticket.offset))
        appender.close()

    def swallow(self) -> int:
        """Move the workers' positions to the ends of their topics; how many records that passes over."""
        passed = 0
        for pool in POOLS:
            for tier in Tier:
                group = self.cluster.group(NAMES.worker_group(tier, pool))
                for number in range(self.plan.partitions):
                    place = TopicPartition(NAMES.runs(tier, pool), number)
                    position, end = group.committed(place), self.cluster.partition(place).high
                    if position is not None and position.offset < end and not group.is_pending(place):
                        group.commit({place: Committed(end)})
                        passed += end - position.offset
                        self.swallowed.append((place.topic, number, position.offset, end))
        return passed

    def groups_of(self, role: str) -> list[str]:
        """The consumer groups of a role that there are."""
        if role == "worker":
            wanted = {NAMES.worker_group(tier, pool) for pool in POOLS for tier in Tier}
        else:
            wanted = {NAMES.group(role)}
        return sorted(wanted & self.cluster._groups.keys())

    def skew(self, slot: str, skew_us: int) -> None:
        """Step the wall clock of one slot."""
        self.clocks[slot].skew_us = skew_us
        self.skews.append((slot, self.clock.now(), skew_us))

    def count_take_overs(self, counts: Counter[str]) -> None:
        """Compare who owns the shards with who owned them last: another slot, a process that looks less far."""
        group = self.cluster.group(NAMES.group("dispatcher"))
        for member in group._members.values():
            owner = self.lives.get(member.member_id.rpartition("-")[0])
            if owner is None:
                continue  # a stranger that joined, to make a storm
            for place in member.assignment:
                before = self._owners.get(place.partition, owner)
                self._owners[place.partition] = owner
                if before.slot != owner.slot:
                    counts["take-over"] += 1
                if before is not owner and self._pace(owner).look_ahead_s < self._pace(before).look_ahead_s:
                    counts["take-over by one that looks less far"] += 1

    def count_herds(self, life: Life, counts: Counter[str]) -> None:
        """How many herds this life sent early, and what became of them, since the last look."""
        core = life.core
        if not isinstance(core, Dispatcher):
            return
        sent, landed = core._herds.sent_count, core._rounds.early_count
        found = Counter({"landed": landed, "given up": sent - landed - core._rounds.is_early})
        for word, count in (found - self._herds.get(life.client, Counter())).items():
            counts[f"herds {word}"] += count
        self._herds[life.client] = found

    def count_wakes(self, life: Life, counts: Counter[str]) -> None:
        """How often an API that rested was asked for what it has to follow, since the last look."""
        if isinstance(life.core, ApiProcess):
            found = life.core.wake_count
            counts["api woken"] += found - self._wakes.get(life.client, 0)
            self._wakes[life.client] = found

    def _core(self, life: Life, log: MemoryLog, clock: Clock) -> Role:
        slot, pace, store = life.slot, self._pace(life), MemoryStore(clock, self.tables, life.client)
        keeps = {"kept_behind": self.plan.kept_behind, "window": min(2 * self.plan.kept_behind, WINDOW)}
        made: dict[str, Callable[[], Role]] = {
            "dispatcher": lambda: Dispatcher(
                clock,
                log,
                store,
                NAMES,
                instance=slot,
                generation=GENERATION,
                pace=pace,
                beside=LateAnswers(self.clock, self.late_us),
            ),
            "worker": lambda: self._worker(life, log, clock),
            "recorder": lambda: Recorder(log, store, clock, NAMES, slot, generation=GENERATION, **keeps),
            "retry-router": lambda: RetryRouter(log, clock, NAMES, slot, generation=GENERATION, **keeps),
            "dag-engine": lambda: DagEngine(
                log,
                store,
                clock,
                NAMES,
                slot,
                generation=GENERATION,
                releases_max=self.plan.pace.round_records,
                kept_behind=self.plan.kept_behind,
                window=self.plan.kept_behind // 3,
            ),
            "retry-ladder": lambda: Ladder(log, clock, NAMES, slot),
            "lease-keeper": lambda: Keeper(log, clock, NAMES, slot),
            "intake": lambda: self._intake(slot, log, clock),
            "api": lambda: ApiProcess(log, store, clock, wait_s=self.plan.api_wait_s),
        }
        return made[life.role]()

    def _pace(self, life: Life) -> Pace:
        if life.role != "dispatcher" or not self.plan.looks_s:
            return self.plan.pace
        look_ahead_s = dice(self.plan.seed, f"look/{life.client}").choice(self.plan.looks_s)
        return replace(self.plan.pace, look_ahead_s=look_ahead_s)

    def _intake(self, slot: str, log: MemoryLog, clock: Clock) -> Role:
        tenants = tenants_of(NAMES)
        judge = Judge(NAMES, clock, NoRegistry(), Pools(log, NAMES, clock), tenants)
        bound = self.plan.pace.round_records
        intake = Intake(log, clock, NAMES, slot, judge, tenants=tenants, round_records=bound)
        if not any(each.kind == SOLD for each in self.plan.garbage):
            return intake
        sources = {SHOP: frozenset({OWN_TENANT})}
        heard = TopicListener(log, clock, NAMES, slot, sources, begins_at_end=False, round_records=bound)
        return IntakeProcess(intake, heard)

    def _worker(self, life: Life, log: MemoryLog, clock: Clock) -> Worker:
        rng, in_hand = dice(self.plan.seed, f"handlers/{life.client}"), InHand(self.clock, life.client)
        self.in_hand.append(in_hand)
        executors = self.executors[life.client] = DrawnExecutors(
            clock, rng, NAMES.prefix, self._note_call(life), in_hand, lambda: self.is_closing
        )
        return Worker(
            clock,
            log,
            NAMES,
            executors,
            worker=life.slot,
            slots=self.plan.worker_slots,
            generation=GENERATION,
            process=life.client,
            pool=self.plan.pool_of.get(life.slot, "default"),
            lease_ttl_s=self.plan.lease_s,
            drain_grace_s=self.plan.drain_grace_s,
            cancel_grace_s=self.plan.cancel_grace_s,
        )

    def _note_call(self, life: Life) -> Callable[[Attempt], None]:
        def note(attempt: Attempt) -> None:
            work = attempt.work
            self.calls.append(
                {
                    "run_id": work.run_id,
                    "attempt": work.attempt,
                    "token": attempt.token,
                    "worker": life.slot,
                    "emits": emits_count(work.handler, work.run_id),
                    "once": work.at_most_once,
                }
            )

        return note
