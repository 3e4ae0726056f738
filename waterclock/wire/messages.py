"""Values as messages ready to append: topic, key, Avro value, text headers.

The one place that knows which kind goes to which topic under which key. Event ids, idempotency keys and record keys
are on-disk format. Run events and work records of the dispatcher have a faster way: ``template.py``.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from waterclock.log.port import Headers, Outgoing
from waterclock.model.backfill import Backfilled, make_backfill_id
from waterclock.model.dag_state import KeptDagRun, KeptNode
from waterclock.model.events import (
    Answered,
    Control,
    DeadLetter,
    EventKind,
    Heartbeat,
    Lease,
    Reject,
    Revised,
    RunEvent,
    SourceRecord,
    WorkRecord,
)
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.gathering import Gathering
from waterclock.model.ids import event_id, format_instant, work_key
from waterclock.model.job import Command
from waterclock.model.job_state import JobState
from waterclock.model.role_state import KeyState, OpenRunState, RecordedRunState, ShardState
from waterclock.model.run_log import RunLog
from waterclock.model.triggers import JobTriggers

from . import codec, headers
from .names import Names

CURSOR_KEY = "cursor"
"""Key of the ShardState in a state topic; a job id, which has a colon, can never be the same."""

_CARRIED_MAX = 512 * 1024
_CARRIED_HEADERS_MAX = 64 * 1024
_KEY_MAX = 1_024

_OFTEN = (EventKind.DAG_PAUSED, EventKind.DAG_RESUMED)
"""Events of a run that may come more than once, and mean something each time."""

_OF_ATTEMPTS = frozenset(
    {
        EventKind.STARTED,
        EventKind.ATTEMPT_SUCCEEDED,
        EventKind.ATTEMPT_FAILED,
        EventKind.ATTEMPT_TIMED_OUT,
        EventKind.ATTEMPT_CANCELLED,
    }
)
"""What workers say: two of these for each run, so their headers are put together in the shortest way."""

_outgoing = tuple.__new__


def event_message(names: Names, event: RunEvent) -> Outgoing:
    """A fact, for run-events, keyed by job id."""
    headers_of = _attempt_headers if event.kind in _OF_ATTEMPTS else _event_headers
    value = codec.encode_event(event)
    return _outgoing(Outgoing, (names.run_events, event.job_id.encode(), value, headers_of(names.prefix, event), None))


def id_of_event(event: RunEvent) -> str:
    """The event's ``ce_id``: ``<run id>/<attempt>/<word>``.

    Of a pause and its end ``<run id>/<instant>/<word>``, of REVISED ``<job id>/<revision>/revised``, of ANSWERED
    ``<job id>/<offset of the command>/answered``, of BACKFILL ``<its id>/<seq>/backfill``.
    """
    if isinstance(event.detail, Revised):
        return event_id(event.job_id, event.detail.revision, "revised")
    if isinstance(event.detail, Answered):
        return event_id(event.job_id, event.detail.offset, "answered")
    if isinstance(event.detail, Backfilled):
        return event_id(make_backfill_id(event.job_id, event.detail.number), event.detail.seq, "backfill")
    number = event.at if event.kind in _OFTEN else event.attempt
    return event_id(event.run_id, number, headers.WORDS[event.kind])


def _event_headers(prefix: str, event: RunEvent) -> Headers:
    kind = event.kind
    subject = event.run_id or event.job_id
    story = (
        headers.EVENT_TYPE[kind],
        ("ce_subject", subject.encode()),
        headers.attempt(event.attempt),
        headers.time(event.at),
        ("ce_id", id_of_event(event).encode()),
        headers.event_source(prefix, kind, event.worker),
        headers.tenant(event.job_id),
        *headers.TAIL,
    )
    return (*story, ("waterclock-fence", str(event.token).encode())) if event.token else story


def _attempt_headers(prefix: str, event: RunEvent) -> Headers:
    """As ``_event_headers``, for an event of an attempt (a property test holds the two together)."""
    kind, job_id, run_id, at, number, worker, _, token, _, _ = event
    subject = run_id.encode()
    kind_of, attempt, end_of_id, source = _of_attempt(prefix, kind, number, worker)
    story = (
        kind_of,
        ("ce_subject", subject),
        attempt,
        headers.time(at),
        ("ce_id", subject + end_of_id),
        source,
        headers.tenant(job_id),
        headers.SPEC,
        headers.AVRO,
    )
    return (*story, ("waterclock-fence", b"%d" % token)) if token else story


@lru_cache(maxsize=1_024)
def _of_attempt(
    prefix: str, kind: EventKind, number: int, worker: str
) -> tuple[headers.Pair, headers.Pair, bytes, headers.Pair]:
    """What is the same in the headers of a worker's events: type, attempt, end of the event id, source."""
    end_of_id = event_id("", number, headers.WORDS[kind]).encode()
    source = headers.event_source(prefix, kind, worker)
    return headers.EVENT_TYPE[kind], headers.attempt(number), end_of_id, source


