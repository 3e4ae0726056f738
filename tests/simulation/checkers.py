"""The promises, as pure functions over raw dumps: each returns complaints, none where the promise was kept.

They stand on the oracles, which import nothing of ours; only ``reducers_agree`` looks at the product, because it holds
the product's reducer against the oracle's. A history in which nothing happened keeps no promise: it fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from tests.oracle import books, outputs, owed
from tests.oracle import runs as judge
from tests.oracle.chronicle import Chronicle
from tests.oracle.records import decode
from waterclock.model.events import RunStatus
from waterclock.model.fold import Fold
from waterclock.wire.codec import decode_event

from .door_checkers import (
    everybody_is_at_rest,
    job_events_end_once,
    nothing_acknowledged_is_lost,
    same_key_same_answer,
    tenants_are_apart,
)
from .dumps import Dumps
from .failure_checkers import (
    Counts,
    calls_at_most_once,
    cancels_have_one_winner,
    everything_ends,
    nobody_who_beats_is_fenced,
    retries_are_never_early,
    runs_are_tried_as_their_policy_says,
    the_dead_are_silent,
    the_reconciler_finds_nothing,
    work_goes_out_once,
)

Checker: TypeAlias = Callable[[Dumps, Counts], list[str]]

MASK = (1 << 48) - 1


def the_books_balance(dumps: Dumps, counts: Counts) -> list[str]:
    """I1, I3: fires owed = runs made + fires skipped, each once; each intention is served once, and answered."""
    complaints, found = books.balance(dumps.commands, dumps.events, dumps.until, dumps.rules)
    counts.update(found)
    if not found["owed"]:
        complaints.append("an empty history: no fire was owed")
    return [f"I1 {complaint}" for complaint in complaints]


def runs_end_once(dumps: Dumps, counts: Counts) -> list[str]:
    """I2: one claim and one outcome for each attempt, one final status for each run, and every run comes to its end."""
    runs, complaints, found = judge.follow(dumps.events)
    if "worker" in dumps.lost_roles:
        complaints = _without_repeated_refusals(dumps, complaints, counts)
    counts["runs followed"] += len(runs)
    counts["events ignored"] += found["ignored"]
    for run_id, run in runs.items():
        counts[run["status"].lower()] += 1
        if run["status"] not in judge.FINAL:
            complaints.append(f"{run_id}: still {run['status']} at rest ({run['worker']} {run['incarnation']})")
    if not runs:
        complaints.append("an empty history: no run was made")
    return [f"I2 {complaint}" for complaint in complaints]


def _without_repeated_refusals(dumps: Dumps, complaints: list[str], counts: Counts) -> list[str]:
    """Workers that lost their positions begin behind the last claim that was accepted (design §7).

    So one that was refused, because it crossed a cancel, may be made again; it is refused again, and nobody runs it.
    """
    accepted = {f"{run_id} attempt {attempt}: " for run_id, attempt in Chronicle(dumps.events).claims}
    kept = [
        complaint
        for complaint in complaints
        if not complaint.endswith("times STARTED") or complaint.rpartition(": ")[0] + ": " in accepted
    ]
    counts["refused claim repeated after a loss"] += len(complaints) - len(kept)
    return kept


def work_lies_in_its_pool(dumps: Dumps, counts: Counts) -> list[str]:
    """I2: every work record lies in the topic of the pool that it and its PENDING name."""
    events = [decode(record["value"])[1] for record in dumps.events]
    complaints = []
    pools = {event["run_id"]: event["pending"]["pool"] for event in events if event["kind"] == "PENDING"}
    for record in dumps.work:
        work_of = decode(record["value"])[1]
        counts[f"work of pool {work_of['pool']}"] += 1
        lane = str(record["topic"]).partition(".runs.")[2].partition(".")[2] or "default"
        if not lane == work_of["pool"] == pools.get(work_of["run_id"], lane):
            complaints.append(f"I2 {work_of['run_id']}: its work for pool {work_of['pool']} lies in that of {lane}")
    return complaints


def user_code_ran_under_its_claim(dumps: Dumps, counts: Counts) -> list[str]:
    """I2, I8: user code was called once for each committed STARTED, under its token, and never without one."""
    claims = {}
    for record in dumps.events:
        _, event = decode(record["value"])
        if event["kind"] == "STARTED":
            claims[event["job_id"], record["offset"]] = (event["run_id"], event["attempt"])
    complaints = []
    times: Counter[tuple[str, int]] = Counter()
    for call in dumps.calls:
        run_id, attempt, token = str(call["run_id"]), int(str(call["attempt"])), int(str(call["token"]))
        times[run_id, attempt] += 1
        if claims.get((run_id.partition("@")[0], token & MASK)) != (run_id, attempt):
            complaints.append(f"I2 {run_id}: user code ran under token {token}, where no STARTED of it stands")
    complaints += [f"I2 {run} attempt {attempt}: called {n} times" for (run, attempt), n in times.items() if n > 1]
    counts["calls of user code"] += len(dumps.calls)
    return complaints


def effects_are_seen_once(dumps: Dumps, counts: Counts) -> list[str]:
    """I9: what handlers emitted is seen once for each run that succeeded, and not at all for the others."""
    planned = {str(call["run_id"]): int(str(call["emits"])) for call in dumps.calls}
    complaints, found = outputs.check(dumps.events, dumps.outputs, planned)
    counts.update(found)
    ended = [decode(record["value"])[1]["ended"] for record in dumps.events]
    counts["emit refused"] += sum(1 for each in ended if each and each["error_class"] == "EmitRefused")
    return [f"I9 {complaint}" for complaint in complaints]


def history_equals_the_log(dumps: Dumps, _counts: Counts) -> list[str]:
    """I2: at rest the row of every run is what the log says, and there are no others."""
    runs, _, _ = judge.follow(dumps.events)
    rows = {owed.run_id(row["job_id"], row["fire_at"], row["series"]): row for row in dumps.runs}
    complaints = [f"I2 {run_id}: a row of a run that the log does not know" for run_id in sorted(rows.keys() - runs)]
    for run_id, run in runs.items():
        row = rows.get(run_id)
        said = row and tuple(row[name] for name in ("status", "outcome", "attempt", "skipped_count"))
        meant = tuple(run[name] for name in ("status", "outcome", "attempt", "skipped_count"))
        if said != meant:
            complaints.append(f"I2 {run_id}: the log says {meant}, its row {said}")
    return complaints


def letters_are_the_runs_given_up(dumps: Dumps, counts: Counts) -> list[str]:
    """I11: one dead letter for each run that failed, and none for others."""
    runs, _, _ = judge.follow(dumps.events)
    failed = Counter(run_id for run_id, run in runs.items() if run["status"] == "FAILED")
    letters = Counter(decode(record["value"])[1]["run_id"] for record in dumps.letters)
    counts["dead letters"] += letters.total()
    return [
        f"I11 {run_id}: failed {failed[run_id]}, {letters[run_id]} dead letters"
        for run_id in sorted(failed | letters)
        if failed[run_id] != letters[run_id]
    ]


def jobs_are_what_their_commands_made(dumps: Dumps, _counts: Counts) -> list[str]:
    """I3: the row of every job is what its last command made of it."""
    commands: dict[str, list[dict[str, object]]] = {}
    for record in sorted(dumps.commands, key=lambda each: (each["partition"], each["offset"])):
        _, body = decode(record["value"])
        commands.setdefault(body["job_id"], []).append(
            {"offset": record["offset"], "appended_at": record["timestamp_us"], "record": body}
        )
    rows = {row["job_id"]: (row["status"], int(str(row["revision"])) & MASK) for row in dumps.jobs}
    complaints = []
    for job_id, given in sorted(commands.items()):
        made = owed.versions(given, {}, dumps.rules).made
        meant = (made[-1].status, made[-1].offset) if made else None
        if rows.get(job_id) != meant:
            complaints.append(f"I3 {job_id}: its commands made {meant}, its row says {rows.get(job_id)}")
    return complaints


def nothing_is_early(dumps: Dumps, _counts: Counts) -> list[str]:
    """I4: no run is made before its fire time, by the brokers' clock, but for the skew of the machines."""
    complaints = []
    for record in dumps.events:
        _, event = decode(record["value"])
        if event["kind"] != "PENDING":
            continue
        early_us = event["pending"]["fire_at"] - int(str(record["timestamp_us"])) - dumps.skew_us_max
        if early_us > 1_000:
            complaints.append(f"I4 {event['run_id']}: made {early_us} us early")
    return complaints


