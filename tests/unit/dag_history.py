"""DagRuns as history has them: rows put into a store in memory."""

from __future__ import annotations

from waterclock.clock import ManualClock
from waterclock.model.dag import DagSpec, MapOver, Node
from waterclock.model.dag_events import NodeEnd
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import JobSpec, JobStatus, JobVersion, Once, Tier
from waterclock.store.dag_port import NodeRow
from waterclock.store.memory import MemoryStore
from waterclock.store.port import History, JobChange, JobRow, RunRow

JOB = "default:nightly"
REVISION = 7
NODES = (
    Node("list", "etl.list"),
    Node("load", "etl.load", after=("list",), map_over=MapOver(of="list")),
    Node("archive", "etl.archive", after=("list",)),
    Node("report", "etl.report", after=("load", "archive")),
)
_ENDS = {
    RunStatus.SUCCEEDED: NodeEnd.SUCCEEDED,
    RunStatus.FAILED: NodeEnd.FAILED,
    RunStatus.CANCELLED: NodeEnd.FAILED,
    RunStatus.SKIPPED: NodeEnd.SKIPPED,
}


class DagHistory:
    """One Dag and one DagRun; ``began_at``: when that went out. Times of nodes are seconds from then."""

    def __init__(self, clock: ManualClock, nodes: tuple[Node, ...] = NODES, payload: bytes = b"") -> None:
        self.store = MemoryStore(clock)
        self.began_at = clock.now()
        self.fire_at = self.began_at // US_PER_S * US_PER_S
        self.run_id = make_run_id(JOB, self.fire_at)
        spec = JobSpec("", Once(1), payload=payload, dag=DagSpec(nodes))
        version = JobVersion(JOB, REVISION, spec, JobStatus.ACTIVE, "people", self.began_at)
        at = self.began_at
        row = JobRow(JOB, spec, JobStatus.ACTIVE, REVISION, 0, REVISION, at, at, 0, 0, at)
        self.store.apply([JobChange(row, version)])

    def run(self, status: RunStatus = RunStatus.RUNNING, *, ended_s: float = 0, **parts: object) -> None:
        row = RunRow(
            JOB, self.fire_at, 0, REVISION, Tier.HIGH, "SCHEDULE", status, Outcome.NONE, 0, self.began_at,
            self.began_at, self._at(ended_s), "", 0, "", None, "", "UTC", "2026a", 0, 0, self.began_at + 8, is_dag=True,
        )  # fmt: skip
        self.store.record(History([row._replace(**parts)])).wait(1)  # type: ignore[arg-type]

    def node(self, key: str, status: RunStatus, began_s: float, ended_s: float = 0, **parts: object) -> None:
        outcome = Outcome.SUCCEEDED if status is RunStatus.SUCCEEDED else Outcome.NONE
        began_at, ended_at = self._at(began_s), self._at(ended_s)
        attempt = 0 if status in (RunStatus.PENDING, RunStatus.SKIPPED) else 1
        started_at = began_at if attempt else 0
        row = NodeRow(
            JOB, self.fire_at, 0, key, REVISION, Tier.HIGH, status, outcome, attempt, began_at, started_at, ended_at,
            "w-1" if attempt else "", 0, "", None, "", self.began_at + 8, 0, False, int(_ENDS.get(status, 0)),
        )  # fmt: skip
        self.store.record(History(nodes=[row._replace(**parts)])).wait(1)  # type: ignore[arg-type]

    def _at(self, seconds: float) -> int:
        return self.began_at + int(seconds * US_PER_S) if seconds else 0

    def ended_badly(self) -> None:
        """A DagRun of which one item failed."""
        self.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1,2,3]")
        self.node("load.0", RunStatus.SUCCEEDED, 4, 64)
        self.node("load.1", RunStatus.FAILED, 4, 124, error="ValueError: no 7\ntrace", reason="attempts")
        self.node("load.2", RunStatus.SUCCEEDED, 4, 60)
        self.node("archive", RunStatus.SUCCEEDED, 4, 10)
        self.node("report", RunStatus.SKIPPED, 124, 124, reason="upstream-failed", counts_as=4)
        self.run(RunStatus.FAILED, ended_s=124, reason="nodes-failed: report")
