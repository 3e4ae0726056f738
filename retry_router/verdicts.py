"""The verdicts of one round, as messages: the event, and with RETRYING the work of the attempt that follows.

The job's policy stands in the work record of the attempt that ended, so these are read back first, many at once; then
each run is decided by the pure ``decide.py``. What must hold: all that a verdict asks for leaves in the round in which
the verdict leaves, so that there is no RETRYING without work, and no work without RETRYING; work that may be there
twice is marked for verification: what waits with the dispatcher, and what a repeated verdict asks for. How it fails:
work that is gone from its topic ends the run with that reason; a broker that does not answer raises BackendDown, and
nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from waterclock.log.port import Headers, Log, Outgoing
from waterclock.model.events import EventKind, Retrying, RunEvent, SourceRecord, WorkRecord
from waterclock.model.ids import Instant, event_id, job_of_run, partition_of
from waterclock.model.job import Command, CommandKind
from waterclock.model.known_state import state_to_text
from waterclock.wire.messages import command_message, event_message, work_message
from waterclock.wire.names import Names

from .decide import Again, Never, decide
from .hops import LADDER_US_MAX, onward
from .letters import WORK_GONE
from .shard import Undecided
from .work_records import WorkRecords, work_in

_ACTOR = "retry-router"


class Verdicts:
    """Decides runs whose last attempt ended badly."""

    def __init__(self, log: Log, names: Names, work: WorkRecords) -> None:
        self._log = log
        self._records = work
        self._names = names

    def messages(self, undecided: Sequence[Undecided], now: Instant, known_to: Mapping[int, int]) -> list[Outgoing]:
        """Everything that the verdicts on these runs put into the round. Raises BackendDown.

        ``known_to``: by partition of run-events, the offset up to which the runs are known. ``undecided`` holds each as
        it stands *there*: one that a later record of the same poll has cancelled is left out by the caller.
        """
        if not undecided:
            return []
        places = [each.trail.work for each in undecided]
        sources = self._records.read([place for place in places if place is not None])
        found: list[Outgoing] = []
        for each, place in zip(undecided, places, strict=True):
            found += self._verdict(each, None if place is None else sources.get(place), now, known_to)
        return found

    def _verdict(
        self, run: Undecided, source: SourceRecord | None, now: Instant, known_to: Mapping[int, int]
    ) -> list[Outgoing]:
        work = None if source is None else work_in(source, run.run_id)
        if source is None or work is None:
            return [self._given_up(run, WORK_GONE, now)]
        verdict = decide(work, run.state, run.trail, now)
        if isinstance(verdict, Never):
            return [self._given_up(run, verdict.reason, now)]
        following = work._replace(attempt=run.state.attempt + 1, verify_from=-1, verify_state="")
        if run.asked_before or verdict.delay_us > LADDER_US_MAX:
            partition = partition_of(work.job_id, self._log.partitions(self._names.run_events))
            following = following._replace(verify_from=known_to[partition], verify_state=state_to_text(run.state))
        return [self._retrying(run, verdict, now), self._work(following, source, verdict, now)]

    def _given_up(self, run: Undecided, reason: str, now: Instant) -> Outgoing:
        job_id = job_of_run(run.run_id)
        event = RunEvent(EventKind.RUN_FAILED, job_id, run.run_id, now, run.state.attempt, reason=reason)
        return event_message(self._names, event)

    def _retrying(self, run: Undecided, again: Again, now: Instant) -> Outgoing:
        job_id, attempt = job_of_run(run.run_id), run.state.attempt + 1
        detail = Retrying(again.due_at, again.delay_us)
        return event_message(self._names, RunEvent(EventKind.RETRYING, job_id, run.run_id, now, attempt, detail=detail))

    def _work(self, work: WorkRecord, source: SourceRecord, again: Again, now: Instant) -> Outgoing:
        """The next attempt's work: on its tier, on a rung, or with the dispatcher."""
        if again.delay_us > LADDER_US_MAX:
            return self._deferred(work, again, now)
        record = self._record(work, source)
        return onward(self._names, record.topic, record, again.due_at, now)

    def _record(self, work: WorkRecord, source: SourceRecord) -> Outgoing:
        """As the dispatcher would write it, under the key that the work had; headers of others stay with it."""
        fresh = work_message(self._names, work)
        return fresh._replace(key=source.key or fresh.key, headers=_carried(fresh.headers, source.headers))

    def _deferred(self, work: WorkRecord, again: Again, now: Instant) -> Outgoing:
        command = Command(
            CommandKind.DEFER,
            work.job_id,
            _command_id(work),
            _ACTOR,
            now,
            due_at=again.due_at,
            work=work_message(self._names, work).value,
        )
        return command_message(self._names, command)


def _carried(fresh: Headers, before: Headers) -> Headers:
    """Ours as they are now, then what others had added."""
    ours = {name for name, _ in fresh}
    return (*fresh, *(header for header in before if header[0] not in ours))


def _command_id(work: WorkRecord) -> str:
    """The same for the same attempt, and as short as command ids must be, however long the run id."""
    name = event_id(work.run_id, work.attempt, "defer")
    return f"defer-{blake2b(name.encode(), digest_size=16).hexdigest()}"
