"""Did it happen? A fault counts where its effect shows, not where it was ordered; else the play has shown nothing.

Cuts, delays and one-way stops count with a connection to happen to; a full disk where the broker told of it; a clock
where an event bears its time; a late EndTxn where it reached the broker; a zombie where it was fenced in its sleep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.acceptance.at_rest import AtRest
from tests.acceptance.evidence import Evidence
from tests.acceptance.excuses import writer_of
from tests.chaos import schedule
from tests.chaos.clock_windows import felt, windows
from tests.chaos.deeds import Deed
from tests.chaos.rights import CLOCK
from tests.oracle.records import decode
from tests.oracle.runs import OUTCOMES

LOST = "attempt lost"
ZOMBIE = "zombie fenced while it slept"
IGNORED = "late outcome, ignored"
CROSSED = "claim that crossed a cancel"
MISFIRE = "misfire"
EFFECTS = (LOST, ZOMBIE, IGNORED, CROSSED, MISFIRE)
"""What faults lead to, beside the kinds of faults themselves."""

INSIDE = "kill inside an open transaction"
_LATE = "late-endtxn"


class Told(NamedTuple):
    """What tells of a play: deeds, the notes of every proxy, and how many kills fell inside an open transaction."""

    deeds: Sequence[Deed]
    notes: Mapping[str, Sequence[Mapping[str, Any]]]
    kills_inside: int = 0


def judge_happened(
    found: AtRest, told: Told, at_least: Mapping[str, int], left_out: Container[str], roles: Mapping[str, str]
) -> None:
    """``at_least``: by kind of fault or effect. ``roles``: of each instance; none may go without a kill."""
    evidence = found.evidence
    _tell_ends(evidence, told.deeds)
    killed = Counter(deed.target for deed in told.deeds if deed.kind == "kill")
    evidence.figure("kills of roles", killed.total(), **killed)
    spared = set(roles.values()) - {roles[name] for name in killed}
    evidence.none_of(sorted(spared), "roles that were never killed")
    by_how = Counter(deed.how for deed in told.deeds if deed.kind == "kill")
    evidence.figure("kills of roles, by their moment", by_how.total(), **by_how)
    ordered = Counter(deed.kind for deed in told.deeds)
    evidence.figure("faults that were ordered", sum(ordered[kind] for kind in schedule.PER_MINUTE), **ordered)
    counts = {**ordered, **of_network(told.notes), **effects(found, told.deeds)}
    counts[INSIDE] = told.kills_inside
    counts[CLOCK] = felt(windows(told.deeds), dispatchers_events(found))
    evidence.figure("faults that show, and what they led to", sum(counts.values()), **counts)
    for kind, wanted in at_least.items():
        if kind not in left_out:
            evidence.demand(counts.get(kind, 0) >= wanted, f"{counts.get(kind, 0)} times {kind}, wanted {wanted}")


def _tell_ends(evidence: Evidence, deeds: Iterable[Deed]) -> None:
    """A role may end itself, and comes back: told."""
    ended = Counter(f"{deed.target} with {deed.how}" for deed in deeds if deed.kind == "ended")
    evidence.figure("ends that no fault ordered, and leaves", ended.total(), **ended)


def of_network(notes: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, int]:
    """How many faults of the network met a connection, and how many late EndTxn reached a broker that was there."""
    counts = Counter({"cut": 0, "delay": 0, "one-way": 0, _LATE: 0, "late-endtxn accepted": 0})
    for note in (note for each in notes.values() for note in each):
        order = note.get("obeyed", {})
        if note.get("connections", 0) > 0:
            counts["cut"] += bool(order.get("cut")) and "go" not in order
            counts["delay"] += order.get("delay", 0.0) > 0
            counts["one-way"] += "stop" in order
        counts[_LATE] += "arrived" in note and not note["broker_gone"]
        counts["late-endtxn accepted"] += note.get("error") == 0
    return dict(counts)


def effects(found: AtRest, deeds: Sequence[Deed]) -> dict[str, int]:
    """What the log shows of it."""
    chronicle = found.chronicle
    skipped = Counter(run["reason"] for run in chronicle.runs.values() if run["status"] == "SKIPPED")
    return {
        LOST: chronicle.outcomes()["LOST"],
        ZOMBIE: fenced_asleep(found.taken.leases, deeds),
        IGNORED: sum(len(told) for kind, told in chronicle.ignored.items() if kind in OUTCOMES),
        CROSSED: sum(was == "CANCELLED" for _, _, was in chronicle.ignored["STARTED"]),
        MISFIRE: skipped["coalesced"],
    }


def fenced_asleep(leases: Iterable[Mapping[str, Any]], deeds: Sequence[Deed]) -> int:
    """How many workers were fenced while they stood still, and woke."""
    fenced = [
        (lease["worker"], record["timestamp_us"])
        for record in leases
        if (lease := decode(record["value"])[1])["kind"] == "FENCED"
    ]
    count = 0
    for at, stop in enumerate(deeds):
        if stop.kind != "stop":
            continue
        after = next((deed for deed in deeds[at + 1 :] if deed.target == stop.target and deed.kind != "leave"), None)
        woke = after is not None and after.kind == "return" and after.how == "woken"
        count += woke and any(who == stop.target and stop.at <= when <= after.at for who, when in fenced)
    return count


def dispatchers_events(found: AtRest) -> list[tuple[int, Mapping[str, Any]]]:
    """What dispatchers wrote to run-events, with the broker's own time."""
    told = ((record["timestamp_us"], decode(record["value"])[1]) for record in found.taken.events)
    return [(at, event) for at, event in told if writer_of(event) == "dispatcher"]
