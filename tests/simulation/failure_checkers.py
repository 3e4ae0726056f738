"""The promises of the failure path, as pure functions over raw dumps: see ``checkers.py``, whose list they are on."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from tests.oracle import attempts, deaths, makings, orders, rest, verdicts
from tests.oracle.records import decode
from tests.oracle.runs import FINAL

from .dumps import Dumps
from .people import LADDER_US

Counts: TypeAlias = Counter[str]
_TICK_US = 1_000
"""Records are stamped in whole milliseconds."""


def everything_ends(dumps: Dumps, counts: Counts) -> list[str]:
    """I2, I6, I12: every run made has one final status, its attempts are 1, 2, 3 and so on, one at a time."""
    chronicle = dumps.chronicle
    complaints, _ = attempts.check(chronicle, lambda _: 1 << 30)
    conserved, found = rest.conservation(chronicle)
    counts["created"] += found["created"]
    for outcome, count in chronicle.outcomes().items():
        counts[f"attempt {outcome}"] += count
    counts["ignored outcomes"] += sum(len(chronicle.ignored[kind]) for kind in chronicle.ignored if "ATTEMPT" in kind)
    return [f"I6 {complaint}" for complaint in complaints] + [f"I12 {complaint}" for complaint in conserved]


def runs_are_tried_as_their_policy_says(dumps: Dumps, counts: Counts) -> list[str]:
    """I6: no run gets more attempts than its policy allows, or fewer, and none waits shorter or longer than it says."""
    complaints, found = verdicts.check(dumps.chronicle, meant=_meant(dumps))
    counts.update(found)
    return [f"I6 {complaint}" for complaint in complaints]


def work_that_stands_is_not_called_gone(dumps: Dumps, _counts: Counts) -> list[str]:
    """I6, I11: no run ends because its work is gone, and no letter says so, while that stands on its tier or a rung.

    Nothing is tolerated: retention spares the work of runs that are open, and what else it took was put back.
    """
    chronicle, gone = dumps.chronicle, {}
    for record in dumps.letters:
        letter = decode(record["value"])[1]
        if letter["reason"].endswith(f"; {verdicts.WORK_GONE}"):
            gone[letter["run_id"]] = "I11", "its letter"
    for run_id, (kind, reason) in chronicle.verdicts.items():
        if reason == verdicts.WORK_GONE:
            gone[run_id] = "I6", f"{kind} at {chronicle.verdict_at[run_id]}"
    complaints = []
    for record in dumps.work + dumps.waiting if gone else ():
        work = decode(record["value"])[1]
        run_id, attempt = work["run_id"], work["attempt"]
        if run_id in gone and attempt == max(1, chronicle.runs[run_id]["attempt"]):
            promise, who = gone[run_id]
            place = f"{record['topic']} {record['partition']}@{record['offset']}"
            complaints.append(f"{promise} {run_id}: its work is gone, says {who}; attempt {attempt}'s is at {place}")
    return complaints


def runs_are_made_of_their_revision(dumps: Dumps, counts: Counts) -> list[str]:
    """I1: PENDING and work of every run say what the command says whose revision owes it."""
    complaints, found = makings.check(dumps.commands, dumps.events, dumps.work + dumps.waiting, dumps.rules)
    counts.update(found)
    return [f"I1 {complaint}" for complaint in complaints]


def _meant(dumps: Dumps) -> dict[str, makings.Making]:
    return makings.meant(dumps.commands, dumps.events, dumps.rules)


def retries_are_never_early(dumps: Dumps, counts: Counts) -> list[str]:
    """I4: no attempt begins before its RETRYING says that it is due, but for the clock of whoever it waits with.

    That is the ladder, and for long waits a dispatcher. What was handed back waits for nobody.
    """
    chronicle = dumps.chronicle
    complaints = []
    for (run_id, attempt), retry in chronicle.retries.items():
        claim = chronicle.claims.get((run_id, attempt))
        if claim is None:
            continue
        waits_with = ("retry-ladder", "dispatcher") if retry["delay_us"] > LADDER_US else ("retry-ladder",)
        ahead_us = max(dumps.skew_ahead(role, claim.stamp) for role in waits_with)
        early_us = int(retry["due_at"]) - claim.stamp - ahead_us
        if early_us > _TICK_US and retry["delay_us"]:
            complaints.append(f"I4 {run_id}: attempt {attempt} began {early_us} us early")
        counts["retries begun"] += 1
        counts["retries begun after more than 5 s"] += int(retry["delay_us"]) > 5_000_000
    return complaints


def the_dead_are_silent(dumps: Dumps, counts: Counts) -> list[str]:
    """I8: nobody is called lost before it is dead, and nobody who was called lost speaks again."""
    complaints, found = deaths.check(dumps.events, dumps.leases)
    counts.update(found)
    return [f"I8 {complaint}" for complaint in complaints]


def nobody_who_beats_is_fenced(dumps: Dumps, _counts: Counts) -> list[str]:
    """A keeper judges only by what it has read to the end, and gives a full lease to whom it could not hear."""
    innocent = deaths.innocents(dumps.leases, dumps.beats, dumps.lease_us, dumps.stood)
    return [f"I8 {complaint}" for complaint in innocent]


def cancels_have_one_winner(dumps: Dumps, counts: Counts) -> list[str]:
    """I13: every cancel was passed on once, to control first; who was cancelled had been asked for, and stays it."""
    complaints, found = orders.check(dumps.commands, dumps.events, dumps.control, dumps.rules)
    counts.update(found)
    chronicle = dumps.chronicle
    told = [decode(record["value"])[1] for record in dumps.control]
    asked = {str(each["run_id"]) for each in told if each["kind"] == "CANCEL_REQUESTED"}
    won, found = rest.cancels(chronicle, sorted(asked))
    counts.update({f"cancel {name}": count for name, count in found.items()})
    return [f"I13 {complaint}" for complaint in complaints + won]


def calls_at_most_once(dumps: Dumps, counts: Counts) -> list[str]:
    """A run that is to be called at most once was called once or never, whatever became of it."""
    meant = _meant(dumps)
    called = [str(call["run_id"]) for call in dumps.calls]
    times = Counter(run_id for run_id in called if run_id in meant and meant[run_id].at_most_once)
    counts["called at most once"] += len(times)
    return [
        f"I2 {run_id}: called {count} times, at most once is promised" for run_id, count in times.items() if count > 1
    ]


def work_goes_out_once(dumps: Dumps, counts: Counts) -> list[str]:
    """I2: one work record for each PENDING and each RETRYING, and no others; none was lost on its way.

    Work that a tool has passed over may go out once more, each time that it was passed over.
    """
    chronicle = dumps.chronicle
    complaints = []
    works = [decode(record["value"])[1] for record in dumps.work]
    handed = Counter((work["run_id"], work["attempt"]) for work in works)
    counts["work marked to verify"] += sum(1 for work in works if work["verify_from"] >= 0)
    dag_runs = {run_id for run_id, run in chronicle.runs.items() if run["nodes"] is not None}
    promised = {(run_id, 1) for run_id in chronicle.pending if run_id not in dag_runs} | chronicle.retries.keys()
    # A verdict that crossed a cancel is ignored; its work is on its way all the same, and nobody's claim of it counts.
    crossed = {(run_id, attempt) for run_id, attempt, stood in chronicle.ignored["RETRYING"] if stood in FINAL}
    # Likewise a node that was released while its DagRun was cancelled.
    crossed |= {(run_id, 1) for run_id, _, stood in chronicle.ignored["PENDING"] if "/" in run_id and stood is None}
    on_its_way = _deferred(dumps)  # nothing stands on a rung any more: at rest the ladder has no lag
    swallowed = _swallowed(dumps)
    for key in sorted(handed | Counter(promised)):
        run_id, attempt = key
        if handed[key] > 1 + swallowed[key] or (handed[key] and key not in promised | crossed):
            complaints.append(f"I2 {run_id}: {handed[key]} work records of attempt {attempt}")
        # A long retry of a run that was cancelled or has expired may still wait with the dispatcher at rest.
        run = chronicle.runs.get(run_id)
        is_over = run is not None and run["status"] in ("CANCELLED", "FAILED")
        ended_early = key in on_its_way and is_over and key not in chronicle.claims
        if not handed[key] and not ended_early:
            complaints.append(f"I2 {run_id}: no work record of attempt {attempt}")
    return complaints


def _swallowed(dumps: Dumps) -> Counter[tuple[str, int]]:
    """How often work of each (run, attempt) was passed over behind its workers' backs."""
    found: Counter[tuple[str, int]] = Counter()
    for record in dumps.work:
        offset = int(str(record["offset"]))
        place = (record["topic"], record["partition"])
        times = sum((topic, number) == place and start <= offset < end for topic, number, start, end in dumps.swallowed)
        work = decode(record["value"])[1] if times else {}
        if times:
            found[work["run_id"], work["attempt"]] += times
    return found


