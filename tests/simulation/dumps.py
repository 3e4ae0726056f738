"""What is left of a play, raw: records as readers of committed records see them, rows as people see them.

Nothing here comes from a role's memory. Values are plain (bytes, numbers, texts), so that the oracles, which import
nothing of ours, can judge them.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tests.oracle import runs as judge
from tests.oracle.chronicle import Chronicle
from tests.oracle.owed import MASK, Rules, run_id
from tests.oracle.timeliness import Bounds
from waterclock.dag_runs.picture import critical_names, nodes_seen
from waterclock.dag_runs.reading import read_dag_run
from waterclock.log.memory_partition import Entry
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.dag_events import NodeEnd
from waterclock.model.ids import US_PER_S, Instant, RunId
from waterclock.model.job import JobVersion, Tier
from waterclock.store.dag_port import NodeRow
from waterclock.store.memory import MemoryStore
from waterclock.store.port import AttemptRow, FailureRow, RunRow
from waterclock.wire.names import RUNGS

from .allowed_lateness import bounds_of, turns_to_hear
from .handlers import OUTPUTS
from .history import Line
from .holders import Held
from .in_hand import Turn
from .plan import POOLS
from .rewriting import RunRows, rows_of, write_anew
from .senders import OTHER_TENANT, OWN_TENANT, SHOP, tenants_of
from .standing import Lag, lagging, unstable
from .table_dumps import audit_rows, backfill_rows, job_row, letter_rows, listing_rows, version_row
from .visibility import held_up, stable_at
from .world import GENERATION, NAMES, World

RawRecord = dict[str, object]
Row = dict[str, object]
Counts = Counter[str]
KEEPS_RUNS = ("retry-router", "recorder")
"""Roles whose state topic holds runs that have been open for long, by their ids, and nothing else."""
_ROWS_MAX = 100_000
_DAY_US = 86_400 * US_PER_S
_OWED_NAMED_MAX = 20
_WITHOUT_REFERENCES = 2
"""The version of marshal's format that writes equal values as equal bytes, whoever else holds them."""


@dataclass(frozen=True)
class Dumps:
    """Topics (by what they hold), rows, the ledger of calls of user code, and what broke.

    ``events`` are those that roles wrote; ``with_forged`` has also what came from a torn round or from a stranger, all
    of which must be ignored. ``asleep_us``: how long nobody was awake. ``history`` is the clients', ``lagging`` and
    ``unstable`` say what is not at rest, ``rows_*``: see ``losses.py``. ``listed`` names each tenant's jobs as a list
    of them shows. ``versions``: of each job, oldest first. ``kept``: what the state topics of ``KEEPS_RUNS`` were told.
    ``rows`` and ``rows_anew``: see ``rewriting.py``; ``in_hand`` and ``turns``, by process: ``in_hand.py``;
    ``held_up``: which partitions of run-events (``visibility.py``). ``version_rows`` to ``told_letters``: rows, see
    ``table_dumps.py``.
    """

    seed: int
    rules: Rules
    bounds: Bounds
    asleep_us: int
    until: Instant
    skews: list[tuple[str, Instant, int]]
    healed_at: Instant
    generation: int
    shards: int
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
    kept: dict[str, list[RawRecord]]
    outputs: list[RawRecord]
    runs: list[Row]
    nodes: list[Row]
    rows: RunRows
    rows_anew: RunRows
    pictures: list[Row]
    attempts: list[Row]
    failures: list[Row]
    jobs: list[Row]
    versions: dict[str, list[JobVersion]]
    calls: list[Row]
    in_hand: list[Row]
    turns: dict[str, list[Turn]]
    held_up: list[tuple[int, Instant, Instant]]
    hears_within_turns: int
    job_events: list[RawRecord]
    sold: list[RawRecord]
    history: list[Line]
    lagging: list[Lag]
    unstable: list[tuple[str, int, int, int]]
    listed: dict[str, list[str]]
    listing: list[Row]
    version_rows: list[Row]
    backfills: list[Row]
    audit: list[Row]
    told_letters: list[Row]
    lease_us: int
    stood: list[tuple[str, int, int, str]]
    swallowed: list[tuple[str, int, int, int]]
    holders: list[Held]
    lost_roles: frozenset[str]
    rows_lost: list[str]
    rows_missing: list[str]
    rows_repaired: list[str]
    broken: list[str]

    @cached_property
    def chronicle(self) -> Chronicle:
        """What happened to every run, told once for all checkers; none of them changes it."""
        return Chronicle(self.events)

    @property
    def told(self) -> list[tuple[judge.Told, dict[str, Any]]]:
        """Every event in its place, and what it made of other runs."""
        return judge.tell_all(self.events)

    @cached_property
    def followed(self) -> tuple[dict[str, Any], tuple[str, ...], Counts]:
        """What became of every run (``tests/oracle/runs.py``), likewise."""
        runs, complaints, counts = judge.follow(self.events)
        return runs, tuple(complaints), counts

    def skew_ahead(self, role: str, at: Instant) -> int:
        """By how much the clock of one of the role was ahead when what stands at ``at`` was decided; at least 0.

        It was decided at most as long before as the clock was ahead, or it would not be early any more.
        """
        most, of = 0, sorted({slot for slot, _, _ in self.skews if slot.startswith(role)})
        for slot in of:
            changes = [(since, skew_us) for name, since, skew_us in self.skews if name == slot]
            ends = [since for since, _ in changes[1:]] + [at + 1]
            most = max([most, *(us for (since, us), end in zip(changes, ends, strict=True) if since <= at < end + us)])
        return most

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
            self.nodes,
            self.attempts,
            self.failures,
            self.jobs,
            self.calls,
            self.job_events,
            self.sold,
            self.rejects,
        ):
            yield marshal.dumps([tuple(each.values()) for each in part], _WITHOUT_REFERENCES)
        for line in self.history:
            yield repr(replace(line, body=b"")).encode()


