"""History: late, repeated and reordered states of a run settle on the last one; lists are newest first."""

from __future__ import annotations

import itertools

import pytest

from waterclock.model.errors import ClockBehind
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S, Instant, RunId
from waterclock.model.job import Tier
from waterclock.store.port import AttemptRow, AuditRow, FailureRow, History, LetterAction, LetterRow

from .world import US_PER_DAY, StoreWorld

HOUR_US = 3_600 * US_PER_S
WAIT_S = 30.0


def test_a_run_is_read_back_whole(world: StoreWorld) -> None:
    run = world.run(
        series=1 << 50,
        tier=Tier.LOW,
        origin="TRIGGER",
        status=RunStatus.FAILED,
        outcome=Outcome.TIMED_OUT,
        attempt=3,
        error="ValueError: nö",
        result=b"\x00\xff",
        reason="attempts",
        skipped_count=4,
        skipped_to=world.now + 9,
        fence=1 << 50,
    )

    world.store.record(History([run])).wait(WAIT_S)

    assert world.other.run(run.job_id, run.fire_at, run.series) == run
    assert world.other.runs(run.job_id, 5) == [run]


@pytest.mark.parametrize("result", [None, b""])
def test_no_result_and_an_empty_result_are_two_things(world: StoreWorld, result: bytes | None) -> None:
    run = world.run(result=result)

    world.store.record(History([run])).wait(WAIT_S)

    assert world.store.run(run.job_id, run.fire_at, 0) == run


def test_a_run_that_is_not_there_is_none(world: StoreWorld) -> None:
    assert world.store.run(world.job_id(), world.now, 0) is None
    assert world.store.runs(world.job_id(), 5) == []
    assert world.store.attempts(world.job_id(), world.now, 0) == []
    assert world.store.failures(world.tenant, 5) == []


def test_the_states_of_a_run_settle_on_the_last_in_any_order(world: StoreWorld) -> None:
    for number, order in enumerate(itertools.permutations(range(4))):
        states = [
            world.run(f"job-{number}", status=status, outcome=outcome, wts=world.now + rank, error=error, result=None)
            for status, outcome, rank, error in (
                (RunStatus.PENDING, Outcome.NONE, 0, ""),
                (RunStatus.RUNNING, Outcome.NONE, 8, ""),
                (RunStatus.RETRYING, Outcome.FAILED, 16, "KeyError: 'x'"),
                (RunStatus.SUCCEEDED, Outcome.SUCCEEDED, 32, ""),
            )
        ]

        for each in (*order, *order[:2]):
            world.store.record(History([states[each]])).wait(WAIT_S)

        assert world.store.run(states[0].job_id, world.now, 0) == states[3]


def test_states_of_one_run_in_one_batch_settle_on_the_last(world: StoreWorld) -> None:
    states = [world.run(status=RunStatus.SUCCEEDED, wts=world.now + 32), world.run(status=RunStatus.PENDING)]

    world.store.record(History(states)).wait(WAIT_S)

    assert world.store.run(world.job_id(), world.now, 0) == states[0]


def test_a_state_that_brings_no_result_leaves_the_one_that_stands(world: StoreWorld) -> None:
    world.store.record(History([world.run(result=b"first")])).wait(WAIT_S)

    world.store.record(History([world.run(result=None, wts=world.now + 1)])).wait(WAIT_S)

    assert world.store.run(world.job_id(), world.now, 0) == world.run(result=b"first", wts=world.now + 1)