def work_message(names: Names, work: WorkRecord) -> Outgoing:
    """Work, for the tier's topic, keyed by job id; a node's by job id and node."""
    run_id = work.run_id.encode()
    story = (
        ("ce_type", b"io.waterclock.run.work"),
        ("ce_subject", run_id),
        headers.attempt(work.attempt),
        headers.time(work.due_at),
        ("ce_id", event_id(work.run_id, work.attempt, "work").encode()),
        ("idempotency-key", run_id),
        headers.source(names.prefix, "dispatcher"),
        headers.tenant(work.job_id),
        *headers.TAIL,
    )
    key = work_key(work.run_id) if "/" in work.run_id else work.job_id
    return Outgoing(names.runs(work.tier, work.pool), key.encode(), codec.encode_work(work), story)


def command_message(names: Names, command: Command) -> Outgoing:
    """An order, for commands, keyed by job id."""
    story = (
        ("ce_type", f"io.waterclock.command.{command.kind.value.lower()}".encode()),
        ("ce_subject", command.job_id.encode()),
        headers.time(command.at),
        ("ce_id", command.command_id.encode()),
        headers.source(names.prefix, "commands"),
        headers.tenant(command.job_id),
        *headers.TAIL,
    )
    return Outgoing(names.commands, command.job_id.encode(), codec.encode_command(command), story)


def lease_message(names: Names, lease: Lease) -> Outgoing:
    """HELLO or FENCED, for leases, keyed by worker."""
    story = (
        ("ce_type", f"io.waterclock.lease.{lease.kind.value.lower()}".encode()),
        ("ce_subject", lease.worker.encode()),
        headers.time(lease.at),
        ("ce_id", f"{lease.worker}/{format_instant(lease.at)}/{lease.kind.value.lower()}".encode()),
        headers.source(names.prefix, "workers", lease.worker),
        *headers.TAIL,
    )
    return Outgoing(names.leases, lease.worker.encode(), codec.encode_lease(lease), story)


def heartbeat_message(names: Names, heartbeat: Heartbeat) -> Outgoing:
    """A beat, for heartbeats, keyed by worker."""
    story = (
        ("ce_type", b"io.waterclock.worker.beat"),
        ("ce_subject", heartbeat.worker.encode()),
        headers.time(heartbeat.at),
        ("ce_id", f"{heartbeat.worker}/{heartbeat.incarnation}/{format_instant(heartbeat.at)}".encode()),
        headers.source(names.prefix, "workers", heartbeat.worker),
        *headers.TAIL,
    )
    return Outgoing(names.heartbeats, heartbeat.worker.encode(), codec.encode_heartbeat(heartbeat), story)


def run_log_message(names: Names, log: RunLog) -> Outgoing:
    """Lines of an attempt (at least one), for run-logs, keyed by run id: a job's runs are read apart."""
    run_id, first = log.run_id.encode(), log.lines[0]
    batch = f"{log.token}/{first.seq}-{first.at}"
    story = (
        ("ce_type", b"io.waterclock.run.log"),
        ("ce_subject", run_id),
        headers.attempt(log.attempt),
        headers.time(first.at),
        ("ce_id", f"{event_id(log.run_id, log.attempt, 'log')}/{batch}".encode()),
        headers.source(names.prefix, "workers", log.worker),
        headers.tenant(log.job_id),
        *headers.TAIL,
    )
    return Outgoing(names.run_logs, run_id, codec.encode_run_log(log), story)


