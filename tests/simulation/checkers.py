"""The promises, as pure functions over raw dumps: each returns complaints, none where the promise was kept.

They stand on the oracles, which import nothing of ours; only ``reducers_agree`` looks at the product, because it holds
the product's reducer against the oracle's. A history in which nothing happened keeps no promise: it fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from tests import two_reducers
from tests.oracle import (
    backfills,
    beside,
    books,
    counted,
    dag_runs,
    failing,
    makings,
    misfires,
    outputs,
    pauses,
    projections,
    sources,
    timeliness,
    triggers,
)
from tests.oracle import runs as judge
from tests.oracle.records import decode
from waterclock.model.ids import US_PER_S

from .allowed_lateness import QUICK_US
from .dag_checkers import pictures_of_dags_are_whole, rows_of_dags_equal_the_log
from .delay_checkers import delays_count_from_ends
from .door_checkers import (
    everybody_is_at_rest,
    job_events_end_once,
    nothing_acknowledged_is_lost,
    refused_commands_are_rejected,
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
    runs_are_made_of_their_revision,
    runs_are_tried_as_their_policy_says,
    the_dead_are_silent,
    the_reconciler_finds_nothing,
    work_goes_out_once,
    work_that_stands_is_not_called_gone,
)
from .late_checkers import every_tier_is_served, who_is_over_its_time_expires
from .ledger_checkers import the_ledger_agrees_with_the_books
from .row_checkers import (
    answers_name_what_was_made,
    history_equals_the_log,
    jobs_are_what_their_commands_made,
    lists_equal_the_log,
    records_say_whose_they_are,
    rejects_are_whole,
    tables_say_what_was_ordered,
)
from .senders import SHOP
from .stop_checkers import attempts_stop_when_their_time_is_over, cancels_reach_what_runs
from .upkeep_checkers import (
    rows_repeat_themselves,
    the_sweep_makes_good_what_was_lost_and_nothing_else,
    what_is_kept_is_open,
)

Checker: TypeAlias = Callable[[Dumps, Counts], list[str]]


def judged(checker: Checker, dumps: Dumps, counts: Counts) -> list[str]:
    """What one checker complains of. One that breaks on what it reads is a complaint, and the others go on."""
    try:
        return checker(dumps, counts)
    except Exception as error:  # noqa: BLE001 - a history so bad that its judge breaks must not silence the others
        return [f"{checker.__name__} broke on what it read: {type(error).__name__}: {error}"]


MASK = (1 << 48) - 1
_LET_GO_US = 15 * US_PER_S
"""How long an owner may take where what is due is decided within three seconds: of 400 seeds the worst took 2.6 s. Else
it may take as long as a fire: who has taken over lets nothing go before it has applied what commands there were, one a
turn in some plans."""


def the_books_balance(dumps: Dumps, counts: Counts) -> list[str]:
    """I1, I3: fires owed = runs made + fires skipped, each once; each intention is served once, and answered."""
    complaints, found = books.balance(dumps.commands, dumps.events, dumps.until, dumps.rules)
    counts.update(found)
    if not found["owed"]:
        complaints.append("an empty history: no fire was owed")
    if found["said again of a revision"]:
        complaints.append(f"REVISED was said {found['said again of a revision']} times too often")
    return [f"I1 {complaint}" for complaint in complaints]


def missed_fires_end_as_their_policy_says(dumps: Dumps, counts: Counts) -> list[str]:
    """I14: what is later than the grace runs or is skipped as its job's misfire policy says, and nothing else is."""
    complaints, found = misfires.check(dumps.commands, dumps.events, dumps.until, dumps.rules)
    counts.update(found)
    return [f"I14 {complaint}" for complaint in complaints]


def no_more_are_open_than_may_be(dumps: Dumps, counts: Counts) -> list[str]:
    """I7: limits and overlap policies hold at the arbiter, whoever waits goes in order, and once there is room."""
    late_us = _LET_GO_US if dumps.bounds.late <= QUICK_US else dumps.bounds.late
    complaints, found = beside.check(dumps.commands, dumps.events, dumps.rules, dumps.healed_at, late_us)
    counts.update(found)
    return [f"I7 {complaint}" for complaint in complaints]


