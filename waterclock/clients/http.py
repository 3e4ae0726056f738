"""A client of the HTTP API: every verb answers what became of it.

What must hold, and how it fails: see ``verbs.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self, TypedDict, Unpack, cast

from .backfills import BackfillVerbs
from .dag_runs import DagVerbs
from .definition import JobChanges, JobDefinition
from .exchange import Answer, Exchange
from .verbs import Verbs, place


class PauseView(TypedDict):
    """Who paused a job, and until when."""

    actor: str
    note: str | None
    paused_at: str
    resume_at: str | None


class ExpectationView(TypedDict):
    """Of a job that says ``expect_within``."""

    succeeded_at: str | None
    by: str
    overdue: bool


class JobView(JobDefinition, total=False):
    """A job as the API shows it: its definition, and these. ``placement``: only where a second was just picked."""

    job_id: str
    name: str
    status: str
    next_fire_time: str | None
    next_due_time: str | None
    schedule_error: str | None
    pause: PauseView | None
    revision: int
    created_at: str
    updated_at: str
    expectation: ExpectationView | None
    calendar_versions: dict[str, int] | None
    placement: dict[str, Any] | None
    warnings: list[str] | None


class StatusView(TypedDict, total=False):
    """How a job stands."""

    job_id: str
    status: str
    last_run: str | None
    last_run_id: str | None
    last_run_status: str | None
    next_run: str | None
    retry_count: int
    pool: str
    revision: int
    pause: PauseView | None
    warnings: list[str]


class AttemptView(TypedDict):
    """One attempt of a run."""

    attempt: int
    outcome: str
    started_at: str | None
    ended_at: str | None
    worker: str | None
    fencing_token: int | None
    error: str | None


class RunView(TypedDict, total=False):
    """One run. Asked for by itself it has its ``attempts``."""

    run_id: str
    job_id: str
    status: str
    fire_time: str | None
    made_by: str
    tier: str
    revision: int
    attempt: int
    outcome: str | None
    dispatched_at: str | None
    started_at: str | None
    ended_at: str | None
    worker: str | None
    fencing_token: int | None
    result: Any
    error: str | None
    reason: str | None
    held: str | None
    next_attempt_at: str | None
    cancel_requested: bool
    linked_run: str | None
    triggered_by: str | None
    is_last: bool
    skipped_count: int | None
    skipped_to: str | None
    is_dag: bool
    attempts: list[AttemptView]


class CancelView(TypedDict):
    """What is known of a run that somebody asked to end."""

    run_id: str
    status: str
    cancel_requested: bool


class LetterView(TypedDict, total=False):
    """A run that was given up."""

    run_id: str
    job_id: str
    state: str
    reason: str
    error_class: str
    error: str
    fingerprint: str
    attempts: int
    ended_at: str | None
    redriven_as: str | None
    done_at: str | None
    done_by: str | None


class LetterFilter(TypedDict, total=False):
    """Which letters. ``since``: RFC 3339, or an age such as ``36h``; ``state``: open, redriven, discarded or all."""

    job: str
    error_class: str
    fingerprint: str
    since: str
    state: str


class LetterChoice(LetterFilter, total=False):
    """Which letters to act on: by filter, or by name; and how. ``cursor``: ``next_cursor`` of the answer before."""

    run_ids: list[str]
    dry_run: bool
    cap: int
    rate_per_s: float
    note: str
    cursor: str


class RedriveChoice(LetterChoice, total=False):
    """The same; ``payload``, any JSON value (or bytes, as base64), stands in for that of each. ``force``: see
    docs/dead-letters.md.
    """

    payload: Any
    payload_base64: str
    force: bool


class RunChoice(TypedDict, total=False):
    """Which open runs. ``older_than``: an age such as ``10m``; ``cursor``: ``next_cursor`` of the answer before."""

    job: str
    run_ids: list[str]
    status: list[str]
    older_than: str
    dry_run: bool
    cap: int
    rate_per_s: float
    note: str
    cursor: str


class Triggered(NamedTuple):
    """The run that a trigger made. ``held``: why it waits, ``skipped``: why it will never run; "": it does not.

    Of a trigger that outlasted its request both are "": ask for the run.
    """

    job_id: str
    run_id: str
    held: str = ""
    skipped: str = ""


class HttpClient:
    """See ``Client.http``. ``name`` is a job's name in the tenant of the key, or its whole id.

    ``dag``: what DagRuns have beyond runs; ``backfills``: fires of a past range.
    """

    def __init__(self, url: str, key: str = "", *, timeout_s: float = 10.0, allow_plain_http: bool = False) -> None:
        exchange = Exchange(url, key, timeout_s=timeout_s, allow_plain_http=allow_plain_http)
        self._verbs = Verbs(exchange, timeout_s)
        self.dag = DagVerbs(self._verbs)
        self.backfills = BackfillVerbs(self._verbs)

    def create(self, name: str = "", *, idempotency_key: str = "", **job: Unpack[JobDefinition]) -> JobView:
        """Define a job. The same definition again changes nothing; another one under its name is a Conflict."""
        body = {**job, **({"name": name} if name else {})}
        return self._job(self._verbs.change("POST", "/jobs", body, idempotency_key))

    def update(
        self, name: str, *, revision: int = 0, idempotency_key: str = "", **changes: Unpack[JobChanges]
    ) -> JobView:
        """Change a job: only what is named changes, and None takes it away.

        ``revision``: refuse with Conflict unless it stands; 0: any.
        """
        return self._job(self._verbs.change("PATCH", _path(name), changes, idempotency_key, _match(revision) or "*"))

    def pause(self, name: str, *, revision: int = 0, idempotency_key: str = "") -> JobView:
        """Stop a job from firing; its fires count as paused until it is resumed."""
        return self._job(self._verbs.change("POST", f"{_path(name)}/pause", None, idempotency_key, _match(revision)))

    def resume(self, name: str, *, revision: int = 0, idempotency_key: str = "") -> JobView:
        """Let a paused job fire again."""
        return self._job(self._verbs.change("POST", f"{_path(name)}/resume", None, idempotency_key, _match(revision)))

    def delete(self, name: str, *, revision: int = 0, idempotency_key: str = "") -> None:
        """End a job. Its history stays for 30 days."""
        self._verbs.change("DELETE", _path(name), None, idempotency_key, _match(revision))

    def trigger(self, name: str, *, payload: Any = None, idempotency_key: str = "") -> Triggered:
        """Run a job now. ``payload``, any JSON value, stands in for the job's own, this once.

        A job that allows no overlap may skip the run: look at ``skipped``.
        """
        body = None if payload is None else {"payload": payload}
        found = self._verbs.change("POST", f"{_path(name)}/trigger", body, idempotency_key).body
        return Triggered(
            str(found["job_id"]), str(found["run_id"]), found.get("held") or "", found.get("skipped") or ""
        )

    def job(self, name: str) -> JobView:
        """A job as it stands. Raises NotFound."""
        return cast("JobView", self._verbs.ask(_path(name)))

    def status(self, name: str) -> StatusView:
        """How a job stands: its last run, its next one. Raises NotFound."""
        return cast("StatusView", self._verbs.ask(f"{_path(name)}/status"))

    def jobs(self) -> Iterator[JobView]:
        """All jobs of the tenant, newest first, asked for page by page as they are taken; without payloads."""
        return cast("Iterator[JobView]", self._verbs.pages("/jobs", "jobs"))

    def runs(self, name: str) -> Iterator[RunView]:
        """The runs of a job, newest fire first, asked for page by page as they are taken."""
        return cast("Iterator[RunView]", self._verbs.pages(f"{_path(name)}/runs", "runs"))

    def run(self, run_id: str) -> RunView:
        """A run. Raises NotFound; history may lag behind the log by a second or so."""
        return cast("RunView", self._verbs.ask(f"/runs/{place(run_id, '')}"))

    def cancel(self, run_id: str, *, note: str = "", idempotency_key: str = "") -> CancelView:
        """Ask a run to end. One that waits is CANCELLED at once; one that runs is asked to stop. Raises NotFound."""
        body = {"note": note} if note else None
        found = self._verbs.change("POST", f"/runs/{place(run_id, '')}/cancel", body, idempotency_key).body
        if "operation_id" in found:
            found = {"run_id": run_id, "status": self.run(run_id)["status"], "cancel_requested": True}
        return cast("CancelView", found)

    def cancel_all(self, *, idempotency_key: str = "", **choice: Unpack[RunChoice]) -> dict[str, Any]:
        """Ask all open runs to end that ``choice`` means; with ``dry_run`` only count them. ``left``: ask again."""
        return dict(self._verbs.change("POST", "/runs/cancel", choice, idempotency_key).body)

    def dead_letters(self, **choice: Unpack[LetterFilter]) -> Iterator[LetterView]:
        """Runs that were given up, newest first; open ones of the last day where ``choice`` says nothing else."""
        asked = {key: str(value) for key, value in choice.items()}
        return cast("Iterator[LetterView]", self._verbs.pages("/dlq", "letters", asked))

    def redrive(self, *, idempotency_key: str = "", **choice: Unpack[RedriveChoice]) -> dict[str, Any]:
        """Run dead letters once more: ``done`` names the new runs, ``refused`` what was not done, and why."""
        return dict(self._verbs.change("POST", "/dlq/redrive", choice, idempotency_key).body)

    def discard(self, *, idempotency_key: str = "", **choice: Unpack[LetterChoice]) -> dict[str, Any]:
        """Put dead letters away."""
        return dict(self._verbs.change("POST", "/dlq/discard", choice, idempotency_key).body)

    def close(self) -> None:
        """Give the connection up."""
        self._verbs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _job(self, answer: Answer) -> JobView:
        if "operation_id" in answer.body:
            return self.job(answer.body["job_id"])
        return cast("JobView", answer.body)


def _path(name: str) -> str:
    return f"/jobs/{place(name)}"


def _match(revision: int) -> str:
    return f'"{revision}"' if revision else ""