def control_message(names: Names, control: Control) -> Outgoing:
    """A cancel or an expiry, for control, keyed by job id."""
    word = control.kind.value.lower().replace("_", "-")
    story = (
        ("ce_type", f"io.waterclock.control.{word}".encode()),
        ("ce_subject", control.run_id.encode()),
        headers.time(control.at),
        ("ce_id", f"{control.run_id}/{word}".encode()),
        headers.source(names.prefix, "control"),
        headers.tenant(control.job_id),
        *headers.TAIL,
    )
    return Outgoing(names.control, control.job_id.encode(), codec.encode_control(control), story)


def reject_message(names: Names, reject: Reject, *, value_bytes: int = 0) -> Outgoing:
    """Refused bytes, for rejects, under the key they had (without one, or with one too long: their coordinates).

    What is too long to be carried is cut, and the header ``waterclock-cut`` gives the full length; the rest is found at
    ``waterclock-origin`` for as long as that topic keeps it. ``value_bytes``: how long a value was that the
    caller has cut.
    """
    where = headers.origin(reject.source)
    source, cut = _carried(reject.source)
    if value_bytes > len(reject.source.value or b""):
        cut = (("waterclock-cut", str(value_bytes).encode()),)
    story = (
        ("ce_type", b"io.waterclock.reject"),
        where,
        headers.error(reject.reason),
        headers.time(reject.at),
        ("ce_id", where[1] + b"/reject"),
        headers.source(names.prefix, reject.role),
        *headers.TAIL,
        *cut,
    )
    value = codec.encode_reject(reject._replace(source=source))
    key = where[1] if not source.key or len(source.key) > _KEY_MAX else source.key
    return Outgoing(names.rejects, key, value, story)


def dead_letter_message(names: Names, letter: DeadLetter) -> Outgoing:
    """A run given up, for the DLQ, keyed by job id."""
    work, cut = (None, ()) if letter.work is None else _carried(letter.work)
    story = (
        ("ce_type", b"io.waterclock.run.dead"),
        ("ce_subject", letter.run_id.encode()),
        headers.attempt(letter.attempts),
        headers.error(f"{letter.reason}: {letter.error_class}: {letter.error_message}"),
        headers.time(letter.at),
        ("ce_id", event_id(letter.run_id, letter.attempts, "dead").encode()),
        headers.cause(letter.error_class or letter.reason, letter.fingerprint),
        ("waterclock-first-failure", headers.time(letter.first_failure_at)[1]),
        ("waterclock-last-failure", headers.time(letter.last_failure_at)[1]),
        headers.source(names.prefix, "retry-router"),
        headers.tenant(letter.job_id),
        *headers.TAIL,
        *(() if letter.work is None else (headers.origin(letter.work),)),
        *cut,
    )
    value = codec.encode_dead_letter(letter._replace(work=work))
    return Outgoing(names.dlq, letter.job_id.encode(), value, story)


def shard_state_message(names: Names, role: str, partition: int, state: ShardState) -> Outgoing:
    """The copy of a shard's position, in the shard's own partition."""
    return Outgoing(
        names.state(role), CURSOR_KEY.encode(), codec.encode_shard_state(state), headers.TAIL, partition=partition
    )


def job_state_message(names: Names, role: str, partition: int, state: JobState) -> Outgoing:
    """How far a job was caught up, in the job's partition."""
    return Outgoing(
        names.state(role), state.job_id.encode(), codec.encode_job_state(state), headers.TAIL, partition=partition
    )


KEY_PREFIX, ID_PREFIX = "key/", "id/"
"""How the keys of KeyStates begin in a state topic; a job id, which has no slash, can never be the same."""


def key_of_state(job_id: str, key: str, command_id: str) -> str:
    """The key of a KeyState: ``key/<job id>/<hash of the key>``; without a key ``id/...``, of the command id."""
    prefix, intention = (KEY_PREFIX, key) if key else (ID_PREFIX, command_id)
    return f"{prefix}{job_id}/{blake2b(intention.encode(), digest_size=16).hexdigest()}"


def key_state_message(names: Names, role: str, partition: int, state: KeyState) -> Outgoing:
    """An intention that was served, in the job's partition."""
    key = key_of_state(state.job_id, state.key, state.command_id).encode()
    return Outgoing(names.state(role), key, codec.encode_key_state(state), headers.TAIL, partition=partition)


def open_run_message(names: Names, role: str, partition: int, run: OpenRunState) -> Outgoing:
    """A run that has been open for long, in its own partition."""
    value = codec.encode_open_run(run)
    return Outgoing(names.state(role), run.run_id.encode(), value, headers.TAIL, partition=partition)