def test_several_batches_may_be_under_way(world: StoreWorld) -> None:
    runs = [world.run(f"n{i % 400:03d}", fire_at=world.now - i // 400 * US_PER_S) for i in range(2_000)]

    under_way = [world.store.record(History(runs[start : start + 250])) for start in range(0, 2_000, 250)]
    for writing in under_way:
        writing.wait(WAIT_S)
        writing.wait(WAIT_S)

    for name in ("n000", "n123", "n399"):
        expected = [run for run in runs if run.job_id == world.job_id(name)]
        assert world.store.runs(world.job_id(name), 10) == expected


def test_results_at_their_limit_go_out_in_requests_that_the_server_takes(world: StoreWorld) -> None:
    runs = [world.run(f"n{i}", result=bytes([i]) * 8_192) for i in range(40)]

    world.store.record(History(runs)).wait(WAIT_S)

    assert [world.store.run(run.job_id, run.fire_at, 0) for run in runs] == runs


def test_nothing_to_record_is_recorded_at_once(world: StoreWorld) -> None:
    world.store.record(History()).wait(WAIT_S)


def test_runs_come_newest_first_across_days(world: StoreWorld) -> None:
    days = (0, 1, 2, 5, 9, 20, 31)
    runs = [world.run(fire_at=world.now - day * US_PER_DAY, series=series) for day in days for series in (8, 0)]
    world.store.record(History(runs[::-1])).wait(WAIT_S)

    assert world.store.runs(world.job_id(), 100) == runs
    assert world.store.runs(world.job_id(), 3) == runs[:3]
    assert world.store.runs(world.job_id(), 9) == runs[:9]


def test_a_page_of_runs_goes_on_before_the_last_one(world: StoreWorld) -> None:
    runs = [world.run(fire_at=world.now - i * 7 * HOUR_US) for i in range(20)]
    world.store.record(History(runs)).wait(WAIT_S)

    assert world.store.runs(world.job_id(), 5, before=runs[4].fire_at) == runs[5:10]
    assert world.store.runs(world.job_id(), 50, before=runs[18].fire_at) == runs[19:]
    assert world.store.runs(world.job_id(), 50, before=runs[19].fire_at) == []


def test_runs_of_long_ago_are_found_by_looking_there(world: StoreWorld) -> None:
    run = world.run(fire_at=-5 * HOUR_US)
    world.store.record(History([run])).wait(WAIT_S)

    assert world.store.run(run.job_id, run.fire_at, 0) == run
    assert world.store.runs(run.job_id, 5, before=0) == [run]


def _attempt(world: StoreWorld, attempt: int, **parts: object) -> AttemptRow:
    row = AttemptRow(
        world.job_id(), world.now, 0, "", attempt, Outcome.FAILED, 5, 6, "workers-2", 77, "E: x", world.now + attempt
    )
    return row._replace(**parts)  # type: ignore[arg-type]  # fields by name


def test_attempts_of_a_run_come_in_order_with_their_stamps(world: StoreWorld) -> None:
    mine = [_attempt(world, attempt) for attempt in (1, 2, 10)]
    others = [_attempt(world, 1, series=4), _attempt(world, 1, fire_at=world.now - 1)]

    world.store.record(History(attempts=[*others, *mine[::-1]])).wait(WAIT_S)

    assert world.store.attempts(world.job_id(), world.now, 0) == mine
    assert world.store.attempts(world.job_id(), world.now, 4) == [others[0]]


def test_an_older_account_of_an_attempt_loses(world: StoreWorld) -> None:
    newer, older = _attempt(world, 1), _attempt(world, 1, outcome=Outcome.LOST, error="zzz", wts=world.now)
    world.store.record(History(attempts=[newer])).wait(WAIT_S)

    world.other.record(History(attempts=[older])).wait(WAIT_S)

    assert world.store.attempts(world.job_id(), world.now, 0) == [newer]


def _failure(world: StoreWorld, name: str, ended_at: int) -> FailureRow:
    return FailureRow(world.job_id(name), world.now, 0, "", ended_at, "attempts", "0f0f", world.now)


def _place(row: FailureRow) -> tuple[Instant, RunId]:
    return row.ended_at, RunId(row.job_id, row.fire_at, row.series, row.node)


def test_failures_of_the_last_day_come_newest_first(world: StoreWorld) -> None:
    rows = [_failure(world, f"n{i:02d}", world.now - i * HOUR_US // 2) for i in range(47)]
    old = [_failure(world, "old", world.now - 25 * HOUR_US), _failure(world, "older", world.now - 30 * HOUR_US)]

    world.store.record(History(failures=[*old, *rows[::-1]])).wait(WAIT_S)

    assert world.store.failures(world.tenant, 100) == rows
    assert world.store.failures(world.tenant, 20) == rows[:20]


def test_failures_are_found_between_two_instants_a_month_back(world: StoreWorld) -> None:
    day_us = 24 * HOUR_US
    rows = [
        _failure(world, f"n{i}", world.now - i * day_us)._replace(error_class="KeyError", error="no 'x'", attempts=4)
        for i in range(29)
    ]
    world.store.record(History(failures=rows[::-1])).wait(WAIT_S)

    assert world.store.failures(world.tenant, 100, since=world.now - 40 * day_us) == rows
    assert world.store.failures(world.tenant, 100, since=rows[5].ended_at) == rows[:5]
    assert world.store.failures(world.tenant, 3, world.now - 40 * day_us, _place(rows[6])) == rows[7:10]


def test_pages_of_failures_of_one_instant_leave_none_out(world: StoreWorld) -> None:
    rows = [_failure(world, f"n{i:02d}", world.now)._replace(series=i % 3) for i in range(40)]
    rows += [_failure(world, "n05", world.now - 1)]
    world.store.record(History(failures=rows[::-1])).wait(WAIT_S)

    seen: list[FailureRow] = []
    while page := world.store.failures(world.tenant, 7, after=_place(seen[-1]) if seen else None):
        seen += page
    assert seen == rows


def test_failures_are_read_by_their_places(world: StoreWorld) -> None:
    rows = [_failure(world, f"n{i}", world.now - i) for i in range(3)]
    world.store.record(History(failures=rows)).wait(WAIT_S)

    unknown = (world.now, RunId(world.job_id("n9"), world.now))
    assert world.store.failure_rows([_place(rows[2]), unknown, _place(rows[0])]) == [rows[2], None, rows[0]]
    assert world.store.failure_rows([]) == []


def test_what_was_done_last_about_a_letter_stands(world: StoreWorld) -> None:
    def letter(name: str, action: LetterAction, at: int, **parts: object) -> LetterRow:
        return LetterRow(world.job_id(name), world.now, 7, "", action, "", "", at)._replace(**parts)  # type: ignore[arg-type]

    redriven = letter("one", LetterAction.REDRIVEN, world.now, linked_run="again")
    discarded = letter("one", LetterAction.DISCARDED, world.now + 5, actor="ann")
    other = letter("two", LetterAction.DISCARDED, world.now)
    of_node = letter("two", LetterAction.DISCARDED, world.now, node="load.3")
    world.store.record(History(letters=[discarded, other, of_node])).wait(WAIT_S)
    world.other.record(History(letters=[redriven])).wait(WAIT_S)

    asked = [
        RunId(world.job_id("one"), world.now, 7),
        RunId(world.job_id("two"), world.now, 8),
        RunId(world.job_id("two"), world.now, 7),
        RunId(world.job_id("two"), world.now, 7, "load.3"),
        RunId(world.job_id("two"), world.now, 7, "load.4"),
    ]
    assert world.store.letter_rows(asked) == [discarded, None, other, of_node, None]
    assert world.store.letter_rows([]) == []


def test_a_run_tells_of_its_wait_of_a_cancel_of_what_it_redrives_and_that_it_is_the_last(world: StoreWorld) -> None:
    run = world.run(
        next_attempt_at=world.now + 5, linked_run="acme:x@20261121T090000Z", cancel_requested=True, is_last=True
    )
    world.store.record(History([run])).wait(WAIT_S)

    assert world.store.run(run.job_id, run.fire_at, 0) == run


def test_a_batch_of_every_kind_lands_whole(world: StoreWorld) -> None:
    run, attempt, failure = world.run(), _attempt(world, 1), _failure(world, "job", world.now)
    audit = AuditRow(world.job_id(), world.now, 3, 1 << 40, "ann", "CREATE", "{}")

    world.store.record(History([run], [attempt], [failure], [audit])).wait(WAIT_S)

    assert world.store.run(run.job_id, run.fire_at, 0) == run
    assert world.store.attempts(run.job_id, run.fire_at, 0) == [attempt]
    assert world.store.failures(world.tenant, 9) == [failure]


@pytest.mark.parametrize(("wts", "error"), [(0, ValueError), (1 << 62, ClockBehind)])
def test_a_run_without_an_honest_stamp_is_refused(world: StoreWorld, wts: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="stamp"):
        world.store.record(History([world.run(wts=wts)]))

    assert world.store.run(world.job_id(), world.now, 0) is None


def test_the_server_says_who_it_is(world: StoreWorld) -> None:
    assert world.store.release()
