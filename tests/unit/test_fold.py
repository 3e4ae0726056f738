"""The fold of one partition: it remembers enough, names where a successor begins, and says when it is full."""

from __future__ import annotations

import time

import pytest

from waterclock.model.dag_events import DagStart
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, RunStatus, Skipped
from waterclock.model.fold import Fold, FoldFull, fold_from_text, parse_fold_from
from waterclock.model.ids import make_run_id
from waterclock.model.job import Tier
from waterclock.model.reduce import Ignored, RunState

JOB = "acme:nightly"
T0 = 1_795_000_000_000_000


def run_id(number: int) -> str:
    return make_run_id(JOB, T0 + number * 1_000_000)


def pending(number: int, revision: int = 1) -> RunEvent:
    at = T0 + number * 1_000_000
    detail = Pending(revision, at, at, Tier.HIGH, Origin.SCHEDULE)
    return RunEvent(EventKind.PENDING, JOB, run_id(number), at, detail=detail)


def held(number: int) -> RunEvent:
    return RunEvent(EventKind.HELD, JOB, run_id(number), T0, reason="overlap")


def started(number: int) -> RunEvent:
    return RunEvent(EventKind.STARTED, JOB, run_id(number), T0, attempt=1, worker="w-1")


def succeeded(number: int, token: int) -> RunEvent:
    return RunEvent(EventKind.ATTEMPT_SUCCEEDED, JOB, run_id(number), T0, 1, "w-1", token=token, detail=Ended(T0))


def skipped(first: int, last: int, revision: int = 1) -> RunEvent:
    start, end = T0 + first * 1_000_000, T0 + last * 1_000_000
    detail = Skipped(revision, start, end, last - first + 1, Tier.HIGH, end)
    return RunEvent(EventKind.SKIPPED, JOB, run_id(first), T0, reason="misfire", detail=detail)


def finish(fold: Fold[object], number: int, offset: int) -> None:
    """One whole run in three offsets."""
    assert fold.apply(pending(number), offset).accepted
    assert fold.apply(started(number), offset + 1).accepted
    assert fold.apply(succeeded(number, offset + 1), offset + 2).accepted


def test_a_finished_run_leaves_the_open_ones_and_stays_known() -> None:
    fold: Fold[object] = Fold()
    finish(fold, 0, 100)
    assert not fold.open
    state = fold.state(run_id(0))
    assert state is not None
    assert state.status is RunStatus.SUCCEEDED
    assert fold.position == 103


def test_a_duplicate_of_a_finished_run_is_ignored_for_a_whole_window() -> None:
    fold: Fold[object] = Fold(window=50)
    finish(fold, 0, 100)
    for offset in range(104, 153):
        verdict = fold.apply(pending(0), offset)
        assert (verdict.accepted, verdict.reason) == (False, Ignored.FINAL), offset


def test_the_memory_of_finished_runs_is_bounded() -> None:
    fold: Fold[object] = Fold(window=30)
    for number in range(200):
        finish(fold, number, number * 3)
    assert len(fold._recent.runs) + len(fold._older.runs) <= 2 * 30


def test_the_token_carries_the_generation_of_the_topic() -> None:
    fold: Fold[object] = Fold(generation=2)
    fold.apply(pending(0), 5)
    fold.apply(started(0), 6)
    assert fold.open[run_id(0)].state.token == 2 << 48 | 6
    assert not fold.apply(succeeded(0, 6), 7).accepted
    assert fold.apply(succeeded(0, 2 << 48 | 6), 8).accepted


def test_a_successor_that_reads_from_fold_from_knows_the_same_open_runs() -> None:
    fold: Fold[object] = Fold(window=10)
    log: list[tuple[int, RunEvent]] = []
    for number in range(30):
        log += [(number * 4, pending(number)), (number * 4 + 1, started(number))]
        if number != 7:
            log.append((number * 4 + 2, succeeded(number, number * 4 + 1)))
    for offset, event in log:
        fold.apply(event, offset)
    assert list(fold.open) == [run_id(7)]
    assert fold.fold_from() == 28

    successor: Fold[object] = Fold(window=10)
    for offset, event in log:
        if offset >= fold.fold_from():
            successor.apply(event, offset)
    assert {name: run.state for name, run in successor.open.items()} == {
        name: run.state for name, run in fold.open.items()
    }


def test_without_open_runs_a_successor_reads_one_window_back() -> None:
    fold: Fold[object] = Fold(window=50)
    assert fold.fold_from() == 0
    finish(fold, 0, 100)
    assert fold.fold_from() == 53


