"""Whatever comes in a backfill's way, each fire of its range runs once, in order, and no more at once than was said."""

from __future__ import annotations

from collections import Counter
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from waterclock.dispatcher import backfill_lanes, backfill_reading, window

from tests.unit.backfill_world import BackfillWorld, minute
from waterclock.model.events import EventKind
from waterclock.model.job import CommandKind

_FROM, _TO = -7, 3
_STEPS = st.sampled_from(["end", "end", "end", "crash", "pause", "resume", "wait", "cancel run", "again"])


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(_STEPS, max_size=25), concurrency=st.integers(1, 3), records=st.booleans(), looks=st.integers(1, 4)
)
def test_each_fire_runs_once_whatever_comes_in_its_way(
    steps: list[str],
    concurrency: int,
    records: bool,
    looks: int,
) -> None:
    with (
        mock.patch.object(window, "SLOTS_PER_SLICE", 256),
        mock.patch.object(backfill_lanes, "LOOKS_MAX", looks),
        mock.patch.object(backfill_reading, "_EVENTS", 3),
    ):
        world = BackfillWorld()
        world.define()
        world.wait(190, records=records)  # fires 1, 2 and 3 come; the last is not in the range
        backfills = [world.ask(_FROM, _TO, concurrency=concurrency)]
        for step in steps:
            _take(world, step, backfills, records=records)
            assert _open(world) <= concurrency * len(backfills)
        for backfill in backfills:
            world.turn(CommandKind.RESUME_BACKFILL, backfill)
        for _ in range(40):
            world.end_all()
            world.wait(5)
        wanted = [each for each in range(_FROM, _TO) if each < 1]
        assert Counter(world.minutes()) == Counter(wanted)
        for backfill in backfills:
            last = world.told(backfill)[-1]
            assert last.status == "DONE"
            assert last.made_count + last.left_count == last.fire_count == _TO - _FROM
            assert last.succeeded_count + last.cancelled_count == last.made_count
        by_backfill = [_minutes_of(world, backfill) for backfill in backfills]
        assert all(minutes == sorted(minutes) for minutes in by_backfill)


def _take(world: BackfillWorld, step: str, backfills: list[str], *, records: bool) -> None:
    newest = backfills[-1]
    match step:
        case "end":
            started = {event.run_id for event in world.events(EventKind.STARTED)}
            waiting = [run_id for run_id in world.made() if run_id not in started]
            if waiting:
                world.end(waiting[0])
            world.rest(records=records)
        case "crash":
            world.crash()
            world.wait(15, records=records)
        case "pause":
            world.turn(CommandKind.PAUSE_BACKFILL, newest)
        case "resume":
            world.turn(CommandKind.RESUME_BACKFILL, newest)
        case "again" if len(backfills) < 3:
            backfills.append(world.ask(_FROM, _TO, concurrency=1))
            world.rest(records=records)
        case "cancel run":
            started = {event.run_id for event in world.events(EventKind.STARTED)}
            waiting = [run_id for run_id in world.made() if run_id not in started]
            if waiting:
                world.say(waiting[-1], EventKind.CANCEL_REQUESTED)
                world.rest(records=records)
        case _:
            world.wait(5, records=records)


def _open(world: BackfillWorld) -> int:
    ended = {
        event.run_id
        for event in world.events()
        if event.kind in (EventKind.ATTEMPT_SUCCEEDED, EventKind.CANCEL_REQUESTED)
    }
    return sum(run_id not in ended for run_id in world.made())


def _minutes_of(world: BackfillWorld, backfill: str) -> list[int]:
    number = int(backfill.rpartition("~")[2])
    return [minute(event.run_id) for event in world.pendings() if getattr(event.detail, "backfill", 0) == number]
