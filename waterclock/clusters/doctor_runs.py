"""Runs that should move and do not, and what the reconciler had to repair. Reads topics, writes nothing.

Judged from the log as the retry router last left it: its committed positions, its state topic, and the events since.
What must hold: nothing is called stuck that is merely young, has ended, or waits for its time; at most ``EVENTS_MAX``
events of a partition are read, and what began before those is not seen, unless it is kept and no event since was left
out. How it fails: a backend that does not answer is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.log.port import Committed, Isolation, Log, Record, TopicPartition
from waterclock.log.reading import newest_by_key, read_range
from waterclock.model.errors import BackendDown, NotFound, RequestError
from waterclock.model.events import Pending, Retrying, RunStatus, Started
from waterclock.model.fold import Fold, FoldFull, parse_fold_from, parse_repairs
from waterclock.model.ids import US_PER_S, Instant, partition_of, work_key
from waterclock.model.known_state import state_from_text
from waterclock.model.leases import Standing, after, is_dead
from waterclock.model.reduce import RunState
from waterclock.wire.codec import decode_event, decode_lease, decode_open_run
from waterclock.wire.names import RUNGS, Names

from .finding import Finding, State, ok, unless

EVENTS_MAX = 200_000
OLD_US = 60 * US_PER_S
_NAMED = 3
_HOP_MARGIN_US = 10 * US_PER_S
"""Whoever places what waits may be behind whose clock stamps it: the stamp then says that it came after it was due."""
ROUTER = "retry-router"


class Seen(NamedTuple):
    """An open run: where its work can be claimed ("": not known; ``partition``), and since when it is as it is.

    ``since`` of one that waits for its next attempt: when that is due.
    """

    run_id: str
    state: RunState
    tier: str
    partition: int
    since: Instant


def examine(log: Log, names: Names, clock: Clock, generation: int) -> Iterator[Finding]:
    """Every finding about runs; nothing where the topics are missing. ``generation``: that of the topics."""
    try:
        committed = log.group_positions(names.group(ROUTER))
        yield judge_repairs(sum(parse_repairs(at.metadata) for at in committed.values()))
        seen, reach = open_runs(log, names, committed, generation), _Reach(log)
        old = [run for run in seen if clock.now() - run.since > OLD_US]
        yield judge_waiting([run for run in old if _is_orphan(log, names, reach, run)])
        yield judge_running([run for run in old if run.state.attempt_open], _standings(log, names))
    except NotFound:
        return
    except (BackendDown, FoldFull) as trouble:
        yield Finding("runs", State.WARN, str(trouble), "They cannot be judged now")


def open_runs(log: Log, names: Names, positions: Mapping[TopicPartition, Committed], generation: int) -> list[Seen]:
    """All that is open now. ``positions``: the retry router's. Raises BackendDown, FoldFull, NotFound."""
    places = [TopicPartition(names.run_events, number) for number in range(log.partitions(names.run_events))]
    return [run for place in places for run in _open_runs(log, names, place, positions, generation)]


def judge_repairs(count: int) -> Finding:
    """``count``: what the reconciler has repaired since this installation began."""
    next_step = (
        "Look for 'repaired' in the retry router's log: each line names a run and why. The count only grows: what was "
        "looked into stays in it, so watch waterclock_reconciler_repairs_total of the API's /metrics for more"
    )
    found = f"{count} repairs since the retry router of this installation first committed"
    return unless(not count, "reconciler", found, next_step, State.WARN)


def judge_waiting(orphans: list[Seen]) -> Finding:
    """``orphans`` wait although their tiers are empty."""
    if not orphans:
        return ok("waiting runs", "none waits for work that is gone from its tier")
    found = f"{len(orphans)} wait although nothing is left to be claimed: {named(orphans)}"
    return Finding("waiting runs", State.WARN, found, "The reconciler repairs them within two minutes: does it run?")


def judge_running(running: list[Seen], standings: dict[str, Standing]) -> Finding:
    """``running``: old open attempts."""
    dead = [run for run in running if is_dead(standings.get(run.state.worker, Standing()), run.state.incarnation)]
    if not dead:
        return ok("running runs", "none is held by a dead worker")
    found = f"{len(dead)} are held by dead workers: {named(dead)}"
    return Finding("running runs", State.FAIL, found, "Does the retry router run? It calls such attempts lost")


def named(runs: list[Seen]) -> str:
    """The first of these by name, and how many more there are."""
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return ", ".join(run.run_id for run in runs[:_NAMED]) + more