def take_dumps(world: World, until: Instant, broken: Sequence[str]) -> Dumps:
    """Read everything. The world is at rest."""
    job_ids = sorted(world.plan.job_ids())
    store = MemoryStore(world.clock, world.tables, "dump")
    rows = [run for job_id in job_ids for run in store.runs(job_id, _ROWS_MAX)]
    nodes = [
        node for run in rows if run.is_dag for node in store.dag_nodes(run.job_id, run.fire_at, run.series, _ROWS_MAX)
    ]
    tried = [(*run[:3], "") for run in rows] + [node[:4] for node in nodes]
    places = [RunId(*place) for place in tried]
    jobs = [job for job_id in job_ids if (job := store.job(job_id)) is not None]
    versions = store.versions(job_ids)
    events, commands, control = _events(world), _records(world, NAMES.commands), _control(world)
    return Dumps(
        seed=world.plan.seed,
        rules=_rules(world),
        bounds=bounds_of(world.plan, commands),
        asleep_us=sum(each.us for each in world.plan.troubles if each.kind in ("sleep", "jump") and each.us > 0),
        until=until,
        skews=list(world.skews),
        healed_at=world.healed_at,
        generation=GENERATION,
        shards=world.plan.partitions,
        commands=commands,
        events=[record for record in events if (record["partition"], record["offset"]) not in world.forged],
        with_forged=events,
        work=[record for pool in POOLS for tier in Tier for record in _records(world, NAMES.runs(tier, pool))],
        letters=_records(world, NAMES.dlq),
        leases=_leases(world),
        control=control,
        waiting=[record for rung in RUNGS for record in _records(world, NAMES.delay(rung))],
        rejects=_records(world, NAMES.rejects),
        kept={role: _records(world, NAMES.state(role)) for role in KEEPS_RUNS},
        beats=_records(world, NAMES.heartbeats),
        outputs=_records(world, OUTPUTS),
        runs=[_run_row(row) for row in rows],
        nodes=[_node_row(row) for row in nodes],
        rows=rows_of(store, places),
        rows_anew=rows_of(write_anew(world), places),
        pictures=[_picture(store, run) for run in rows if run.is_dag],
        attempts=[_attempt_row(row) for place in tried for row in store.attempts(*place)],
        failures=[
            _failure_row(row)
            for tenant in sorted({job_id.partition(":")[0] for job_id in job_ids})
            for row in store.failures(tenant, _ROWS_MAX, world.plan.start_at - _DAY_US)
        ],
        jobs=[job_row(job) for job in jobs],
        versions={job: found[::-1] for job, found in versions.items()},
        version_rows=[version_row(version) for found in versions.values() for version in found],
        backfills=backfill_rows(store, (OWN_TENANT, OTHER_TENANT)),
        audit=audit_rows(world.tables),
        told_letters=letter_rows(world.tables),
        listing=listing_rows(store, (OWN_TENANT, OTHER_TENANT)),
        calls=list(world.calls),
        in_hand=[row for each in world.in_hand for row in each.rows()],
        turns={each.process: each.turns for each in world.in_hand},
        held_up=held_up(world, NAMES.run_events),
        hears_within_turns=turns_to_hear(world.plan, events, control),
        job_events=[record for topic in tenants_of(NAMES) for record in _records(world, topic)],
        sold=_records(world, SHOP),
        history=list(world.history.lines),
        lagging=lagging(world.cluster),
        unstable=unstable(world.cluster),
        listed={tenant: [job.job_id for job in store.jobs(tenant, _ROWS_MAX)] for tenant in (OWN_TENANT, OTHER_TENANT)},
        lease_us=world.plan.lease_us,
        stood=list(world.stood),
        swallowed=list(world.swallowed),
        holders=list(world.holders.changes),
        lost_roles=frozenset(world.lost_roles),
        rows_lost=list(world.rows_lost),
        rows_missing=list(world.rows_missing),
        rows_repaired=list(world.rows_repaired),
        broken=list(broken),
    )


