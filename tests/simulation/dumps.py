"""What is left of a play, raw: records as readers of committed records see them, rows as people see them.

Nothing here comes from a role's memory. Values are plain (bytes, numbers, texts), so that the oracles, which import
nothing of ours, can judge them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.oracle.owed import Rules
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.ids import Instant
from waterclock.model.job import Tier
from waterclock.store.memory import MemoryStore
from waterclock.store.port import RunRow
from waterclock.wire.names import RUNGS

from .handlers import OUTPUTS
from .history import Line
from .plan import POOLS
from .senders import OTHER_TENANT, OWN_TENANT, tenants_of
from .standing import Lag, lagging, unstable
from .world import GENERATION, NAMES, World

RawRecord = dict[str, object]
Row = dict[str, object]
_ROWS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Dumps:
    """Topics (by what they hold), rows, the ledger of calls of user code, and what broke.

    ``events`` are those that roles wrote; ``with_forged`` has also what came from a torn round or from a stranger, all
    of which must be ignored. ``history`` is the clients', ``lagging`` and ``unstable`` say what is not at rest,
    ``listed`` names each tenant's jobs as a list of them shows.
    """

    seed: int
    rules: Rules
    until: Instant
    skew_us_max: int
    generation: int
    commands: list[RawRecord]
    events: list[RawRecord]
    with_forged: list[RawRecord]
    work: list[RawRecord]
    letters: list[RawRecord]
    leases: list[RawRecord]
    control: list[RawRecord]
    waiting: list[RawRecord]
    beats: list[RawRecord]
    rejects: list[RawRecord]
    outputs: list[RawRecord]
    runs: list[Row]
    jobs: list[Row]
    calls: list[Row]
    job_events: list[RawRecord]
    history: list[Line]
    lagging: list[Lag]
    unstable: list[tuple[str, int, int, int]]
    listed: dict[str, list[str]]
    lease_us: int
    stood: list[tuple[str, int, int]]
    swallowed_count: int
    lost_roles: frozenset[str]
    broken: list[str]

    def contents(self) -> Iterator[bytes]:
        """Everything, for a digest."""
        for part in (
            self.commands,
            self.with_forged,
            self.work,
            self.letters,
            self.leases,
            self.control,
            self.waiting,
            self.beats,
            self.outputs,
            self.runs,
            self.jobs,
            self.calls,
            self.job_events,
            self.rejects,
        ):
            for each in part:
                yield repr(sorted(each.items())).encode()
        for line in self.history:
            yield repr(replace(line, body=b"")).encode()


def take_dumps(world: World, until: Instant, broken: Sequence[str]) -> Dumps:
    """Read everything. The world is at rest."""
    job_ids = sorted(world.plan.job_ids())
    store = MemoryStore(world.clock, world.tables, "dump")
    rows = [run for job_id in job_ids for run in store.runs(job_id, _ROWS_MAX)]
    jobs = [job for job_id in job_ids if (job := store.job(job_id)) is not None]
    events = _records(world, NAMES.run_events)
    return Dumps(
        seed=world.plan.seed,
        rules=Rules(world.plan.repeat_within_us, POOLS),
        until=until,
        skew_us_max=world.skew_us_max,
        generation=GENERATION,
        commands=_records(world, NAMES.commands),
        events=[record for record in events if (record["partition"], record["offset"]) not in world.forged],
        with_forged=events,
        work=[record for pool in POOLS for tier in Tier for record in _records(world, NAMES.runs(tier, pool))],
        letters=_records(world, NAMES.dlq),
        leases=_leases(world),
        control=_records(world, NAMES.control),
        waiting=[record for rung in RUNGS for record in _records(world, NAMES.delay(rung))],
        rejects=_records(world, NAMES.rejects),
        beats=_records(world, NAMES.heartbeats),
        outputs=_records(world, OUTPUTS),
        runs=[_run_row(row) for row in rows],
        jobs=[{"job_id": job.job_id, "status": job.status.name, "revision": job.revision} for job in jobs],
        calls=list(world.calls),
        job_events=[record for topic in tenants_of(NAMES) for record in _records(world, topic)],
        history=list(world.history.lines),
        lagging=lagging(world.cluster),
        unstable=unstable(world.cluster),
        listed={tenant: [job.job_id for job in store.jobs(tenant, _ROWS_MAX)] for tenant in (OWN_TENANT, OTHER_TENANT)},
        lease_us=world.plan.lease_us,
        stood=list(world.stood),
        swallowed_count=world.swallowed_count,
        lost_roles=frozenset(world.lost_roles),
        broken=list(broken),
    )


def _run_row(row: RunRow) -> Row:
    return {
        "job_id": row.job_id,
        "fire_at": row.fire_at,
        "series": row.series,
        "status": row.status.name,
        "outcome": row.outcome.name,
        "attempt": row.attempt,
        "skipped_count": row.skipped_count,
    }


def _leases(world: World) -> list[RawRecord]:
    world.keep_leases()
    return [_raw(record) for kept in world.leases.values() for _, record in sorted(kept.items())]


def _records(world: World, topic: str) -> list[RawRecord]:
    log = world.outside
    places = [TopicPartition(topic, number) for number in range(log.partitions(topic))]
    return [
        _raw(record)
        for place in places
        for record in read_range(
            log, Isolation.COMMITTED, place, log.low_watermark(place), log.high_watermark(place), headers=True
        )
    ]


def _raw(record: Record) -> RawRecord:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_us": record.timestamp_us,
        "key": record.key,
        "value": record.value,
        "headers": record.headers,
    }