def reducers_agree(dumps: Dumps, _counts: Counts) -> list[str]:
    """The product's reducer and the oracle's come to the same statuses."""
    runs, _, _ = judge.follow(dumps.events)
    folds: dict[int, Fold[None]] = {}
    said: dict[str, str] = {}
    for record in dumps.with_forged:
        fold = folds.setdefault(int(str(record["partition"])), Fold(generation=dumps.generation))
        value, offset = record["value"], record["offset"]
        assert isinstance(value, bytes)
        assert isinstance(offset, int)
        event = decode_event(value)
        verdict = fold.apply(event, offset)
        if event.run_id and verdict.state is not None:
            said[event.run_id] = RunStatus(verdict.state.status).name
    meant = {run_id: run["status"] for run_id, run in runs.items()}
    return [
        f"I2 {run_id}: the oracle says {meant.get(run_id)}, the product {said.get(run_id)}"
        for run_id in sorted(meant.keys() | said.keys())
        if meant.get(run_id) != said.get(run_id)
    ]


def no_role_broke(dumps: Dumps, _counts: Counts) -> list[str]:
    """Whatever goes wrong around it, a role ends only in the ways that its errors say."""
    return list(dumps.broken)


CHECKERS: tuple[Checker, ...] = (
    the_books_balance,
    runs_end_once,
    work_goes_out_once,
    work_lies_in_its_pool,
    user_code_ran_under_its_claim,
    effects_are_seen_once,
    history_equals_the_log,
    letters_are_the_runs_given_up,
    jobs_are_what_their_commands_made,
    nothing_is_early,
    reducers_agree,
    everything_ends,
    runs_are_tried_as_their_policy_says,
    retries_are_never_early,
    the_dead_are_silent,
    nobody_who_beats_is_fenced,
    cancels_have_one_winner,
    calls_at_most_once,
    the_reconciler_finds_nothing,
    nothing_acknowledged_is_lost,
    same_key_same_answer,
    job_events_end_once,
    tenants_are_apart,
    everybody_is_at_rest,
    no_role_broke,
)
