"""An API with history and a DAG engine behind it, and a hand that plays the workers of the nodes."""

from __future__ import annotations

from typing import Any

from waterclock.dag_engine.loop import DagEngine

from tests.unit.api_world import NAMES, until
from tests.unit.failing_world import API, FailingWorld
from waterclock.log.memory import MemoryLog
from waterclock.model.events import Ended, EventKind
from waterclock.recorder.loop import Recorder
from waterclock.store.memory import MemoryStore

NODES = [
    {"name": "list", "handler": "h"},
    {"name": "load", "handler": "h", "after": ["list"], "map": {"over": "list"}},
    {"name": "side", "handler": "h", "pool": "default"},
    {"name": "report", "handler": "h", "after": ["load", "side"], "inputs": ["load"]},
]


class _Both:
    """Two cores in one turn."""

    def __init__(self, recorder: Recorder, engine: DagEngine) -> None:
        self.recorder, self.engine = recorder, engine

    def step(self) -> bool:
        self.engine.step()
        return self.recorder.step()


class DagApiWorld(FailingWorld):
    """See ``FailingWorld``; with a DAG engine."""

    def __init__(self, **api: Any) -> None:
        super().__init__(**api)
        assert self.recorder is not None
        log, store = MemoryLog(self.cluster, "e1"), MemoryStore(self.clock, self.tables, "e1")
        with self.lock:
            engine = DagEngine(log, store, self.clock, NAMES, "e1", offsets_every_s=0.0)
            self.recorder = _Both(self.recorder, engine)  # type: ignore[assignment]  # it has a step()

    def dag_run(self, name: str, nodes: list[dict[str, Any]] | None = None, **limits: Any) -> str:
        """A Dag that is there, and a DagRun of it whose first nodes are out."""
        document = {"name": name, "at": "2099-01-01T00:00:00Z", "dag": {"nodes": nodes or NODES, **limits}}
        answer = self.client.post(f"{API}/jobs", json=document)
        assert answer.status_code in (200, 201), answer.text
        run_id = self.triggered(name)
        until(lambda: any(self.node(run_id, each["name"])["status"] for each in nodes or NODES))
        return run_id

    def show(self, run_id: str) -> Any:
        answer = self.client.get(f"{API}/dag-runs/{run_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def node(self, run_id: str, name: str) -> Any:
        answer = self.client.get(f"{API}/dag-runs/{run_id}")
        if answer.status_code != 200:
            return {"status": None}
        return next(each for each in answer.json()["nodes"] if each["node"] == name)

    def end(self, run_id: str, key: str, kind: EventKind = EventKind.ATTEMPT_SUCCEEDED, result: Any = None) -> None:
        """A node run, from its claim to its end; history shows it."""
        node = f"{run_id}/{key}"
        until(lambda: self.client.get(f"{API}/runs/{node.replace('/', '%2F')}").status_code == 200)
        token = self.started(node)
        error = "" if kind is EventKind.ATTEMPT_SUCCEEDED else "ValueError"
        detail = Ended(self.clock.now(), result=result, error_class=error, error_message="no 7" if error else "")
        self.event(kind, node, 1, worker="w-1", incarnation=3, token=token, detail=detail)
        if error:
            self.event(EventKind.RUN_FAILED, node, 1, reason="attempts")
        until(lambda: self.status_of(node.replace("/", "%2F")) in ("SUCCEEDED", "FAILED"))