def test_a_held_run_counts_from_its_first_event() -> None:
    fold: Fold[object] = Fold(window=5)
    fold.apply(held(0), 3)
    fold.apply(pending(0), 40)
    assert fold.fold_from() == 3


def test_a_skipped_range_decides_every_fire_in_it() -> None:
    fold: Fold[object] = Fold()
    assert fold.apply(skipped(0, 5), 10).accepted
    for number in range(6):
        verdict = fold.apply(pending(number), 11 + number)
        assert (verdict.accepted, verdict.reason) == (False, Ignored.FINAL)
    assert fold.apply(pending(6), 20).accepted
    assert fold.apply(pending(3, revision=2), 21).accepted


def test_a_skipped_range_ends_the_held_runs_that_it_covers() -> None:
    fold: Fold[object] = Fold()
    for offset, number in enumerate((0, 3, 9)):
        fold.apply(held(number), offset)
    assert fold.apply(skipped(0, 5), 10).accepted
    assert list(fold.open) == [run_id(9)]
    state = fold.state(run_id(3))
    assert state is not None
    assert state.status is RunStatus.SKIPPED


def test_at_the_bound_it_says_so_and_forgets_nothing() -> None:
    fold: Fold[object] = Fold(open_max=2)
    fold.apply(pending(0), 0)
    fold.apply(pending(1), 1)
    with pytest.raises(FoldFull, match="2 runs are open in one run-events partition, the most that is held here"):
        fold.apply(pending(2), 2)
    assert list(fold.open) == [run_id(0), run_id(1)]
    assert fold.position == 2


def test_a_fold_never_goes_back() -> None:
    fold: Fold[object] = Fold()
    fold.apply(pending(0), 5)
    with pytest.raises(ValueError, match="never goes back"):
        fold.apply(pending(1), 5)


def test_fold_from_survives_the_metadata_and_its_loss_is_noticed() -> None:
    assert parse_fold_from(fold_from_text(12_345)) == 12_345
    assert parse_fold_from("") is None
    assert parse_fold_from("fold-from=") is None
    assert parse_fold_from("fold-from=-1") is None
    assert parse_fold_from("anything") is None


def test_a_dag_run_of_which_a_node_has_ended_runs_whatever_its_record_says() -> None:
    """Its record may be older than that of the node, and the node's events are not read again."""
    fold: Fold[None] = Fold(generation=1)
    run_id = "acme:nightly@19700101T000001Z"
    fold.restore(run_id, RunState(RunStatus.PENDING, is_dag=True), 0, None, 5)
    fold.restore(f"{run_id}/a", RunState(RunStatus.SUCCEEDED), 1, None, 9)
    assert fold.open[run_id].state.status is RunStatus.RUNNING


def test_a_dag_run_that_runs_is_kept_before_the_node_that_made_it_run() -> None:
    """Kept alone, the node would tell that it runs; and once the node has ended, nobody would."""
    fold: Fold[object] = Fold()
    dag_run, node = run_id(0), f"{run_id(0)}/load"
    detail = Pending(1, T0, None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
    fold.apply(RunEvent(EventKind.PENDING, JOB, dag_run, T0, detail=detail), 0)
    fold.keep(dag_run)
    fold.apply(RunEvent(EventKind.PENDING, JOB, node, T0, detail=detail._replace(dag=None)), 1)
    assert fold.pinned_below(2, limit=1) == [dag_run]
    assert fold.pinned_below(2, limit=2) == [dag_run, node]


def test_where_a_successor_begins_is_told_as_quickly_after_a_backlog_as_before_it() -> None:
    """It is asked for in each round, of each partition, while tens of thousands of runs that waited end one by one."""
    fold: Fold[object] = Fold()
    run_ids = [run_id(number) for number in range(60_000)]
    made, cancelled = pending(0), RunEvent(EventKind.CANCEL_REQUESTED, JOB, "", T0)
    for offset, each in enumerate(run_ids):
        fold.apply(made._replace(run_id=each), offset)
    for offset, each in enumerate(run_ids[:-1]):
        fold.apply(cancelled._replace(run_id=each), len(run_ids) + offset)
    began_s = time.process_time()
    for _ in range(1_000):
        assert fold.fold_from() == len(run_ids) - 1
        assert fold.pinned_below(2 * len(run_ids), 500) == [run_ids[-1]]
    assert time.process_time() - began_s < 0.05
