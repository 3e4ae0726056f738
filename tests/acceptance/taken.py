"""What stood in topics, tables and the sink's ledger at rest: taken once, judged by many.

Plain values, so that judges need no servers: they judge kept ones and made-up ones alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.acceptance import dumps
from tests.acceptance.scene import Scene
from tests.oracle.chronicle import Chronicle
from waterclock.model.job import Tier
from waterclock.wire.names import Names

Record: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

_SAID_OF_REPAIRS = ("repaired", "worker is not known on leases")
_TABLES = {
    "runs": "SELECT job_id, fire_at, series, status, told FROM runs_by_drawer",
    "attempts": "SELECT job_id, fire_at, series, attempt, outcome, worker, fence FROM attempts",
    "failures": "SELECT job_id, fire_at, series, reason, error_class, attempts FROM failures",
    "jobs": "SELECT job_id, revision, status FROM jobs",
}
"""What is judged of each table."""

JUDGED = tuple(_TABLES)
_OF_DAGS = {"dag_nodes": "SELECT job_id, fire_at, series, node, status, outcome, attempt FROM dag_nodes"}
"""What only checks with Dags ask for."""


class Taken(NamedTuple):
    """Records as ``dumps.dump`` makes them, read committed. ``work``: of all tiers, each with its ``topic``.

    ``behind``: {(topic, partition): offset} that the workers' groups have committed. ``told``: {partition: (offset,
    text)} that the retry router has committed on run-events. ``rows``: by table. ``said``: what routers logged of
    repairs.
    """

    events: Sequence[Record] = ()
    commands: Sequence[Record] = ()
    job_events: Sequence[Record] = ()
    rejects: Sequence[Record] = ()
    control: Sequence[Record] = ()
    leases: Sequence[Record] = ()
    beats: Sequence[Record] = ()
    dlq: Sequence[Record] = ()
    work: Sequence[Record] = ()
    outputs: Sequence[Record] = ()
    ledger: Sequence[dict[str, Any]] = ()
    behind: dict[tuple[str, int], int] = {}
    told: dict[int, tuple[int, str]] = {}
    rows: dict[str, list[Row]] = {}
    said: Sequence[str] = ()

    def chronicle(self) -> Chronicle:
        """What the events tell."""
        return Chronicle(self.events)


def topics_of(names: Names) -> dict[str, str]:
    """The topics that are dumped as they are, by field of ``Taken``."""
    return {
        "commands": names.commands,
        "job_events": names.job_events,
        "rejects": names.rejects,
        "control": names.control,
        "leases": names.leases,
        "beats": names.heartbeats,
        "dlq": names.dlq,
    }


def take(scene: Scene) -> Taken:
    """All of it, up to the high watermarks; of run-events what ``scene.following`` has read. Nobody writes any more."""
    stack = scene.stack
    names, bootstrap = stack.names, stack.bootstrap
    plain: dict[str, list[Record]] = {field: dumps.dump(bootstrap, topic) for field, topic in topics_of(names).items()}
    work, behind = take_work(bootstrap, names)
    return Taken(
        events=scene.following.events,
        work=work,
        behind=behind,
        told=dumps.committed_texts(bootstrap, names.group("retry-router"), names.run_events),
        outputs=scene.outputs(),
        ledger=scene.sink.lines(),
        rows=take_rows(stack.cassandra.port),
        said=_said_of_repairs(scene),
        **plain,
    )


def take_work(bootstrap: str, names: Names) -> tuple[list[Record], dict[tuple[str, int], int]]:
    """``work`` and ``behind`` of ``Taken``."""
    work: list[Record] = []
    behind: dict[tuple[str, int], int] = {}
    for tier in Tier:
        topic = names.runs(tier)
        work += [{**record, "topic": topic} for record in dumps.dump(bootstrap, topic)]
        positions = dumps.committed_texts(bootstrap, names.worker_group(tier), topic)
        behind |= {(topic, partition): offset for partition, (offset, _) in positions.items()}
    return work, behind


def take_rows(port: int, tables: Iterable[str] = JUDGED) -> dict[str, list[Row]]:
    """The rows of every table that is judged, as plain values."""
    found = {table: [row._asdict() for row in dumps.rows(port, (_TABLES | _OF_DAGS)[table])] for table in tables}
    if "runs" in found:
        found["runs"] = [whole_run(row) for row in found["runs"]]
    return found


def whole_run(row: Row) -> Row:
    """What ``told`` says of a run, as columns beside the others; what is left out there is 0."""
    told = json.loads(row.pop("told"))
    return {"outcome": 0, "attempt": 0, "skipped_count": 0} | row | told


def _said_of_repairs(scene: Scene) -> list[str]:
    routers = [role for role in scene.stack.roles.values() if role.role == "retry_router"]
    lines = (line for router in routers for line in router.log_path.read_text().splitlines())
    return [line for line in lines if any(word in line for word in _SAID_OF_REPAIRS)]
