"""The tables, as data: columns, keys, order. The one place that knows their shape beside ``schemas/cassandra``.

Both stores are made from it: ``statements.py`` renders it to CQL, ``memory.py`` interprets it; a test holds it against
the .cql files. What must hold: the values of a row are always given in the order partition, clustering, regular.
"""

from __future__ import annotations

from typing import NamedTuple

HISTORY_TTL_S = 30 * 86_400
AUDIT_TTL_S = 400 * 86_400
REQUEST_TTL_S = 2 * 86_400
LOG_TTL_S = 7 * 86_400

PSHARDS = 16
"""Parts of a tenant's lists: ``slot % 16``, so that a big tenant is no single hot partition. On-disk format."""


class Column(NamedTuple):
    """``type`` is the CQL type; times are bigint microseconds."""

    name: str
    type: str


class Table(NamedTuple):
    """``descending``: one flag for each clustering column. ``ttl_s``: the table's default, 0 = none.

    ``expiring``: every write binds a time to live of its own. ``stamped``: the regular column whose WRITETIME every
    read returns after the last column; "" where a column of the table holds the stamp.
    """

    name: str
    partition: tuple[Column, ...]
    clustering: tuple[Column, ...]
    descending: tuple[bool, ...]
    regular: tuple[Column, ...]
    ttl_s: int = 0
    expiring: bool = False
    stamped: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order in which a row's values are given."""
        return self.partition + self.clustering + self.regular


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*part.split()) for part in text.split(",") if part.strip())


def _table(
    name: str,
    key: str,
    clustering: str,
    regular: str,
    *,
    ttl_s: int = 0,
    expiring: bool = False,
    stamped: str = "",
) -> Table:
    order = [part.split() for part in clustering.split(",") if part.strip()]
    return Table(
        name,
        _columns(key),
        tuple(Column(words[0], words[1]) for words in order),
        tuple(words[-1] == "desc" for words in order),
        _columns(regular),
        ttl_s,
        expiring,
        stamped,
    )


JOBS = _table(
    "jobs",
    "job_id text",
    "",
    "spec text, status tinyint, revision bigint, anchor_at bigint, spec_revision bigint, created_at bigint, "
    "updated_at bigint, src_part int, src_offset bigint, wts bigint, tenant text, name text, kind tinyint, tz text, "
    "tier tinyint, pause text",
    expiring=True,
)
DUE = _table(
    "due",
    "slot smallint, minute int",
    "due_at bigint, job_id text, revision bigint, entry text",
    "fire_at bigint, attempt int, tier tinyint, tenant text, env blob",
    expiring=True,
    stamped="env",
)
JOB_VERSIONS = _table(
    "job_versions",
    "job_id text",
    "revision bigint desc",
    "spec text, status tinyint, actor text, wts bigint, anchor_at bigint, spec_revision bigint, created_at bigint, "
    "action text, note text, pause text, from_revision bigint",
)
JOBS_BY_TENANT = _table(
    "jobs_by_tenant",
    "tenant text, pshard smallint",
    "created_at bigint desc, job_id text desc",
    "name text, kind tinyint, status tinyint",
    expiring=True,
)
RUNS = _table(
    "runs",
    "job_id text, day int",
    "fire_at bigint desc, series bigint desc",
    "revision bigint, tier tinyint, trig tinyint, status tinyint, outcome tinyint, attempt int, dispatched_at bigint, "
    "started_at bigint, ended_at bigint, worker text, fence bigint, error text, result blob, reason text, zone text, "
    "tzdata text, skipped_count int, skipped_to bigint, wts bigint, next_attempt_at bigint, linked_run text, "
    "cancel_requested tinyint, is_last tinyint, is_dag tinyint, paused tinyint, rerun_from text, tenant text",
    ttl_s=HISTORY_TTL_S,
)
RUNS_BY_DRAWER = _table(
    "runs_by_drawer",
    "day int, drawer smallint",
    "job_id text, fire_at bigint desc, series bigint desc",
    "status tinyint, told text, result blob",
    ttl_s=HISTORY_TTL_S,
    stamped="told",
)
DAG_NODES = _table(
    "dag_nodes",
    "job_id text, fire_at bigint, series bigint",
    "node text",
    "revision bigint, tier tinyint, status tinyint, outcome tinyint, attempt int, dispatched_at bigint, "
    "started_at bigint, ended_at bigint, worker text, fence bigint, error text, result blob, reason text, wts bigint, "
    "next_attempt_at bigint, cancel_requested tinyint, counts_as tinyint",
    ttl_s=HISTORY_TTL_S,
)
ATTEMPTS = _table(
    "attempts",
    "job_id text, day int",
    "fire_at bigint desc, series bigint desc, node text, attempt int",
    "outcome tinyint, started_at bigint, ended_at bigint, worker text, fence bigint, error text",
    ttl_s=HISTORY_TTL_S,
    stamped="outcome",
)
FAILURES = _table(
    "failures",
    "tenant text, hour int, pshard smallint",
    "ended_at bigint desc, job_id text, fire_at bigint, series bigint, node text",
    "reason text, fingerprint text, error_class text, error text, attempts int",
    ttl_s=HISTORY_TTL_S,
    stamped="reason",
)
LETTERS = _table(
    "letters",
    "job_id text, day int",
    "fire_at bigint desc, series bigint desc, node text",
    "action tinyint, linked_run text, actor text, at bigint",
    ttl_s=HISTORY_TTL_S,
)
AUDIT = _table(
    "audit",
    "tenant text, day int, src int",
    "at bigint desc, off bigint desc",
    "actor text, action text, job_id text, detail text",
    ttl_s=AUDIT_TTL_S,
)

