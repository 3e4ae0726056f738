"""Runs that wait for others, as those see them who follow the log: history, the retry router, workers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from waterclock.retry_router.expiry import over_at_of
from waterclock.retry_router.trail import Trail, follow
from waterclock.workers.control import ControlTail
from worker_world import World

from waterclock.api.views import run_view
from waterclock.log.following import Beginning
from waterclock.log.port import Record, TopicPartition
from waterclock.model.events import (
    Control,
    ControlKind,
    EventKind,
    Origin,
    Pending,
    RunEvent,
    RunStatus,
    Skipped,
    Started,
)
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.model.reduce import RunState
from waterclock.recorder.batch import Batch
from waterclock.recorder.open_runs import kept_runs
from waterclock.recorder.shard import Shard
from waterclock.store.port import RunRow
from waterclock.wire.codec import encode_event
from waterclock.wire.messages import control_message
from waterclock.wire.names import Names

FIRE = 1_795_000_020 * US_PER_S
RUN = make_run_id("t:job", FIRE)
HELD_AT, RELEASED_AT = FIRE + US_PER_S, FIRE + 3_600 * US_PER_S


def pending(**more: object) -> Pending:
    return Pending(7, FIRE, None, Tier.HIGH, Origin.SCHEDULE, **more)  # type: ignore[arg-type]


def told(*events: tuple[EventKind, int, dict[str, object]]) -> list[RunRow]:
    """The rows that history shows, batch by batch."""
    place = TopicPartition("e", 0)
    shard = Shard(place, Beginning(0, 0, is_first=True), Fold(), kept_runs(Names(), "recorder", 0))
    rows: list[RunRow] = []
    for offset, (kind, at, parts) in enumerate(events):
        event = RunEvent(kind, "t:job", RUN, at, **parts)  # type: ignore[arg-type]
        batch = Batch(0.0)
        batch.take(shard, event, Record("e", 0, offset, at, b"t:job", encode_event(event)))
        rows += batch.history().runs
    return rows


def test_history_shows_why_a_run_waits_until_it_is_released() -> None:
    held, released, running = told(
        (EventKind.HELD, HELD_AT, {"reason": "overlap", "detail": pending()}),
        (EventKind.PENDING, RELEASED_AT, {"detail": pending()}),
        (EventKind.STARTED, RELEASED_AT, {"attempt": 1, "worker": "w", "detail": Started("x", 0, 0)}),
    )
    assert (held.status, held.reason, run_view(held)["held"]) == (RunStatus.PENDING, "overlap", "overlap")
    assert (released.status, released.reason, run_view(released)["held"]) == (RunStatus.PENDING, "", None)
    assert held.wts < released.wts < running.wts
    assert held.dispatched_at == released.dispatched_at == running.dispatched_at


def test_a_run_that_is_dropped_while_it_waits_has_one_row() -> None:
    skipped = Skipped(7, FIRE, FIRE, 1, Tier.HIGH, 0)
    held, dropped = told(
        (EventKind.HELD, HELD_AT, {"reason": "overlap", "detail": pending()}),
        (EventKind.SKIPPED, RELEASED_AT, {"reason": "withdrawn", "detail": skipped}),
    )
    assert (dropped.status, dropped.reason) == (RunStatus.SKIPPED, "withdrawn")
    assert (held.job_id, held.fire_at, held.series) == (dropped.job_id, dropped.fire_at, dropped.series)
    assert held.wts < dropped.wts


def test_history_names_the_cap_that_was_full() -> None:
    skipped = Skipped(7, FIRE, FIRE, 1, Tier.HIGH, 0, cap="max_held")
    (dropped,) = told((EventKind.SKIPPED, HELD_AT, {"reason": "overlap", "detail": skipped}))
    assert dropped.reason == "overlap: max_held"


def test_the_times_of_a_run_that_waited_count_from_its_release() -> None:
    """Given a run that was held for an hour, neither its queue nor its run time-out is over when it goes out."""
    limits = pending(queue_timeout_us=60 * US_PER_S, run_timeout_us=90 * US_PER_S)
    event = RunEvent(EventKind.PENDING, "t:job", RUN, RELEASED_AT, detail=limits)
    note = follow(None, event, was_held=True)
    assert isinstance(note, Trail)
    assert over_at_of(RunState(RunStatus.PENDING), note) == RELEASED_AT + 60 * US_PER_S
    assert over_at_of(RunState(RunStatus.RUNNING, 1), note) == RELEASED_AT + 90 * US_PER_S
    at_once = follow(None, event._replace(at=HELD_AT))
    assert isinstance(at_once, Trail)
    assert over_at_of(RunState(RunStatus.RUNNING, 1), at_once) == HELD_AT + 90 * US_PER_S


@pytest.mark.parametrize("hard", [False, True])
def test_an_attempt_that_is_terminated_is_forced_at_once_and_one_that_is_cancelled_is_not(*, hard: bool) -> None:
    world = World()
    worker, executors = world.worker()
    (run_id,) = world.fire(1)
    world.settle(worker)
    (attempt,) = executors.running
    world.put(control_message(world.names, Control(ControlKind.CANCEL_REQUESTED, "acme:job", run_id, 0, hard)))
    world.cancel(run_id)
    world.settle(worker)
    assert executors.asked == [attempt]
    assert executors.forced == ([attempt] if hard else [])


def test_a_worker_remembers_no_more_terminations_than_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.workers.control.KNOWN_MAX", 2)
    world = World()
    tail = ControlTail(world.outside, world.names.control)
    for number in range(5):
        run_id = make_run_id("acme:job", FIRE + number * US_PER_S)
        world.put(control_message(world.names, Control(ControlKind.CANCEL_REQUESTED, "acme:job", run_id, 0, True)))
    tail.look()
    assert len(tail._hard) == 2
