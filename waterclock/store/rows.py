"""The port's values as rows of the tables, and back: what is derived (day, hour, pshard, tenant) is derived here alone.

What must hold: values in the order of ``tables.py``; a value written and read back is equal, but for empty ones of a
cell that was never written. Enum numbers and word lists are on-disk format: append only.
"""

from __future__ import annotations

import orjson

from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S, Instant, RunId, slot_of, tenant_of_job
from waterclock.model.job import Cron, Dates, Delay, Every, JobSpec, JobStatus, JobVersion, Once, Pause, Tier
from waterclock.model.run_log import LogStream
from waterclock.model.stored_spec import spec_from_json, spec_to_json

from .cells import Values
from .listing import JobListing
from .port import (
    ApiKey,
    AttemptRow,
    AuditRow,
    DueDelete,
    DueRow,
    FailureRow,
    JobRow,
    LetterAction,
    LetterRow,
    LogRow,
    RunRow,
)
from .tables import PSHARDS

US_PER_HOUR = 3_600 * US_PER_S
US_PER_DAY = 24 * US_PER_HOUR

KINDS = ("cron", "every", "once", "dates", "delay")
KEY_SHELF = "keys"
"""The one partition of ``api_keys``."""

ORIGINS = ("", "SCHEDULE", "TRIGGER", "UNKNOWN", "REDRIVE", "BACKFILL")

_KIND_NUMBER = {Cron: 0, Every: 1, Once: 2, Dates: 3, Delay: 4}
_TIERS = tuple(Tier)
_RUN_STATUSES = tuple(RunStatus)
_OUTCOMES = tuple(Outcome)
_JOB_STATUSES = tuple(JobStatus)
_LETTER_ACTIONS = tuple(LetterAction)
_LOG_STREAMS = tuple(LogStream)


def day_of(at: Instant) -> int:
    """UTC days since the epoch; floors, so that instants before 1970 have a day too."""
    return at // US_PER_DAY


def pshard_of(job_id: str) -> int:
    """The part of its tenant's lists in which a job stands."""
    return slot_of(job_id) % PSHARDS


def due_values(row: DueRow) -> Values:
    """A row of ``due``: the port's value without its stamp."""
    return row[:-1]


def due_key(delete: DueDelete) -> Values:
    """The whole key of one row of ``due``."""
    return delete[:-1]


def due_row(slot: int, minute: int, values: Values) -> DueRow:
    """A row of ``due`` as read; its stamp is the WRITETIME of ``env``."""
    due_at, job_id, revision, entry, fire_at, attempt, tier, tenant, env, wts = values
    return DueRow(slot, minute, due_at, job_id, revision, entry, fire_at, attempt, _TIERS[tier], tenant, env, wts)


def _kind_number(spec: JobSpec) -> int:
    return _KIND_NUMBER[type(spec.schedule)]


def job_values(job: JobRow) -> Values:
    """A row of ``jobs``."""
    tenant, _, name = job.job_id.partition(":")
    zone = job.spec.schedule.zone if isinstance(job.spec.schedule, Cron) else ""
    return (
        job.job_id,
        spec_to_json(job.spec).decode(),
        *job[2:11],
        tenant,
        name,
        _kind_number(job.spec),
        zone,
        job.spec.tier,
        _pause_text(job.pause),
    )


def job_row(job_id: str, values: Values) -> JobRow:
    """A row of ``jobs`` as read."""
    spec, status, *rest = values[:10]
    return JobRow._make((job_id, spec_from_json(spec.encode()), _JOB_STATUSES[status], *rest, _pause_of(values[15])))


def version_values(version: JobVersion) -> Values:
    """A row of ``job_versions``."""
    told = (version.action, version.note, _pause_text(version.pause), version.from_revision)
    return (version.job_id, version.revision, spec_to_json(version.spec).decode(), *version[3:9], *told)


def version_of(job_id: str, values: Values) -> JobVersion:
    """A row of ``job_versions`` as read."""
    revision, spec, status, *rest, action, note, pause, from_revision = values
    told = (action or "", note or "", _pause_of(pause), from_revision or 0)  # rows of an earlier release have none
    head = (job_id, revision, spec_from_json(spec.encode()), _JOB_STATUSES[status])
    return JobVersion._make((*head, *rest, *told))


