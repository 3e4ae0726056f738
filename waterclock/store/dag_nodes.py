"""Node runs of DagRuns over any ``Cells``: rows of ``dag_nodes``, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import Instant, RunId
from waterclock.model.job import Tier

from .cells import Cells, Put, Select, Values
from .dag_port import NodeRow
from .tables import DAG_NODES

_NODE = Select(DAG_NODES, equal=1)
_NODES = Select(DAG_NODES, above=1, limited=True, relaxed=True)
_TIERS = tuple(Tier)
_STATUSES = tuple(RunStatus)
_OUTCOMES = tuple(Outcome)


def node_puts(nodes: Iterable[NodeRow]) -> Iterator[Put]:
    """What writes these rows."""
    return (Put(DAG_NODES, tuple(row), row.wts) for row in nodes)


class TabularDagNodes:
    """What is asked of them."""

    _cells: Cells

    def dag_nodes(self, job_id: str, fire_at: Instant, series: int, limit: int, after: str = "") -> list[NodeRow]:
        (found,) = self._cells.select("dag_nodes", _NODES, [(job_id, fire_at, series, after, limit)])
        return [_row(job_id, fire_at, series, values) for values in found]

    def dag_node(self, run: RunId) -> NodeRow | None:
        (found,) = self._cells.select("dag_node", _NODE, [(run.job_id, run.fire_at, run.series, run.node)])
        return _row(run.job_id, run.fire_at, run.series, found[0]) if found else None


def _row(job_id: str, fire_at: Instant, series: int, values: Values) -> NodeRow:
    node, revision, tier, status, outcome, *told, asked_to_stop, counts_as = values
    head = (job_id, fire_at, series, node, revision, _TIERS[tier], _STATUSES[status], _OUTCOMES[outcome])
    return NodeRow._make((*head, *told, bool(asked_to_stop), counts_as))
