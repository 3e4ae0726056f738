"""What real faults may do to a system that is right: found in the evidence, one by one, bounded and counted.

Whatever is not named here is a complaint, however likely it looks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.acceptance.taken import Record, Taken
from tests.oracle.owed import Rules
from tests.oracle.records import decode
from tests.oracle.runs import OUTCOMES, tell
from waterclock.model.ids import US_PER_S

Claims: TypeAlias = Mapping[tuple[str, int], set[int]]
"""{(run id, attempt): offsets of STARTED that nobody accepted}: a call of it must bear one of these as its token."""

TRANSACTION_US = 10_000_000
"""The longest transaction of a role: what a late EndTxn ends began at most so long before it."""

AFTERWARDS_US = 1_000_000
"""What is appended in one go with it; stamps are milliseconds of the broker's clock, the end's one of this machine."""

STAMP_US = 1_000
"""Stamps of records are whole milliseconds, cut off: so much earlier than the truth they may be."""


class LateEnd(NamedTuple):
    """An EndTxn that came late and that the broker accepted: when (microseconds), of which transactional id."""

    at: int
    transactional_id: str


class Excuses(NamedTuple):
    """What this check's faults may do. None by default, on one machine with one clock.

    ``late_ends``: each may have torn the transaction that was open then. ``early_us_at``: by how much a run may be
    early that was decided at that instant. ``verdict_within_s``: how long the router may have been kept from what it
    judges, beyond its own time; None: whoever judges was down, too, for as long as it takes. ``refuses``: somebody
    asks for what has to be refused. ``limit_of``: how many attempts a job's runs may have; None: as its spec says.
    ``rules``: how late a fire must be to be coalesced here, and how far ahead a dispatcher's clock may be.
    ``herd_fires``: how many fires in one instant are a herd, which may stand in the log ``herd_lead_us`` before it.
    """

    late_ends: Sequence[LateEnd] = ()
    early_us_at: Callable[[int], int] = lambda _: STAMP_US
    verdict_within_s: float | None = 0.0
    refuses: bool = False
    limit_of: Callable[[str], int] | None = None
    rules: Rules = Rules(skew=100 * STAMP_US)  # a fire may be decided a moment before its instant
    herd_fires: int = 1_000
    herd_lead_us: int = US_PER_S


NONE = Excuses()


def crossed(events: Sequence[Record]) -> Claims:
    """Claims that came too late to count: the run had been cancelled, or had expired, before anybody claimed it.

    Their code may have been called without a right to it. A second claim of an attempt that was claimed before is
    none of these, nor is one of a run that nobody had made.
    """
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    expired = set()
    for record, event, before, after in tell(events):
        if event["kind"] == "RUN_EXPIRED" and after:
            expired.add(event["run_id"])
        if event["kind"] != "STARTED" or after or before is None:
            continue
        is_over = before["status"] == "CANCELLED" or event["run_id"] in expired
        if is_over and event["attempt"] == before["attempt"] + 1:
            found[event["run_id"], event["attempt"]].add(record["offset"])
    return found


def torn_by(ends: Iterable[LateEnd], taken: Taken) -> set[str]:
    """Runs and commands of which the role of such an EndTxn wrote something in the transaction that it ended."""
    found = set()
    for end in ends:
        role, _, instance = end.transactional_id.partition(".")[2].partition(".")
        for record in _written_by(role, taken):
            if end.at - TRANSACTION_US <= record["timestamp_us"] <= end.at + AFTERWARDS_US:
                name, body = decode(record["value"])
                if name == "command":
                    found.add(body["command_id"])
                elif name != "run_event" or writer_of(body) in (instance, role):
                    found.add(body["run_id"])
    return found - {""}


def _written_by(role: str, taken: Taken) -> Sequence[Record]:
    """The topic in which it shows that a round of this role counted by half."""
    return {"retry-ladder": taken.work, "intake": taken.commands}.get(role, taken.events)


def writer_of(event: Mapping[str, Any]) -> str:
    """Who wrote an event: a worker's instance, for they put their names to theirs; else the role alone."""
    kind = event["kind"]
    if kind == "STARTED" or (kind in OUTCOMES and kind != "ATTEMPT_LOST"):
        return str(event["worker"])
    return "retry-router" if kind in ("ATTEMPT_LOST", "RETRYING", "RUN_FAILED", "RUN_EXPIRED") else "dispatcher"


def torn_claims(runs: set[str], events: Sequence[Record]) -> Claims:
    """The claims of these runs that nobody accepted."""
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for record, event, _, after in tell(events):
        if event["kind"] == "STARTED" and not after and event["run_id"] in runs:
            found[event["run_id"], event["attempt"]].add(record["offset"])
    return found


def subject_of(complaint: str) -> str:
    """The run or command that a complaint begins with."""
    return complaint.partition(" ")[0].removesuffix(":")