def _deferred(dumps: Dumps) -> set[tuple[str, int]]:
    """What was handed to the dispatcher, to wait there."""
    found = set()
    for record in dumps.commands:
        _, command = decode(record["value"])
        if command["kind"] == "DEFER":
            _, work = decode(command["work"])
            found.add((work["run_id"], work["attempt"]))
    return found


def the_reconciler_finds_nothing(dumps: Dumps, counts: Counts) -> list[str]:
    """I12: what must follow followed without it; where a tool had passed over work, it is what brings that back."""
    deferred = _deferred(dumps)
    works = [decode(record["value"])[1] for record in dumps.work]
    # A mark without a state is the ladder's: on what it hands on where its position was lost.
    known = [work for work in works if work["verify_from"] >= 0 and work["verify_state"]]
    marked = Counter((work["run_id"], work["attempt"]) for work in known)
    # A backfill's work is marked from the beginning, once.
    marked -= Counter({(work["run_id"], 1): 1 for work in works if work["backfill"] and "~" not in work["run_id"]})
    repaired = Counter({key: times for key, times in marked.items() if key not in deferred})
    counts["repaired"] += repaired.total()
    counts["deferred"] += len(deferred)
    return [
        f"I12 {run_id}: attempt {attempt} had to be repaired {times} times"
        for (run_id, attempt), times in sorted((repaired - _swallowed(dumps)).items())
    ]
