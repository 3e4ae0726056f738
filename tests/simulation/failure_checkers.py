"""The promises of the failure path, as pure functions over raw dumps: see ``checkers.py``, whose list they are on."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from tests.oracle import attempts, deaths, orders, rest, verdicts
from tests.oracle.chronicle import Chronicle
from tests.oracle.records import decode

from .dumps import Dumps

Counts: TypeAlias = Counter[str]


def everything_ends(dumps: Dumps, counts: Counts) -> list[str]:
    """I2, I6, I12: every run made has one final status, its attempts are 1, 2, 3 and so on, one at a time."""
    chronicle = Chronicle(dumps.events)
    complaints, _ = attempts.check(chronicle, lambda _: 1 << 30)
    conserved, found = rest.conservation(chronicle)
    counts["created"] += found["created"]
    for outcome, count in chronicle.outcomes().items():
        counts[f"attempt {outcome}"] += count
    counts["ignored outcomes"] += sum(len(chronicle.ignored[kind]) for kind in chronicle.ignored if "ATTEMPT" in kind)
    return [f"I6 {complaint}" for complaint in complaints] + [f"I12 {complaint}" for complaint in conserved]


def runs_are_tried_as_their_policy_says(dumps: Dumps, counts: Counts) -> list[str]:
    """I6: no run gets more attempts than its policy allows, or fewer, and none waits shorter or longer than it says."""
    complaints, found = verdicts.check(Chronicle(dumps.events), dumps.work + dumps.waiting)
    counts.update(found)
    return [f"I6 {complaint}" for complaint in complaints]


def retries_are_never_early(dumps: Dumps, counts: Counts) -> list[str]:
    """I4: no attempt begins before its RETRYING says that it is due, but for the skew of the machines."""
    chronicle = Chronicle(dumps.events)
    complaints = []
    for (run_id, attempt), retry in chronicle.retries.items():
        claim = chronicle.claims.get((run_id, attempt))
        if claim is None:
            continue
        early_us = int(retry["due_at"]) - claim.stamp - dumps.skew_us_max
        if early_us > 0:
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
    chronicle = Chronicle(dumps.events)
    told = [decode(record["value"])[1] for record in dumps.control]
    asked = {str(each["run_id"]) for each in told if each["kind"] == "CANCEL_REQUESTED"}
    won, found = rest.cancels(chronicle, sorted(asked))
    counts.update({f"cancel {name}": count for name, count in found.items()})
    return [f"I13 {complaint}" for complaint in complaints + won]


def calls_at_most_once(dumps: Dumps, counts: Counts) -> list[str]:
    """A run that is to be called at most once was called once or never, whatever became of it."""
    times = Counter(str(call["run_id"]) for call in dumps.calls if call["once"])
    counts["called at most once"] += len(times)
    return [
        f"I2 {run_id}: called {count} times, at most once is promised" for run_id, count in times.items() if count > 1
    ]


def work_goes_out_once(dumps: Dumps, counts: Counts) -> list[str]:
    """I2: one work record for each PENDING and each RETRYING, and no others; none was lost on its way."""
    chronicle = Chronicle(dumps.events)
    complaints = []
    works = [decode(record["value"])[1] for record in dumps.work]
    handed = Counter((work["run_id"], work["attempt"]) for work in works)
    counts["work marked to verify"] += sum(1 for work in works if work["verify_from"] >= 0)
    promised = {(run_id, 1) for run_id in chronicle.pending} | chronicle.retries.keys()
    # A verdict that crossed a cancel is ignored; its work is on its way all the same, and nobody's claim of it counts.
    crossed = {(run_id, attempt) for run_id, attempt, _ in chronicle.ignored["RETRYING"]}
    for key in sorted(handed | Counter(promised)):
        run_id, attempt = key
        if handed[key] > 1 + dumps.swallowed_count or (handed[key] and key not in promised | crossed):
            complaints.append(f"I2 {run_id}: {handed[key]} work records of attempt {attempt}")
        # A retry of a run that was cancelled or has expired may still be on its way at rest.
        is_over = chronicle.runs[run_id]["status"] in ("CANCELLED", "FAILED")
        ended_early = attempt > 1 and is_over and key not in chronicle.claims
        if not handed[key] and not ended_early:
            complaints.append(f"I2 {run_id}: no work record of attempt {attempt}")
    return complaints


def the_reconciler_finds_nothing(dumps: Dumps, counts: Counts) -> list[str]:
    """What must follow followed without it; where somebody had swallowed work, it is what brings that back."""
    deferred = set()
    for record in dumps.commands:
        _, command = decode(record["value"])
        if command["kind"] == "DEFER":
            _, work = decode(command["work"])
            deferred.add((work["run_id"], work["attempt"]))
    works = [decode(record["value"])[1] for record in dumps.work]
    marked = [(work["run_id"], work["attempt"]) for work in works if work["verify_from"] >= 0]
    repaired = sorted(key for key in marked if key not in deferred)
    counts["repaired"] += len(repaired)
    counts["deferred"] += len(deferred)
    if dumps.swallowed_count:
        return []
    return [f"I12 {run_id}: attempt {attempt} had to be repaired" for run_id, attempt in repaired]
