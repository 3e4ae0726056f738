"""Backfills by the HTTP client: run a job's fires of a past range, look how far that is, pause, resume, cancel it.

Verbs of ``client.backfills``, by the names of ``waterclock backfill``. How they fail: see ``verbs.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict, Unpack, cast

from .verbs import Verbs, place

BackfillView = TypedDict(
    "BackfillView",
    {
        "backfill_id": str,
        "job_id": str,
        "status": str,
        "reason": str | None,
        "from": str,
        "to": str,
        "reached": str | None,
        "revision": int,
        "tier": str,
        "concurrency": int,
        "fires": int,
        "made": int,
        "left_out": int,
        "blocked": int,
        "remaining": int,
        "open": int,
        "succeeded": int,
        "failed": int,
        "cancelled": int,
        "eta_s": int | None,
        "asked_at": str,
        "began_at": str | None,
        "told_at": str,
        "actor": str,
        "note": str | None,
    },
    total=False,
)
"""How a backfill stands: see docs/backfill.md. (``from`` is no name that a class could have.)"""


class BackfillAsked(TypedDict):
    """What was asked for: ``backfill_id``, None of a dry run, and what the range comes to as history shows it now."""

    backfill_id: str | None
    fires: int
    left_out: int
    blocked: int
    would_run: int


class BackfillChoice(TypedDict, total=False):
    """How: of which version (0: the one that stands), in which tier (low), how many runs at once (10)."""

    revision: int
    tier: str
    concurrency: int
    note: str


class BackfillVerbs:
    """``client.backfills``."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def create(
        self, name: str, since: str, until: str = "", *, idempotency_key: str = "", **how: Unpack[BackfillChoice]
    ) -> BackfillAsked:
        """Run the fires of a job in [``since``, ``until``), RFC 3339; ``until`` "": now."""
        return self._asked(name, since, until, dict(how), idempotency_key)

    def count(self, name: str, since: str, until: str = "", **how: Unpack[BackfillChoice]) -> BackfillAsked:
        """What ``create`` would run. Nothing is done."""
        return self._asked(name, since, until, {**how, "dry_run": True}, "")

    def of(self, name: str) -> list[BackfillView]:
        """The newest backfills of a job."""
        return cast("list[BackfillView]", self._verbs.ask(f"/jobs/{place(name)}/backfills")["backfills"])

    def all(self) -> Iterator[BackfillView]:
        """Those of the tenant, job by job."""
        return cast("Iterator[BackfillView]", self._verbs.pages("/backfills", "backfills"))

    def show(self, backfill_id: str) -> BackfillView:
        """How one stands. Raises NotFound; history may lag behind the log by a second or so."""
        return cast("BackfillView", self._verbs.ask(f"/backfills/{place(backfill_id)}"))

    def pause(self, backfill_id: str, *, note: str = "", idempotency_key: str = "") -> None:
        """Nothing more is made; what is open goes on."""
        self._turn(backfill_id, "pause", note, idempotency_key)

    def resume(self, backfill_id: str, *, note: str = "", idempotency_key: str = "") -> None:
        """It goes on where it was paused."""
        self._turn(backfill_id, "resume", note, idempotency_key)

    def cancel(self, backfill_id: str, *, note: str = "", idempotency_key: str = "") -> None:
        """Nothing more is made, for ever; what is open goes on."""
        self._turn(backfill_id, "cancel", note, idempotency_key)

    def _asked(self, name: str, since: str, until: str, how: dict[str, Any], idempotency_key: str) -> BackfillAsked:
        body = {"from": since, **({"to": until} if until else {}), **how}
        found = self._verbs.change("POST", f"/jobs/{place(name)}/backfills", body, idempotency_key).body
        if "operation_id" in found:  # it outlasted its request: what it came to is told by itself
            stands = self._verbs.shown(f"/backfills/{place(str(found['run_id']))}", found)
            would_run = stands["fires"] - stands["left_out"] - stands["blocked"]
            found = {**stands, "would_run": would_run}
        return {
            "backfill_id": found["backfill_id"],
            "fires": found["fires"],
            "left_out": found["left_out"],
            "blocked": found["blocked"],
            "would_run": found["would_run"],
        }

    def _turn(self, backfill_id: str, word: str, note: str, idempotency_key: str) -> None:
        body = {"note": note} if note else None
        self._verbs.change("POST", f"/backfills/{place(backfill_id)}/{word}", body, idempotency_key)
