"""A batch of commands, applied in log order: rows first, commit second (design §6).

All decisions are made before anything is written, and nothing in memory changes before the store has acknowledged:
where Cassandra is away the commands simply wait in the inbox, and the loaded window keeps firing. Whoever asked for an
answer gets it in the same round; a repeat of an intention that was served changes nothing and is always answered.

How it fails: BackendDown and WriteUnknown, and the batch is decided again. Any other error while one command is read or
decided is a bug of ours, and that command is rejected: it must not stop its shard for ever. Nothing of a batch is kept
before the command is decided, so such a command leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from waterclock.log.port import Record
from waterclock.model.backfill import make_backfill_id
from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind, JobStatus, JobVersion
from waterclock.model.role_state import KeyState
from waterclock.model.timetable import next_of
from waterclock.store.port import JobChange, TimeIndex
from waterclock.wire.messages import key_of_state
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from . import answers, backfill_asking, backfills, commands, starts
from .admission import Admission
from .backfill_orders import speaks_of_a_backfill
from .catch_up import decide_apart
from .decisions import Asked, Batch, Decision, Passed, Plan, Refusal, Repeat
from .edges import still_needed
from .emit import Emitter
from .envelope import FIRE_BYTES
from .holding import beside_held
from .inbox import ROUND_BYTES, next_records, one_at_a_time, read_all
from .keys import Intention, intention_of
from .known import Known
from .legible import newest_below
from .pauses import goes_on_at, stamp_of
from .pool_check import check_pool
from .putting_out import put_out, run_behind
from .releasing import follow_version
from .reruns import admit_rerun, rerun_of
from .rows import Ahead, rows_ahead, void_row, void_rows
from .run_delay import begin_delay, close_delay
from .run_orders import Order, order_of, speaks_of_a_run
from .shard import Decided, Shard, edge_for

BATCH = 500


class Terms(NamedTuple):
    """What commands are applied by beside the log. ``grace_us``: how late a fire may be and is no misfire."""

    now: Instant
    grace_us: int


def apply_commands(
    shards: Iterable[Shard], index: TimeIndex, pools: Pools, out: Emitter, now: Instant, terms: Terms
) -> int:
    """Apply what waits in the inboxes, at most ``BATCH`` of each; returns how many records were taken from them.

    All shards read together and write together: a stage is then waited for once, not once for each shard, and fuller
    batches cost the store less. Raises BackendDown, WriteUnknown: nothing has changed in memory then, and what was half
    written is written again, alike.
    """
    waiting = [shard for shard in shards if shard.inbox]
    batches = [_take(shard, len(waiting), now) for shard in waiting]
    if not batches:
        return 0
    limits = [batch.limits() for batch in batches]
    newest, illegible = newest_below(index, [item for each in limits for item in each.items()])
    found = iter(newest)
    for batch, mine in zip(batches, limits, strict=True):
        known = Known(batch.shard, index, mine, islice(found, len(mine)), illegible)
        _decide_all(batch, known, pools, out.names, terms)
    for batch in batches:
        batch.shard.changes += 1
    index.write_due([row for batch in batches for row in batch.rows()])
    plans = [plan for batch in batches for plan in batch.decisions if isinstance(plan, Plan)]
    index.apply([_change(plan) for plan in plans if plan.is_stored])
    for batch in batches:
        _carry_out_all(batch, out, now)
    return sum(len(batch.records) for batch in batches)


def _take(shard: Shard, shard_count: int, now: Instant) -> Batch:
    records = next_records(shard, BATCH, shard_count)
    shard.keys.expire(records[0].offset, records[0].timestamp_us, now)
    records, read, refused = read_all(shard, records)
    room = ROUND_BYTES // shard_count // FIRE_BYTES
    return Batch(shard, records, read, [Refusal(record, error) for record, error in refused], room)


def _decide_all(batch: Batch, known: Known, pools: Pools, names: Names, terms: Terms) -> None:
    for record, command in batch.read:
        if batch.room <= 0:
            batch.end_before(record)
            break
        decision: Decision
        try:
            with one_at_a_time(record):
                if speaks_of_a_run(command):
                    decision = _pass_on(batch.shard, known, pools, names, record, command)
                elif speaks_of_a_backfill(command):
                    decision = _ask(batch.shard, known, pools, record, command)
                else:
                    decision = _decide(batch.shard, known, pools, record, command, terms)
        except RequestError as error:
            stands = 0 if speaks_of_a_run(command) else known.revision_of(command.job_id)
            batch.decisions.append(Refusal(record, error, command, stands))
        else:
            batch.add(decision)
    batch.decisions.sort(key=lambda decision: decision.record.offset)


def _carry_out_all(batch: Batch, out: Emitter, now: Instant) -> None:
    shard = batch.shard
    _forget_keys(shard, out)
    for decision in batch.decisions:
        _carry_out(shard, out, decision, now)
    for _ in batch.records:
        shard.inbox.popleft()
    shard.next_offset = batch.records[-1].offset + 1


def _decide(shard: Shard, known: Known, pools: Pools, record: Record, command: Command, terms: Terms) -> Plan | Repeat:
    """What becomes of one command. Raises RequestError (refused), BackendDown."""
    place = commands.Place(shard.generation, record.partition, record.offset, record.timestamp_us)
    intention = intention_of(command)
    first = None if intention is None else known.first_of(intention, place)
    if first is not None:
        return Repeat(record, command, first)
    target = known.version(command.job_id, command.to_revision) if command.kind is CommandKind.ROLLBACK else None
    spec = target.spec if target else command.spec
    if spec is not None:
        check_pool(pools, spec)
    plan = _plan(shard, known, record, command, place, terms, target)
    if intention is not None:
        plan.served = _served(command, record, intention, plan.applied.row.revision, plan.applied.triggered)
        known.serve(intention, plan.served)
    return plan


def _pass_on(
    shard: Shard, known: Known, pools: Pools, names: Names, record: Record, command: Command
) -> Passed | Repeat:
    """What becomes of a command about one run. Raises RequestError (refused), BackendDown."""
    place = commands.Place(shard.generation, record.partition, record.offset, record.timestamp_us)
    intention = intention_of(command)
    first = None if intention is None else known.first_of(intention, place)
    if first is not None:
        return Repeat(record, command, first)
    if command.kind is CommandKind.RERUN:
        again = rerun_of(command, place, known.version(command.job_id, command.to_revision))
        return _with_intention(Passed(record, command, Order(run_id=again.run.run_id), again), known, intention)
    order = order_of(names, pools, command, place)
    if order.deferred is not None and order.deferred.position <= shard.cursor:
        # Nothing is inserted behind the cursor: it goes out in this very round (design §6).
        order = order._replace(messages=(order.deferred.message,), deferred=None, row=None)
    return _with_intention(Passed(record, command, order), known, intention)


def _with_intention(passed: Passed, known: Known, intention: Intention | None) -> Passed:
    if intention is not None:
        passed.served = _served(passed.command, passed.record, intention, 0, passed.order.run_id)
        known.serve(intention, passed.served)
    return passed


def _ask(shard: Shard, known: Known, pools: Pools, record: Record, command: Command) -> Asked | Repeat:
    """What becomes of one command about a backfill. Raises RequestError (refused), BackendDown."""
    place = commands.Place(shard.generation, record.partition, record.offset, record.timestamp_us)
    intention = intention_of(command)
    first = None if intention is None else known.first_of(intention, place)
    if first is not None:
        return Repeat(record, command, first)
    asked = Asked(record, command, backfill_asking.ask(shard, known, pools, command, place))
    job_id, told = command.job_id, asked.turned.told
    if intention is not None:
        asked.served = _served(command, record, intention, 0, make_backfill_id(job_id, told.number))
        known.serve(intention, asked.served)
    known.backfills[job_id, told.number] = told
    return asked


def _served(command: Command, record: Record, intention: Intention, revision: int, run_id: str) -> KeyState:
    return KeyState(
        job_id=command.job_id,
        key=command.idempotency_key,
        body_hash=intention.body_hash,
        request_hash=intention.request_hash,
        command_id=command.command_id,
        offset=record.offset,
        revision=revision,
        run_id=run_id,
        stamp_at=record.timestamp_us,
    )


def _forget_keys(shard: Shard, out: Emitter) -> None:
    """Before anything new is kept: a key that is over may be served again in this very round."""
    for state_key in shard.keys.forgotten:
        out.state_forgotten(shard.partition, state_key)
    shard.keys.forgotten.clear()


def _plan(
    shard: Shard,
    known: Known,
    record: Record,
    command: Command,
    place: commands.Place,
    terms: Terms,
    target: JobVersion | None,
) -> Plan:
    job_id = command.job_id
    decided = known.decided.get(job_id)
    cursor = shard.cursor
    edge_at = edge_for(cursor, known.tier_of(job_id, command, cursor.due_at), job_id, decided)
    paused_from = decided.at if decided and decided.paused else 0
    begins_at = shard.progress.begins_at
    edges = still_needed(decided.edges, min(begins_at, paused_from or begins_at)) if decided else ()
    # What a pause covers begins where older versions have decided, however long ago that was.
    versions = known.versions(job_id, min(edge_at, paused_from) if paused_from and edges else edge_at)
    gaps = known.owed_in_gaps(job_id, versions)
    stamp_at = stamp_of(command, place.appended_at, versions[0] if versions else None)
    is_inside = any(stamp_at < gap.to_at for gap in shard.gaps)
    applied = commands.apply(
        command,
        place,
        versions,
        edge_at,
        paused_from,
        edges,
        cursor,
        terms.grace_us,
        decided.fires_to_at if decided else 0,
        target,
        () if is_inside else [stretch for owed in gaps for stretch in owed.owed],
    )
    version = applied.version
    if version is not None:
        known.check_room(version, edge_at)
    if version is not None and applied.decided_at is None and _hides_a_place(shard, is_inside, edge_at):
        applied = applied._replace(decided_at=edge_at)
    plan = Plan(record, command, applied, edge_at, grace_us=terms.grace_us, before=tuple(versions))
    if version is None:
        return plan
    is_ended = not is_inside and version.status is not JobStatus.ACTIVE
    if applied.decided_at is None or is_ended:
        plan.gaps = tuple(gaps)
    else:
        plan.caught_up = tuple(gaps)
    if versions and versions[0].status is JobStatus.ACTIVE:
        plan.deletes = void_rows(versions[0], version.stamp_at, shard.rows_end(terms.now))
    for chain in shard.timeline.chains_of(job_id):
        row = chain.row
        if version.stamp_at < row.fire_at <= chain.until_at:
            plan.deletes.append(void_row(job_id, row.revision, row.due_at, version.stamp_at))
    if version.status is JobStatus.ACTIVE:
        plan.ahead = _rows_of(shard, version, applied.floor_at)
    # Last, when nothing can go wrong any more: the batch's next commands are decided by it.
    if applied.decided_at is not None:
        known.decided[job_id] = _decided(plan, version, decided.fires_to_at if decided else 0)
    known.add(version)
    return plan


def _hides_a_place(shard: Shard, is_inside: bool, edge_at: Instant) -> bool:  # noqa: FBT001 - of the command
    """Whether fires that are decided would look undecided under the new version, or the other way round.

    So it is where it is stamped inside a gap, and would have a part in what is owed there; and where the shard was
    taken over inside a due time, by the new version's tier.
    """
    return is_inside or (shard.cursor.job_id != "" and edge_at == shard.cursor.due_at)


def _decided(plan: Plan, version: JobVersion, fires_to_at: Instant) -> Decided:
    """What a command says of the job's fires; nobody takes back what was said before of fire times."""
    applied = plan.applied
    assert applied.decided_at is not None
    resumed_at = goes_on_at(plan.command, version.stamp_at, plan.record.timestamp_us)
    return Decided.of(version, applied.decided_at, max(applied.fires_to_at, fires_to_at), applied.edges, resumed_at)