class _Reach:
    """How far groups have come in topics, each asked once: as many runs may wait as a partition has events."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._positions: dict[str, dict[TopicPartition, Committed]] = {}
        self._ends: dict[TopicPartition, int] = {}

    def of(self, group: str, place: TopicPartition) -> int | None:
        """Up to where it has taken what stands there; None: nobody has said."""
        if group not in self._positions:
            self._positions[group] = self._log.group_positions(group)
        at = self._positions[group].get(place)
        return None if at is None else at.offset

    def has_taken_all(self, group: str, place: TopicPartition) -> bool:
        """Whether it has; the end is asked for after the position, so what comes meanwhile counts as left."""
        taken_to = self.of(group, place)
        if place not in self._ends:
            self._ends[place] = self._log.high_watermark(place)
        return taken_to is not None and taken_to >= self._ends[place]


def _is_orphan(log: Log, names: Names, reach: _Reach, run: Seen) -> bool:
    waits = run.state.status in {RunStatus.PENDING, RunStatus.RETRYING} and not run.state.held
    if not run.tier or not waits or run.state.is_dag:
        return False
    is_gone = reach.has_taken_all(names.worker_group_of(run.tier), TopicPartition(run.tier, run.partition))
    return is_gone and not (run.state.status is RunStatus.RETRYING and _may_be_on_ladder(log, names, reach, run))


def _may_be_on_ladder(log: Log, names: Names, reach: _Reach, run: Seen) -> bool:
    """Whether a delay topic holds something, not moved on yet, that was placed there before the attempt was due."""
    for rung in RUNGS:
        place, group = TopicPartition(names.delay(rung), run.partition), f"{names.group('retry-ladder')}.{rung}"
        if reach.has_taken_all(group, place):
            continue
        placed_to, taken_to = log.offset_at(place, run.since + _HOP_MARGIN_US), reach.of(group, place)
        if placed_to > log.low_watermark(place) and (taken_to is None or taken_to < placed_to):
            return True
    return False


def _open_runs(
    log: Log, names: Names, place: TopicPartition, positions: Mapping[TopicPartition, Committed], generation: int
) -> Iterator[Seen]:
    """What is open in a partition, by what the router kept and by the events since."""
    end, committed = log.high_watermark(place), positions.get(place)
    fold: Fold[tuple[str, Instant]] = Fold(generation=generation, open_max=EVENTS_MAX)
    known_from = None if committed is None else parse_fold_from(committed.metadata)
    begin = max(log.low_watermark(place), known_from or 0)
    start = max(begin, end - EVENTS_MAX)
    # Of what happened to a kept run between its record and the first event that is read, nothing is known.
    _restore(log, TopicPartition(names.state(ROUTER), place.partition), fold, kept_from=start if start > begin else 0)
    for record in read_range(log, Isolation.COMMITTED, place, start, end):
        _apply(fold, names, record)
    count = log.partitions(names.run_events)
    for run_id, run in fold.open.items():
        tier, since = run.note or ("", 0)
        yield Seen(run_id, run.state, tier, partition_of(work_key(run_id), count), since)


def _apply(fold: Fold[tuple[str, Instant]], names: Names, record: Record) -> None:
    try:
        event = decode_event(record.value or b"")
        verdict = fold.apply(event, record.offset)
    except RequestError:
        return
    run = fold.open.get(event.run_id)
    if run is None or not verdict.accepted:
        return
    tier, since, detail = (run.note or ("", 0))[0], record.timestamp_us, event.detail
    if isinstance(detail, Pending):
        tier = names.runs(detail.tier, detail.pool)
    elif isinstance(detail, Started):
        tier = detail.topic
    elif isinstance(detail, Retrying):
        since = max(since, detail.due_at)
    run.note = (tier, since)


def _restore(log: Log, place: TopicPartition, fold: Fold[tuple[str, Instant]], *, kept_from: int) -> None:
    """What was kept at this offset or later."""
    for value in newest_by_key(log, place).values():
        try:
            run = decode_open_run(value)
        except RequestError:
            continue
        state = state_from_text(run.state)
        if state is not None and run.folded_to >= kept_from:
            tier = "" if run.work is None else run.work.topic
            fold.restore(run.run_id, state, run.first_offset, (tier, run.claimable_at), run.folded_to)


def _standings(log: Log, names: Names) -> dict[str, Standing]:
    standings: dict[str, Standing] = {}
    for number in range(log.partitions(names.leases)):
        place = TopicPartition(names.leases, number)
        for record in read_range(log, Isolation.COMMITTED, place, log.low_watermark(place), log.high_watermark(place)):
            try:
                lease = decode_lease(record.value or b"")
            except RequestError:
                continue
            standings[lease.worker] = after(standings.get(lease.worker, Standing()), record.offset, lease)
    return standings