API_KEYS = _table(
    "api_keys",
    "shelf text",
    "prefix text",
    "digest blob, tenant text, name text, scopes text, created_at bigint, expires_at bigint, revoked_at bigint",
)
API_ANSWERS = _table(
    "api_answers",
    "tenant text, request_key text",
    "",
    "fingerprint blob, status int, headers text, body blob, at bigint",
    ttl_s=REQUEST_TTL_S,
)
API_OPERATIONS = _table(
    "api_operations",
    "tenant text, operation_id text",
    "",
    "job_id text, action text, at bigint",
    ttl_s=REQUEST_TTL_S,
)
CALENDARS = _table(
    "calendars", "tenant text, name text", "version bigint desc", "actor text, document text, compiled text"
)
CALENDAR_NAMES = _table(
    "calendar_names", "tenant text", "name text", "version bigint, description text, deleted tinyint"
)
CALENDAR_JOBS = _table("calendar_jobs", "tenant text, name text, pshard smallint", "job_id text", "at bigint")
RUN_LOGS = _table(
    "run_logs",
    "run_id text, attempt int",
    "fence bigint, seq int",
    "at bigint, stream tinyint, line text",
    ttl_s=LOG_TTL_S,
)
UPKEEP = _table("upkeep", "what text", "place text", "told text, at bigint")
BACKFILLS = _table(
    "backfills", "tenant text", "job_id text desc, number bigint desc", "told text, at bigint", ttl_s=HISTORY_TTL_S
)

TABLES = (
    JOBS,
    DUE,
    JOB_VERSIONS,
    JOBS_BY_TENANT,
    RUNS,
    RUNS_BY_DRAWER,
    ATTEMPTS,
    FAILURES,
    AUDIT,
    API_KEYS,
    API_ANSWERS,
    API_OPERATIONS,
    RUN_LOGS,
    LETTERS,
    UPKEEP,
    CALENDARS,
    CALENDAR_NAMES,
    CALENDAR_JOBS,
    DAG_NODES,
    BACKFILLS,
)
"""Every table of the domain (``schema_migrations`` belongs to the migrator alone)."""
