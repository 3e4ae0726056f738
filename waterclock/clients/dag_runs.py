"""What the HTTP client can do with DagRuns beyond runs: look at one whole, find what is stuck, act on it, run it again.

Verbs of ``client.dag``, by the names of ``waterclock dag``. How they fail: see ``verbs.py``; Conflict where a DagRun
does not stand so that it could be done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, cast
from urllib.parse import quote

from .verbs import Verbs, place


class DagRunView(TypedDict, total=False):
    """One DagRun. Asked for by itself it has its ``nodes``, the ``critical_path`` and what is ``stuck``."""

    run_id: str
    job_id: str
    status: str
    fire_time: str | None
    made_by: str
    revision: int
    paused: bool
    cancel_requested: bool
    dispatched_at: str | None
    started_at: str | None
    ended_at: str | None
    took_s: float | None
    reason: str | None
    held: str | None
    linked_run: str | None
    triggered_by: str | None
    rerun_from: list[str]
    nodes: list[dict[str, Any]]
    critical_path: list[str]
    stuck: list[StuckView]


class StuckView(TypedDict):
    """A node that somebody should look at, or with ``node`` "" the DagRun itself; ``behind``: how many wait for it."""

    run_id: str
    node: str
    reason: str
    since: str | None
    why: str
    behind: int


class ActView(TypedDict):
    """What is known of a DagRun on which somebody has acted."""

    run_id: str
    status: str
    paused: bool
    cancel_requested: bool


class PlanView(TypedDict):
    """What an act would come to, by names of nodes: see docs/dags.md."""

    dry_run: bool
    run_id: str
    runs: list[str]
    kept: list[str]
    begins: list[str]
    stopped: list[str]
    never: list[str]
    goes_on: list[str]


class Rerun(NamedTuple):
    """The DagRun that a rerun made. ``held``: why it waits, ``skipped``: why it will never run; "": it does not."""

    run_id: str
    linked_run: str
    held: str = ""
    skipped: str = ""


class DagVerbs:
    """``client.dag``."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def runs(self, name: str) -> Iterator[DagRunView]:
        """The DagRuns of a job, newest fire first, without fires that were skipped."""
        return cast("Iterator[DagRunView]", self._verbs.pages(f"/jobs/{place(name)}/dag-runs", "dag_runs"))

    def show(self, run_id: str) -> DagRunView:
        """A DagRun with its nodes. Raises NotFound; history may lag behind the log by a second or so."""
        return cast("DagRunView", self._verbs.ask(_of(run_id)))

    def nodes(self, run_id: str) -> Iterator[dict[str, Any]]:
        """Its node runs, every item of mapped ones too, with whole results and errors."""
        return self._verbs.pages(f"{_of(run_id)}/nodes", "nodes", limit=500)

    def stuck(self, job: str = "") -> Iterator[StuckView]:
        """Nodes of open DagRuns that somebody should look at; none where all is well."""
        choice = {"job": job} if job else {}
        return cast("Iterator[StuckView]", self._verbs.pages("/dag-runs/stuck", "stuck", choice, limit=100))

    def cancel(self, run_id: str, *, note: str = "", idempotency_key: str = "") -> ActView:
        """End it: what waits ends at once, what runs is asked to stop, and it ends with the last of them."""
        return self._act(run_id, "cancel", note, idempotency_key)

    def pause(self, run_id: str, *, note: str = "", idempotency_key: str = "") -> ActView:
        """None of its nodes begins; what runs goes on, and so does its time-out."""
        return self._act(run_id, "pause", note, idempotency_key)

    def resume(self, run_id: str, *, note: str = "", idempotency_key: str = "") -> ActView:
        """Its nodes begin again."""
        return self._act(run_id, "resume", note, idempotency_key)

    def rerun(
        self,
        run_id: str,
        begin: Sequence[str] = (),
        *,
        failed: bool = False,
        payload: Any = None,
        note: str = "",
        idempotency_key: str = "",
    ) -> Rerun:
        """Run one that has ended again, as a new one: whole, from the nodes ``begin`` on, or from those that failed.

        ``payload``, any JSON value, stands in for the one that it was given.
        """
        body = _rerun(begin, failed=failed) | ({} if payload is None else {"payload": payload})
        body |= {"note": note} if note else {}
        found = self._verbs.change("POST", f"{_of(run_id)}/rerun", body, idempotency_key).body
        return Rerun(str(found["run_id"]), run_id, found.get("held") or "", found.get("skipped") or "")

    def plan(self, run_id: str, act: str, begin: Sequence[str] = (), *, failed: bool = False) -> PlanView:
        """What ``act`` (cancel, pause, resume, rerun) would come to. Nothing is done."""
        body = {"dry_run": True} | (_rerun(begin, failed=failed) if act == "rerun" else {})
        return cast("PlanView", self._verbs.change("POST", f"{_of(run_id)}/{quote(act, safe='')}", body, "").body)

    def _act(self, run_id: str, act: str, note: str, idempotency_key: str) -> ActView:
        body = {"note": note} if note else None
        found = self._verbs.change("POST", f"{_of(run_id)}/{act}", body, idempotency_key).body
        if "operation_id" in found:
            found = self.show(run_id)
        return {
            "run_id": run_id,
            "status": found["status"],
            "paused": found["paused"],
            "cancel_requested": found["cancel_requested"],
        }


def _of(run_id: str) -> str:
    return f"/dag-runs/{place(run_id, '')}"


def _rerun(begin: Sequence[str], *, failed: bool) -> dict[str, Any]:
    return ({"from": list(begin)} if begin else {}) | ({"failed": True} if failed else {})
