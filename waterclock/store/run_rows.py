"""A run or a node of a DagRun, whichever an id names: for whoever shows both alike."""

from __future__ import annotations

from waterclock.model.events import Origin
from waterclock.model.ids import RunId

from .dag_port import NodeRow
from .port import Reading, RunRow


def run_or_node(store: Reading, place: RunId) -> RunRow | None:
    """Its row; of a node with what it has of a run. None: history does not know it. Raises BackendDown."""
    if not place.node:
        return store.run(place.job_id, place.fire_at, place.series)
    row = store.dag_node(place)
    return None if row is None else node_as_run(row)


def node_as_run(row: NodeRow) -> RunRow:
    """With what a node has of a run; its name is not in it."""
    head = (row.job_id, row.fire_at, row.series, row.revision, row.tier, Origin.RELEASE.value)
    return RunRow._make((*head, *row[6:17], "", "", 0, 0, row.wts, row.next_attempt_at, "", row.cancel_requested,
                         False, False, False, ()))  # fmt: skip
