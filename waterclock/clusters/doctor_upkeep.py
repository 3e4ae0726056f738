"""What the work that goes on for ever has found: rows that were missing, books that do not balance, overdue jobs.

Reads one small table, where dispatchers and recorders tell it; writes nothing. What must hold: silence is no good news:
who has told nothing for long is told as well. How it fails: what cannot be read is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.time_text import format_rfc3339
from waterclock.model.zones import TZDATA_VERSION
from waterclock.store.upkeep import DUE_SWEEP, LEDGER, OVERDUE, STUCK_DAGS, TZDATA, Told, UpkeepKeeping

from .finding import Finding, State, ok

SWEEP_CHECK, LEDGER_CHECK, OVERDUE_CHECK = "due rows", "running ledger", "overdue jobs"
STUCK_CHECK = "stuck nodes of DagRuns"
ZONES_CHECK = "zone data of dispatchers"
RECENT_US = 7 * 86_400 * US_PER_S
"""So long a repair is news."""

BEHIND_US = 3 * 3_600 * US_PER_S
"""A closed hour that was not verified by then waits for something."""

SILENT_US = 3_600 * US_PER_S
"""Whoever sweeps or looks tells so every minute: after so long nobody does."""

_NAMED = 3


def examine(store: UpkeepKeeping, clock: Clock) -> Iterator[Finding]:
    """A finding for each work."""
    now = clock.now()
    for check, what, judge in (
        (SWEEP_CHECK, DUE_SWEEP, judge_sweep),
        (LEDGER_CHECK, LEDGER, judge_ledger),
        (OVERDUE_CHECK, OVERDUE, judge_overdue),
        (STUCK_CHECK, STUCK_DAGS, judge_stuck),
    ):
        try:
            yield judge(store.told_of_all(what), now)
        except (BackendDown, UndecodableRecord) as trouble:
            yield Finding(check, State.WARN, str(trouble), "It cannot be told now")

    try:
        yield judge_zone_data(store.told_of_all(TZDATA), store.told_of_all(DUE_SWEEP))
    except (BackendDown, UndecodableRecord) as trouble:
        yield Finding(ZONES_CHECK, State.WARN, str(trouble), "It cannot be told now")


def judge_zone_data(announced: Sequence[Told], swept: Sequence[Told], own: str = TZDATA_VERSION) -> Finding:
    """``announced``: every version there was; ``swept``: of every shard, with which one its jobs were looked at."""
    newest = newest_of(announced)
    if not newest:
        return ok(ZONES_CHECK, "no dispatcher has announced any yet")
    if newest > own:
        found = f"{newest} was announced, {own} is here: a dispatcher of this installation would leave its group"
        return Finding(ZONES_CHECK, State.WARN, found, "Upgrade the package tzdata; waterclock upkeep tzdata")
    waiting = sorted(int(each.place) for each in swept if each.parts.get("tzdata", "") not in ("", newest))
    if waiting:
        found = f"{newest}; next fires of changed zones are still looked at in shards {waiting}"
        return Finding(ZONES_CHECK, State.WARN, found, "It goes on by itself; waterclock upkeep tzdata shows how far")
    recomputed = sum(int(each.parts.get("recomputed", 0)) for each in swept)
    return ok(ZONES_CHECK, f"{newest}, every shard; {recomputed} next fires recomputed so far")


def newest_of(announced: Sequence[Told]) -> str:
    """The newest version that counts; "" where there is none."""
    return max((each.place for each in announced if not each.parts.get("withdrawn")), default="")


def judge_sweep(told: Sequence[Told], now: Instant) -> Finding:
    """``told``: of every shard."""
    repairs = sum(int(each.parts.get("repairs", 0)) for each in told)
    newest = [named for each in told for named in each.parts.get("named", ()) if named["at"] > now - RECENT_US]
    if newest:
        newest.sort(key=lambda named: -named["at"])
        names = ", ".join(f"{named['job_id']} (due {format_rfc3339(named['due_at'])})" for named in newest[:_NAMED])
        found = f"the next row of a job was missing and was made again, {repairs} times so far: {names}"
        return Finding(
            SWEEP_CHECK, State.WARN, found, "It should never happen: does Cassandra lose writes? docs/upkeep.md"
        )
    if not told:
        return ok(SWEEP_CHECK, "no sweep has told anything yet")
    if silent := _silent(told, now):
        found = f"nobody has looked for missing rows for an hour in shards {silent}"
        return Finding(SWEEP_CHECK, State.WARN, found, "Do their dispatchers run, and does Cassandra answer them?")
    untellable = [named for each in told for named in each.parts.get("untellable", ())]
    if untellable:
        names = ", ".join(f"{named['job_id']}: {named['why']}" for named in untellable[:_NAMED])
        found = f"at least {len(untellable)} jobs do not fire, such as {names}"
        return Finding(SWEEP_CHECK, State.WARN, found, f"waterclock job show {untellable[0]['job_id']}")
    oldest = min(int(each.parts.get("ended_at", 0)) for each in told)
    return ok(
        SWEEP_CHECK, f"none was missing; every job was looked at since {format_rfc3339(oldest)}, {repairs} repairs ever"
    )


def judge_ledger(told: Sequence[Told], now: Instant) -> Finding:
    """``told``: of every shard."""
    if not told:
        return ok(LEDGER_CHECK, "no hour was verified yet")
    counts = {kind: sum(int(each.parts.get(kind, 0)) for each in told) for kind in ("missing", "doubled", "wrong")}
    verified_to = min(int(each.parts.get("verified_to", 0)) for each in told)
    to = format_rfc3339(verified_to)
    if any(counts.values()):
        named = [fault for each in told for fault in each.parts.get("named", ())][-_NAMED:]
        names = ", ".join(f"{fault['kind']}: {fault['run_id']} ({fault['why']})" for fault in named)
        sums = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        hour = named[-1]["hour"] if named else to
        return Finding(LEDGER_CHECK, State.FAIL, f"{sums}, such as {names}", f"waterclock ledger verify --from {hour}")
    if verified_to < now - BEHIND_US:
        return Finding(
            LEDGER_CHECK, State.WARN, f"verified up to {to} and no further", "Do dispatcher and recorder run?"
        )
    unproved = sum(int(each.parts.get("unproved_hours", 0)) for each in told)
    if unproved:
        found = f"balances up to {to}, but for {unproved} hours that could not be proved whole"
        return Finding(LEDGER_CHECK, State.WARN, found, "Their log lines say why; docs/upkeep.md")
    return ok(LEDGER_CHECK, f"balances up to {to}")


def judge_overdue(told: Sequence[Told], now: Instant) -> Finding:
    """``told``: of every shard."""
    count = sum(int(each.parts.get("count", 0)) for each in told)
    if count:
        named = sorted((each for line in told for each in line.parts.get("named", ())), key=lambda each: each["by"])
        names = ", ".join(f"{each['job_id']} (by {format_rfc3339(each['by'])})" for each in named[:_NAMED])
        found = f"{count} should have succeeded by now: {names}"
        return Finding(OVERDUE_CHECK, State.WARN, found, f"waterclock job show {named[0]['job_id']}")
    unread = [job_id for each in told for job_id in each.parts.get("unread_named", ())]
    if unread:
        found = f"of {sum(int(each.parts.get('unread', 0)) for each in told)} it cannot be read: "
        found += ", ".join(unread[:_NAMED])
        return Finding(OVERDUE_CHECK, State.WARN, found, "The recorder's log says why")
    if silent := _silent(told, now):
        found = f"nobody has looked for overdue jobs for an hour in shards {silent}"
        return Finding(OVERDUE_CHECK, State.WARN, found, "Do their recorders run, and does Cassandra answer them?")
    watched = sum(int(each.parts.get("watched", 0)) for each in told)
    return ok(OVERDUE_CHECK, f"none of {watched} jobs that say expect_within")


def judge_stuck(told: Sequence[Told], now: Instant) -> Finding:
    """``told``: of every shard."""
    named = [each for line in told for each in line.parts.get("named", ())]
    count = sum(sum(line.parts.get("by_reason", {}).values()) for line in told)
    if count:
        shown = ", ".join(f"{each['run_id']}/{each['node']} ({each['reason']})" for each in named[:_NAMED])
        found = f"{count} wait for what does not come by itself: {shown}"
        return Finding(STUCK_CHECK, State.WARN, found, "waterclock dag stuck")
    if silent := _silent(told, now):
        found = f"nobody has looked for stuck nodes for an hour in shards {silent}"
        return Finding(STUCK_CHECK, State.WARN, found, "Do their recorders run, and does Cassandra answer them?")
    return ok(STUCK_CHECK, f"none in {sum(int(line.parts.get('looked_at', 0)) for line in told)} open DagRuns")


def _silent(told: Sequence[Told], now: Instant) -> list[int]:
    """The shards of which nothing was told for long."""
    return sorted(int(each.place) for each in told if each.at < now - SILENT_US)