def backfills_run_what_they_were_asked_for(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I1, I7: each fire of a past range runs once, unless it ran before, and no more at once than was said."""
    complaints, found = backfills.check(dumps.commands, dumps.events, dumps.rules)
    counts.update(found)
    return [f"I1 {complaint}" for complaint in complaints]


def ends_start_what_waits_for_them(dumps: Dumps, counts: Counts) -> list[str]:
    """I10: each end of a run starts what waits for such an end, once, and nothing else does."""
    complaints, found = triggers.check(
        dumps.commands, dumps.events, dumps.work + dumps.waiting, dumps.rules, dumps.until
    )
    wrong, sold = sources.check(dumps.commands, dumps.events, {SHOP: dumps.sold}, dumps.rules)
    complaints += wrong
    counts.update(sold)
    counts.update(found)
    return [f"I10 {complaint}" for complaint in complaints]


def what_is_due_is_decided_soon(dumps: Dumps, counts: Counts) -> list[str]:
    """I5: after the heal the backlog is gone in time, and what falls due then is decided at once."""
    complaints, found = timeliness.check(
        dumps.commands, dumps.events, dumps.until, dumps.healed_at, dumps.bounds, dumps.rules
    )
    counts.update(found)
    return [f"I5 {complaint}" for complaint in complaints]


def pauses_end_by_themselves(dumps: Dumps, counts: Counts) -> list[str]:
    """I3: a pause that names its end lasts no longer, whoever owned the shard by then."""
    complaints, found = pauses.check(
        dumps.commands, dumps.events, dumps.until, dumps.healed_at, dumps.bounds.within, dumps.rules
    )
    counts.update(found)
    return [f"I3 {complaint}" for complaint in complaints]


def too_many_failures_pause(dumps: Dumps, counts: Counts) -> list[str]:
    """I3: a job is paused by its owner once so many of its runs in a row have failed, once, and never otherwise."""
    complaints, found = failing.check(dumps.commands, dumps.events, dumps.rules, dumps.healed_at, dumps.bounds.within)
    counts.update(found)
    return [f"I3 {complaint}" for complaint in complaints]


def schedules_make_so_many_runs(dumps: Dumps, counts: Counts) -> list[str]:
    """I1: a schedule with ``max_runs`` makes so many runs, marks the last one, and ends its job then."""
    complaints, found = counted.check(dumps.commands, dumps.events, dumps.rules)
    counts.update(found)
    return [f"I1 {complaint}" for complaint in complaints]


def runs_end_once(dumps: Dumps, counts: Counts) -> list[str]:
    """I2: one claim and one outcome for each attempt, one final status for each run, and every run comes to its end."""
    runs, broken, found = dumps.followed
    complaints = list(broken)
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
    accepted = {f"{run_id} attempt {attempt}: " for run_id, attempt in dumps.chronicle.claims}
    kept = [
        complaint
        for complaint in complaints
        if not complaint.endswith("times STARTED") or complaint.rpartition(": ")[0] + ": " in accepted
    ]
    counts["refused claim repeated after a loss"] += len(complaints) - len(kept)
    return kept


def work_lies_in_its_pool(dumps: Dumps, counts: Counts) -> list[str]:
    """I2: every work record lies in the topic of the tier that it names, and of the pool that it and its PENDING name.

    Which tier it has to name its making says (``runs_are_made_of_their_revision``).
    """
    events = [decode(record["value"])[1] for record in dumps.events]
    complaints = []
    pools = {event["run_id"]: event["pending"]["pool"] for event in events if event["kind"] == "PENDING"}
    for record in dumps.work:
        work_of = decode(record["value"])[1]
        counts[f"work of pool {work_of['pool']}"] += 1
        tier, _, lane = str(record["topic"]).partition(".runs.")[2].partition(".")
        lane = lane or "default"
        if not lane == work_of["pool"] == pools.get(work_of["run_id"], lane):
            complaints.append(f"I2 {work_of['run_id']}: its work for pool {work_of['pool']} lies in that of {lane}")
        if tier != work_of["tier"].lower():
            said = f"its work of attempt {work_of['attempt']} for {work_of['tier']}"
            place = f"{record['topic']} {record['partition']}@{record['offset']}"
            complaints.append(f"I2 {work_of['run_id']}: {said} lies on another tier, at {place}")
    return complaints


def user_code_ran_under_its_claim(dumps: Dumps, counts: Counts) -> list[str]:
    """I2, I8: user code was called once for each committed STARTED, under its token, and never without one.

    Whoever succeeded was called: an outcome that stands before its effect promises what a crash may take away.
    """
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
    under = {(str(call["run_id"]), int(str(call["attempt"])), int(str(call["token"])) & MASK) for call in dumps.calls}
    runs, _, _ = dumps.followed
    complaints += [
        f"I2 {run_id}: succeeded in attempt {run['attempt']}, no user code was called under token {run['token']}"
        for run_id, run in runs.items()
        if run["status"] == "SUCCEEDED" and run["nodes"] is None and (run_id, run["attempt"], run["token"]) not in under
    ]
    counts["calls of user code"] += len(dumps.calls)
    return complaints


def nodes_begin_once_as_their_rules_say(dumps: Dumps, counts: Counts) -> list[str]:
    """I10: each node of a DagRun begins once if and only if its rule holds, and no DagRun stays open for ever."""
    meant = makings.meant(dumps.commands, dumps.events, dumps.rules)
    complaints, found = dag_runs.check(dumps.events, dumps.work, meant)
    counts.update(found)
    return [f"I10 {complaint}" for complaint in complaints]


def effects_are_seen_once(dumps: Dumps, counts: Counts) -> list[str]:
    """I9: what handlers emitted is seen once for each run that succeeded, and not at all for the others."""
    planned = {str(call["run_id"]): int(str(call["emits"])) for call in dumps.calls}
    complaints, found = outputs.check(dumps.events, dumps.outputs, planned)
    counts.update(found)
    ended = [decode(record["value"])[1]["ended"] for record in dumps.events]
    counts["emit refused"] += sum(1 for each in ended if each and each["error_class"] == "EmitRefused")
    return [f"I9 {complaint}" for complaint in complaints]


def _is_given_up(run: dict[str, Any]) -> bool:
    """It failed by itself: not a DagRun, which has no work, nor a node that ended because its DagRun was over time."""
    return bool(run["status"] == "FAILED" and run["nodes"] is None and not run["expired"])


def letters_are_the_runs_given_up(dumps: Dumps, counts: Counts) -> list[str]:
    """I11: one dead letter for each run that failed, and none for others."""
    runs, _, _ = dumps.followed
    failed = Counter(run_id for run_id, run in runs.items() if _is_given_up(run))
    letters = Counter(decode(record["value"])[1]["run_id"] for record in dumps.letters)
    counts["dead letters"] += letters.total()
    return [
        f"I11 {run_id}: failed {failed[run_id]}, {letters[run_id]} dead letters"
        for run_id in sorted(failed | letters)
        if failed[run_id] != letters[run_id]
    ]


def letters_say_why_and_hold_the_work(dumps: Dumps, counts: Counts) -> list[str]:
    """I11: reason, number of attempts and the work record, byte for byte, so that a redrive can be made of it."""
    complaints, found = projections.letters(dumps.chronicle, dumps.letters, dumps.work)
    counts.update({f"dead letters {what}": n for what, n in found.items()})
    return [f"I11 {complaint}" for complaint in complaints]


def nothing_is_early(dumps: Dumps, _counts: Counts) -> list[str]:
    """I4: no run can be read of before it is due, by the brokers' clock, but for the skew of the machines.

    A herd may stand in the log before, in a transaction that is not committed yet. When a run is due, jitter included,
    its making must say (``runs_are_made_of_their_revision``).
    """
    complaints = []
    for record in dumps.events:
        _, event = decode(record["value"])
        if event["kind"] != "PENDING":
            continue
        at = int(str(record.get("readable_us", record["timestamp_us"])))
        due_at = event["pending"]["due_at"] or event["pending"]["fire_at"]
        early_us = due_at - at - dumps.skew_ahead("dispatcher", at)
        if early_us > 1_000:
            complaints.append(f"I4 {event['run_id']}: made {early_us} us early")
    return complaints


def reducers_agree(dumps: Dumps, _counts: Counts) -> list[str]:
    """I2: the product's reducer and the oracle's come to the same: status, attempt, outcome, owner and token."""
    runs, _, _ = dumps.followed
    return [f"I2 {complaint}" for complaint in two_reducers.differ(runs, dumps.with_forged, dumps.generation)]


def no_role_broke(dumps: Dumps, _counts: Counts) -> list[str]:
    """Whatever goes wrong around it, a role ends only in the ways that its errors say."""
    return list(dumps.broken)


CHECKERS: tuple[Checker, ...] = (
    the_books_balance,
    the_ledger_agrees_with_the_books,
    missed_fires_end_as_their_policy_says,
    no_more_are_open_than_may_be,
    backfills_run_what_they_were_asked_for,
    ends_start_what_waits_for_them,
    what_is_due_is_decided_soon,
    pauses_end_by_themselves,
    too_many_failures_pause,
    schedules_make_so_many_runs,
    delays_count_from_ends,
    runs_end_once,
    work_goes_out_once,
    work_lies_in_its_pool,
    user_code_ran_under_its_claim,
    nodes_begin_once_as_their_rules_say,
    effects_are_seen_once,
    history_equals_the_log,
    rows_of_dags_equal_the_log,
    pictures_of_dags_are_whole,
    letters_are_the_runs_given_up,
    letters_say_why_and_hold_the_work,
    lists_equal_the_log,
    jobs_are_what_their_commands_made,
    nothing_is_early,
    reducers_agree,
    everything_ends,
    runs_are_made_of_their_revision,
    runs_are_tried_as_their_policy_says,
    work_that_stands_is_not_called_gone,
    retries_are_never_early,
    the_dead_are_silent,
    nobody_who_beats_is_fenced,
    cancels_have_one_winner,
    attempts_stop_when_their_time_is_over,
    cancels_reach_what_runs,
    calls_at_most_once,
    the_reconciler_finds_nothing,
    the_sweep_makes_good_what_was_lost_and_nothing_else,
    what_is_kept_is_open,
    rows_repeat_themselves,
    nothing_acknowledged_is_lost,
    same_key_same_answer,
    refused_commands_are_rejected,
    job_events_end_once,
    tenants_are_apart,
    everybody_is_at_rest,
    tables_say_what_was_ordered,
    answers_name_what_was_made,
    records_say_whose_they_are,
    rejects_are_whole,
    every_tier_is_served,
    who_is_over_its_time_expires,
    no_role_broke,
)