def _rules(world: World) -> Rules:
    """What people promised one another: how long a repeat is one, which pools there are, how late is too late."""
    ahead = [skew_us for slot, _, skew_us in world.skews if slot.startswith("dispatcher")]
    grace_us = round(world.plan.pace.grace_s * US_PER_S)
    lost = tuple(world.cursors_lost)
    return Rules(world.plan.repeat_within_us, POOLS, grace=grace_us, skew=max(0, *ahead), cursors_lost=lost)


def _run_row(row: RunRow) -> Row:
    return {
        "job_id": row.job_id,
        "fire_at": row.fire_at,
        "series": row.series,
        "status": row.status.name,
        "outcome": row.outcome.name,
        "attempt": row.attempt,
        "skipped_count": row.skipped_count,
        "is_dag": row.is_dag,
        "paused": row.paused,
    }


def _node_row(row: NodeRow) -> Row:
    return {
        "run_id": run_id(row.job_id, row.fire_at, row.series, row.node),
        "status": row.status.name,
        "outcome": row.outcome.name,
        "attempt": row.attempt,
        "counts_as": NodeEnd(row.counts_as).name if row.counts_as else "",
    }


def owed_id(row: Row) -> str:
    """The run id of a row of ``runs``."""
    return run_id(row["job_id"], row["fire_at"], row["series"])


def _picture(store: MemoryStore, run: RunRow) -> Row:
    """A DagRun as people are shown it, put before the rule of the engine: what that says is still to be done."""
    seen = read_dag_run(store, RunId(run.job_id, run.fire_at, run.series))
    assert seen is not None
    state = seen.fresh_state()
    steps = None if state is None else state.decide(_OWED_NAMED_MAX)
    return {
        "run_id": run_id(run.job_id, run.fire_at, run.series),
        "status": run.status.name,
        "reason": run.reason,
        "cancel": run.cancel_requested,
        "known": state is not None,
        "owed": [] if steps is None else [each.key for each in (*steps.releases, *steps.skips)],
        "succeeded": None if steps is None or steps.end is None else steps.end.succeeded,
        "path": critical_names(nodes_seen(seen)),
    }


def _attempt_row(row: AttemptRow) -> Row:
    return {
        "run_id": run_id(row.job_id, row.fire_at, row.series, row.node),
        "attempt": row.attempt,
        "outcome": row.outcome.name,
        "worker": row.worker,
        "token": row.fence & MASK,
    }


def _failure_row(row: FailureRow) -> Row:
    return {
        "run_id": run_id(row.job_id, row.fire_at, row.series, row.node),
        "reason": row.reason,
        "error_class": row.error_class,
        "attempts": row.attempts,
    }


def _leases(world: World) -> list[RawRecord]:
    world.keep_leases()
    return [_raw(*found) for kept in world.leases.values() for _, found in sorted(kept.items())]


def _records(world: World, topic: str) -> list[RawRecord]:
    log = world.outside
    found = []
    for number in range(log.partitions(topic)):
        place = TopicPartition(topic, number)
        appended, low, high = world.appended_at(place), log.low_watermark(place), log.high_watermark(place)
        records = read_range(log, Isolation.COMMITTED, place, low, high, headers=True)
        found += [_raw(record, appended[record.offset]) for record in records]
    return found


def _control(world: World) -> list[RawRecord]:
    """Each with when readers could come to it."""
    found, stable = _records(world, NAMES.control), stable_at(world, NAMES.control)
    for record in found:
        record["stable_us"] = stable[int(str(record["partition"])), int(str(record["offset"]))]
    return found


def _events(world: World) -> list[RawRecord]:
    """Run events, each with its transaction (by its marker) and when that ended: from then on the event can be read."""
    found = _records(world, NAMES.run_events)
    markers: dict[tuple[object, object], Entry] = {}
    for number in range(world.outside.partitions(NAMES.run_events)):
        entries = world.cluster.partition(TopicPartition(NAMES.run_events, number))._entries
        ends = {entry.span: entry for entry in entries if entry.is_marker}
        markers.update({(number, entry.offset): ends[entry.span] for entry in entries if entry.span in ends})
    for record in found:
        marker = markers.get((record["partition"], record["offset"]))
        if marker is not None:
            record["transaction"], record["readable_us"] = marker.offset, marker.timestamp_us
    return found


def _raw(record: Record, appended_at: Instant) -> RawRecord:
    """For judges its time is that of the brokers; ``stamp_us`` is what roles take for it, its writer's."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_us": appended_at,
        "stamp_us": record.timestamp_us,
        "key": record.key,
        "value": record.value,
        "headers": record.headers,
    }