def _rows_of(shard: Shard, version: JobVersion, floor_at: Instant) -> Ahead:
    """The rows of a new version: from its first fire after ``floor_at``."""
    first_at = next_of(version, floor_at)
    if first_at is None:
        return Ahead([], [])
    return rows_ahead(version, first_at, version.stamp_at, lambda minute: shard.is_loaded(version.job_id, minute))


def _change(plan: Plan) -> JobChange:
    return JobChange(plan.applied.row, plan.applied.version, tuple(plan.ahead.rows), tuple(plan.deletes))


def _carry_out(shard: Shard, out: Emitter, decision: Decision, now: Instant) -> None:
    """Make memory and the round say what was decided, and what the store says already."""
    shard.unproven |= isinstance(decision, (Refusal, Passed, Asked))
    match decision:
        case Plan():
            shard.unproven |= decision.applied.arrival is not None
            admission = _change_course(shard, out, decision, now)
            _keep_served(shard, out, decision.served)
            if decision.command.answer:
                answer = answers.of_applied(decision.command, decision.record, decision.applied, admission)
                out.answered(decision.command.job_id, answer, now)
        case Passed(record, command, order):
            again = decision.rerun
            admission = admit_rerun(shard, out, again, now) if again else put_out(shard, out, command, order, now)
            _keep_served(shard, out, decision.served)
            if command.answer:
                out.answered(command.job_id, answers.of_order(command, record, order.run_id, admission), now)
        case Asked(record, command, turned):
            backfill_asking.carry_out(shard, out, command.job_id, turned, now)
            _keep_served(shard, out, decision.served)
            if command.answer:
                out.answered(command.job_id, answers.of_backfill(command, record, turned), now)
        case Repeat(record, command, first):
            out.answered(command.job_id, answers.of_repeat(command, record, first), now)
        case Refusal(record, error, command, revision):
            out.reject(record, error, now)
            if command is not None and command.answer:
                out.answered(command.job_id, answers.of_refusal(command, record, error, revision), now)


