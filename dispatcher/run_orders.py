"""Commands that speak of one run: what a cancel, a redrive, a discard and a deferral put out (design §4, §6). Pure.

None of them touches a job, so they count for runs of paused and deleted jobs too. What must hold: all follows from the
command and its place alone, so a replay repeats it under the same ids. Nobody's state is asked: whether a cancel or a
redrive's run counts, the reducer says, by the order of the log. How it fails: RequestError, before anything is put out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from waterclock.log.port import Outgoing
from waterclock.model.document import HANDLER_MAX, PAYLOAD_MAX, is_pool_name
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.events import Control, ControlKind, EventKind, Origin, Pending, RunEvent, WorkRecord
from waterclock.model.executor import executor_from_json, executor_label
from waterclock.model.failure_policy import policy_from_json
from waterclock.model.ids import Instant, RunId, minute_of, parse_run_id, slot_of, tenant_of_job
from waterclock.model.job import Command, CommandKind
from waterclock.model.policy_document import check_time_outs
from waterclock.model.schedule import AT_MAX
from waterclock.store.port import DueRow
from waterclock.wire import codec
from waterclock.wire.fit_work import fit_work
from waterclock.wire.framing import RECORD_MAX
from waterclock.wire.messages import control_message, event_message, work_message
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from .commands import Place
from .timeline import Deferred

NOTE_MAX = 500
"""Characters of a note that go into the event."""

COUNT_MAX = 1_000_000
"""Attempts of a run, and redrives: far beyond what policies allow, and far below what a column holds."""

_WORK_BYTES_MAX = RECORD_MAX - 8 * 1024
"""What is made of the work must fit into a record too, beside the names of its run: else it would stop its shard."""


class Order(NamedTuple):
    """What one command about a run puts out. ``run_id``: of the run that it makes, else "". ``about``: of the run that
    a cancel or a redrive speaks of, spelt as everywhere: a command may write the same instant otherwise.

    ``ahead`` must stand in the log before ``messages`` (design §7). ``deferred``: an attempt that waits, as ``row``.
    ``redriven``: the work that ``messages`` hand out, of a redrive; its job's limits may have it wait.
    """

    ahead: tuple[Outgoing, ...] = ()
    messages: tuple[Outgoing, ...] = ()
    deferred: Deferred | None = None
    row: DueRow | None = None
    run_id: str = ""
    about: str = ""
    redriven: WorkRecord | None = None


def order_of(names: Names, pools: Pools, command: Command, place: Place) -> Order:
    """What ``command`` puts out. Raises RequestError (refused), BackendDown."""
    return _ORDERS[command.kind](names, pools, command, place)


def speaks_of_a_run(command: Command) -> bool:
    """Whether the command is one of these."""
    return command.kind in _ORDERS or command.kind is CommandKind.RERUN


def deferred_of(names: Names, row: DueRow) -> Deferred:
    """What a row with an entry brings back: its envelope is the framed work record. Raises UndecodableRecord."""
    work = codec.decode_work(row.env)
    return Deferred(row.due_at, row.tier, row.job_id, row.entry, row.revision, work_message(names, work))


def _cancel(names: Names, _pools: Pools, command: Command, place: Place) -> Order:
    run = _run_of(command)
    at, run_id = place.appended_at, str(run)
    told = Control(ControlKind.CANCEL_REQUESTED, command.job_id, run_id, at)
    asked = RunEvent(EventKind.CANCEL_REQUESTED, command.job_id, run_id, at, reason=command.note[:NOTE_MAX])
    return Order(ahead=(control_message(names, told),), messages=(event_message(names, asked),), about=run_id)


def _pause(names: Names, _pools: Pools, command: Command, place: Place) -> Order:
    return _of_dag_run(EventKind.DAG_PAUSED, names, command, place)


def _resume(names: Names, _pools: Pools, command: Command, place: Place) -> Order:
    return _of_dag_run(EventKind.DAG_RESUMED, names, command, place)


def _of_dag_run(kind: EventKind, names: Names, command: Command, place: Place) -> Order:
    """Whether it is a DagRun, and how it stands, the reducer says."""
    run = _run_of(command)
    if run.node:
        raise RequestError("a node's run cannot be paused", pointer="/run_id", hint="Pause its DagRun")
    event = RunEvent(kind, command.job_id, str(run), place.appended_at, reason=command.note[:NOTE_MAX])
    return Order(messages=(event_message(names, event),))


def _discard(_names: Names, _pools: Pools, command: Command, _place: Place) -> Order:
    """A dead letter is put away: the recorder reads that from the command itself, and no run changes."""
    _run_of(command)
    return Order()


def _redrive(names: Names, pools: Pools, command: Command, place: Place) -> Order:
    given_up = _run_of(command)
    if given_up.node:
        raise RequestError(
            "a node's run cannot be redriven", pointer="/run_id", hint="Run its DagRun again, from this node on"
        )
    work = _work_of(command, pools)
    check_time_outs(policy_from_json(work.policy))  # they go into PENDING
    made = RunId(command.job_id, work.fire_at, place.revision)
    run_id, at = str(made), place.appended_at
    again = work._replace(
        run_id=run_id, due_at=at, attempt=1, verify_from=-1, verify_state="", redrives=work.redrives + 1
    )
    about = str(given_up)
    event = RunEvent(EventKind.PENDING, command.job_id, run_id, at, detail=pending_of_redrive(again, about))
    messages = event_message(names, event), work_message(names, again)
    return Order(messages=messages, run_id=run_id, about=about, redriven=again)


def pending_of_redrive(work: WorkRecord, linked_run: str) -> Pending:
    """What PENDING and HELD say of a redrive. ``linked_run``: the run that was given up."""
    policy = policy_from_json(work.policy)
    return Pending(
        revision=work.revision,
        fire_at=work.fire_at,
        due_at=None,
        tier=work.tier,
        origin=Origin.REDRIVE,
        pool=work.pool,
        handler=executor_label(executor_from_json(work.executor)) if work.executor else work.handler,
        linked_run=linked_run,
        queue_timeout_us=policy.queue_timeout_us,
        run_timeout_us=policy.run_timeout_us,
    )


def _defer(names: Names, pools: Pools, command: Command, place: Place) -> Order:
    work = _work_of(command, pools)
    if not 0 < command.due_at < AT_MAX:
        raise RequestError(
            f"a deferral needs an instant, and {command.due_at} is none",
            pointer="/due_at",
            hint="Give microseconds since the epoch, before the year 2200",
        )
    if work.verify_from < 0:
        # Whoever handed it over has said nothing about the run: the claimer then looks at all of its events.
        work = work._replace(verify_from=0, verify_state="")
    row = _row(work, command.due_at, place)
    return Order(deferred=deferred_of(names, row), row=row)


def _row(work: WorkRecord, due_at: Instant, place: Place) -> DueRow:
    """The row of a deferred attempt, under its own entry and the revision of its command: a replay writes it again."""
    return DueRow(
        slot=slot_of(work.job_id),
        minute=minute_of(due_at),
        due_at=due_at,
        job_id=work.job_id,
        revision=place.revision,
        entry=f"{work.run_id}/{work.attempt}",
        fire_at=work.fire_at,
        attempt=work.attempt,
        tier=work.tier,
        tenant=tenant_of_job(work.job_id),
        env=codec.encode_work(work),
        wts=place.appended_at,
    )


def _run_of(command: Command) -> RunId:
    run = parse_run_id(command.run_id)
    if run.job_id != command.job_id:
        raise RequestError(
            f"{command.run_id} is no run of {command.job_id}",
            pointer="/run_id",
            hint="Key it by the run's job",
        )
    return run


def _work_of(command: Command, pools: Pools) -> WorkRecord:
    """The work that a command carries. What a worker could not take, or no topic would, must not stop the shard."""
    if command.work is None:
        raise RequestError(f"{command.kind} carries no work", pointer="/work", hint="Send the framed work record")
    work = fit_work(command.work)
    if work.job_id != command.job_id or parse_run_id(work.run_id).job_id != command.job_id:
        raise RequestError(
            f"the work is of {work.job_id}, not of {command.job_id}", pointer="/work", hint="Key the command by its job"
        )
    if len(work.payload) > PAYLOAD_MAX or len(work.handler) > HANDLER_MAX:
        raise RequestError("the work is too large", pointer="/work", hint=f"At most {PAYLOAD_MAX} bytes of payload")
    if len(command.work) > _WORK_BYTES_MAX:
        raise RequestError(f"the work record has {len(command.work)} bytes", pointer="/work",
                           hint=f"At most {_WORK_BYTES_MAX}")  # fmt: skip
    _check_numbers(work)
    _check_pool(pools, work)
    return work


def _check_numbers(work: WorkRecord) -> None:
    """What is not refused here goes into columns, run ids and events: it must fit them, and so must what follows it."""
    if not (0 <= work.fire_at < AT_MAX and 0 <= work.due_at < AT_MAX):
        raise RequestError("the work's times are out of range", pointer="/work", hint="From 1970 to 2199")
    if not (1 <= work.attempt <= COUNT_MAX and 0 <= work.redrives <= COUNT_MAX):
        raise RequestError(
            f"the work's attempt {work.attempt} or its {work.redrives} redrives are out of range",
            pointer="/work",
            hint=f"At most {COUNT_MAX:,}; attempts count from 1",
        )


def _check_pool(pools: Pools, work: WorkRecord) -> None:
    if not is_pool_name(work.pool):
        raise RequestError(f"{work.pool[:80]!r} is not a pool", pointer="/work", hint="Give the name of a pool")
    if work.pool == "default":
        return
    try:
        pools.check(work.tier, work.pool)
    except NotFound as error:
        raise RequestError(error.message, pointer="/work", hint=error.hint) from error


_ORDERS: dict[CommandKind, Callable[[Names, Pools, Command, Place], Order]] = {
    CommandKind.CANCEL: _cancel,
    CommandKind.REDRIVE: _redrive,
    CommandKind.DISCARD: _discard,
    CommandKind.DEFER: _defer,
    CommandKind.PAUSE_RUN: _pause,
    CommandKind.RESUME_RUN: _resume,
}