def _pause_text(pause: Pause | None) -> str:
    """On-disk format: parts may be appended, never moved."""
    return "" if pause is None else orjson.dumps(tuple(pause)).decode()


def _pause_of(text: str | None) -> Pause | None:
    return Pause._make(orjson.loads(text)[:4]) if text else None


def listing_values(job: JobRow) -> Values:
    """A row of ``jobs_by_tenant``."""
    tenant, _, name = job.job_id.partition(":")
    return (tenant, pshard_of(job.job_id), job.created_at, job.job_id, name, _kind_number(job.spec), job.status)


def listing_of(values: Values) -> JobListing:
    """A row of ``jobs_by_tenant`` as read."""
    created_at, job_id, _name, kind, status = values
    return JobListing(job_id, created_at, KINDS[kind], _JOB_STATUSES[status])


def run_row(job_id: str, values: Values) -> RunRow:
    """A row of ``runs``, the table before the drawers, as read."""
    fire_at, series, revision, tier, origin, status, outcome, *rest = values
    # Rows of an earlier release have none of these.
    *told, next_attempt_at, linked_run, asked_to_stop, is_last, is_dag, paused, rerun_from, _tenant = rest
    head = (job_id, fire_at, series, revision, _TIERS[tier], ORIGINS[origin], _RUN_STATUSES[status], _OUTCOMES[outcome])
    more = (next_attempt_at or 0, linked_run or "", bool(asked_to_stop), bool(is_last))
    return RunRow._make((*head, *told, *more, bool(is_dag), bool(paused), tuple((rerun_from or "").split())))


def attempt_values(row: AttemptRow) -> Values:
    """A row of ``attempts``."""
    return (row.job_id, day_of(row.fire_at), *row[1:-1])


def attempt_row(job_id: str, values: Values) -> AttemptRow:
    """A row of ``attempts`` as read; its stamp is a WRITETIME."""
    fire_at, series, node, attempt, outcome, *rest = values
    return AttemptRow(job_id, fire_at, series, node, attempt, _OUTCOMES[outcome], *rest)


def failure_values(row: FailureRow) -> Values:
    """A row of ``failures``."""
    place = failure_key(row.ended_at, RunId(row.job_id, row.fire_at, row.series, row.node))
    return (*place, row.reason, row.fingerprint, row.error_class, row.error, row.attempts)


def failure_key(ended_at: Instant, run: RunId) -> Values:
    """The whole key of a row of ``failures``."""
    return (tenant_of_job(run.job_id), ended_at // US_PER_HOUR, pshard_of(run.job_id), ended_at, *run)


def failure_row(values: Values) -> FailureRow:
    """A row of ``failures`` as read; its stamp is a WRITETIME."""
    ended_at, job_id, fire_at, series, node, reason, fingerprint, error_class, error, attempts, wts = values
    head = (job_id, fire_at, series, node, ended_at, reason, fingerprint, wts)
    return FailureRow(*head, error_class or "", error or "", attempts or 0)


def letter_values(row: LetterRow) -> Values:
    """A row of ``letters``."""
    action = _LETTER_ACTIONS.index(row.action) + 1
    place = (row.job_id, day_of(row.fire_at), row.fire_at, row.series, row.node)
    return (*place, action, row.linked_run, row.actor, row.at)


def letter_row(job_id: str, values: Values) -> LetterRow:
    """A row of ``letters`` as read."""
    fire_at, series, node, action, linked_run, actor, at = values
    return LetterRow(job_id, fire_at, series, node, _LETTER_ACTIONS[action - 1], linked_run, actor, at)


def audit_values(row: AuditRow) -> Values:
    """A row of ``audit``."""
    return (
        tenant_of_job(row.job_id),
        day_of(row.at),
        row.partition,
        row.at,
        row.offset,
        row.actor,
        row.action,
        row.job_id,
        row.detail,
    )


def key_values(key: ApiKey) -> Values:
    """A row of ``api_keys``."""
    return (KEY_SHELF, *key)


def line_values(row: LogRow) -> Values:
    """A row of ``run_logs``: the port's value without its stamp."""
    return (*row[:5], _LOG_STREAMS.index(row.stream), row.text)


def line_row(run_id: str, attempt: int, values: Values) -> LogRow:
    """A row of ``run_logs`` as read."""
    fence, seq, at, stream, text = values
    return LogRow(run_id, attempt, fence, seq, at, _LOG_STREAMS[stream], text)