def recorded_run_message(names: Names, role: str, partition: int, run: RecordedRunState) -> Outgoing:
    """A run that has been open for long, as the recorder knows it, in its own partition."""
    value = codec.encode_recorded_run(run)
    return Outgoing(names.state(role), run.run_id.encode(), value, headers.TAIL, partition=partition)


FLOW_PREFIX = "flow/"
"""How the keys of JobFlow and RunFlow begin: a run id has an ``@``, which no job id has."""


def flow_job_message(names: Names, role: str, partition: int, flow: JobFlow) -> Outgoing:
    """A job whose runs wait for one another, in the job's partition."""
    key, value = (FLOW_PREFIX + flow.job_id).encode(), codec.encode_flow_job(flow)
    return Outgoing(names.state(role), key, value, headers.TAIL, partition=partition)


def flow_run_message(names: Names, role: str, partition: int, flow: RunFlow) -> Outgoing:
    """A run of such a job that waits or is open, in the job's partition."""
    key, value = (FLOW_PREFIX + flow.run_id).encode(), codec.encode_flow_run(flow)
    return Outgoing(names.state(role), key, value, headers.TAIL, partition=partition)


def dag_run_message(names: Names, role: str, partition: int, run: KeptDagRun) -> Outgoing:
    """An open DagRun, in its own partition."""
    value = codec.encode_dag_run(run)
    return Outgoing(names.state(role), run.run_id.encode(), value, headers.TAIL, partition=partition)


def dag_node_message(names: Names, role: str, partition: int, node: KeptNode) -> Outgoing:
    """A node run of an open DagRun, in the DagRun's partition."""
    value = codec.encode_dag_node(node)
    return Outgoing(names.state(role), node.run_id.encode(), value, headers.TAIL, partition=partition)


def job_triggers_message(names: Names, standing: JobTriggers) -> Outgoing:
    """What starts a job, for triggers, keyed by job id; all of it in one partition, which is read whole."""
    value = codec.encode_job_triggers(standing)
    return Outgoing(names.triggers, standing.job_id.encode(), value, headers.TAIL, partition=0)


def triggers_tombstone(names: Names, job_id: str) -> Outgoing:
    """Nothing starts this job any more."""
    return Outgoing(names.triggers, job_id.encode(), None, (), partition=0)


GATHER_PREFIX = "gather/"
"""How the keys of open windows begin in a state topic; the rest is the job's id."""


def gathering_message(names: Names, role: str, partition: int, gathering: Gathering) -> Outgoing:
    """What a job's open window has gathered, in the job's partition."""
    key, value = (GATHER_PREFIX + gathering.job_id).encode(), codec.encode_gathering(gathering)
    return Outgoing(names.state(role), key, value, headers.TAIL, partition=partition)


BACKFILL_PREFIX = "backfill/"
"""How the keys of backfills begin in a state topic; the rest is the backfill's id."""


def backfill_state_message(names: Names, role: str, partition: int, event: RunEvent) -> Outgoing:
    """A backfill as it stands, in its job's partition: what a BACKFILL would say of it now."""
    assert isinstance(event.detail, Backfilled)
    key = BACKFILL_PREFIX + make_backfill_id(event.job_id, event.detail.number)
    return Outgoing(names.state(role), key.encode(), codec.encode_event(event), headers.TAIL, partition=partition)


def state_tombstone(names: Names, role: str, partition: int, key: str) -> Outgoing:
    """Forget what a state topic holds under ``key``."""
    return Outgoing(names.state(role), key.encode(), None, (), partition=partition)


def _carried(source: SourceRecord) -> tuple[SourceRecord, Headers]:
    """A record small enough to be carried in another, and the header that says so if it was cut."""
    value, key = source.value or b"", source.key or b""
    size = sum(len(name) + len(text) for name, text in source.headers)
    if len(value) + len(key) <= _CARRIED_MAX and size <= _CARRIED_HEADERS_MAX:
        return source, ()
    kept = source.headers if size <= _CARRIED_HEADERS_MAX else ()
    key = key[:_CARRIED_HEADERS_MAX]
    small = source._replace(key=key, value=value[: _CARRIED_MAX - len(key)], headers=kept)
    return small, (("waterclock-cut", str(len(value)).encode()),)