def _keep_served(shard: Shard, out: Emitter, served: KeyState | None) -> None:
    if served is not None:
        state_key = key_of_state(served.job_id, served.key, served.command_id)
        shard.keys.keep(state_key, out.key_served(shard.partition, served))


def _change_course(shard: Shard, out: Emitter, plan: Plan, now: Instant) -> Admission | None:
    """What the command decided; answers what became of the run of a trigger, where there was something to decide."""
    applied, version = plan.applied, plan.applied.version
    if version is not None and plan.caught_up:
        # Fires of older versions go by what the job's newest one says of limits and counts; of one that says nothing no
        # record stands, so after a take-over nobody else would know.
        shard.lately.setdefault(version.job_id, list(plan.before))
        decide_apart(shard, out, version.job_id, plan.caught_up, now, plan.grace_us)
    for whole, reason in applied.skipped:
        for skipped in beside_held(shard, whole):
            out.skip(skipped, reason, now=now)
    if version is not None:
        close_delay(shard, out, version, plan.before, plan.record.timestamp_us, now)
        gaps = [(owed.from_at, owed.gap.to_at) for owed in plan.gaps]
        out.revised(version, plan.command.kind, plan.edge_at, gaps, now)
        _cut_older(shard, version)
        shard.remember(version, plan.before)
        if applied.decided_at is not None:
            decided = shard.decide_ahead(version.job_id, _decided(plan, version, 0))
            out.job_decided(shard.partition, version.job_id, decided)
        for chain in plan.ahead.chains:
            shard.timeline.add(chain)
        follow_version(shard, out, version, now)
        starts.follow(shard, out, version, plan.before[0] if plan.before else None, now)
        begin_delay(shard, version, plan.edge_at)
        if version.status is JobStatus.DELETED:
            backfills.cancel_of_job(shard, out, version.job_id, backfills.DELETED, now)
        for fire_at in applied.behind:
            run_behind(shard, out, version, fire_at, now)
    if applied.run_at is None:
        return None
    return starts.start(shard, out, version or _standing(applied), applied, plan.command, now)


def _cut_older(shard: Shard, version: JobVersion) -> None:
    """Older chains keep their fires up to the stamp, and lose their rows beyond for good (``_plan``); a pause or delete
    has decided those too (``shard.decided``)."""
    for chain in shard.timeline.chains_of(version.job_id):
        chain.until_at = min(chain.until_at, version.stamp_at)


def _standing(applied: commands.Applied) -> JobVersion:
    """The standing version, as a trigger's run names it."""
    row = applied.row
    rest = (row.updated_at, row.anchor_at, row.spec_revision, row.created_at)
    return JobVersion(row.job_id, row.revision, row.spec, row.status, "", *rest)
