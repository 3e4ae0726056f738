"""Limits above one: how many go out, how many are stopped for one fire, and how many may wait."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
from waterclock.dispatcher import inbox, releasing, window

from tests.unit.dispatcher_world import START, World
from tests.unit.test_overlap import EVERY_US, JOB, define, define_job, end, fire, rest, run, start, told
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import EventKind, Skipped
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier
from waterclock.model.timing import Timing

STOP = [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER]


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def trigger(world: World, *payloads: bytes) -> list[str]:
    """What becomes of triggers with these payloads."""
    before = len(told(world))
    for payload in payloads:
        world.command(CommandKind.TRIGGER, JOB, payload=payload)
    rest(world)
    return [line.split()[0] for line in told(world)[before:]]


@pytest.mark.parametrize("overlap", STOP)
def test_one_fire_stops_the_oldest_run_and_no_other(world: World, overlap: Overlap) -> None:
    """docs/overlap.md: the oldest open run is asked to stop."""
    define(world, overlap, max_concurrent=3)
    fire(world, 3)
    for number in (1, 2, 3):
        start(world, run(world, number))
    fire(world)
    assert told(world)[3:] == [f"CANCEL_REQUESTED 1 {overlap}", "HELD 4 overlap"]
    fire(world)  # the newest wins, and one is on its way to its end
    assert told(world)[5:] == ["SKIPPED 4 overlap", "HELD 5 overlap"]


@pytest.mark.parametrize("overlap", STOP)
def test_the_oldest_of_its_key_is_stopped_and_those_of_others_go_on(world: World, overlap: Overlap) -> None:
    define(world, overlap, key="/k", max_per_key=2)
    assert trigger(world, b'{"k":"a"}') == ["PENDING"]
    fire(world, 2)
    for number in (1, 2):
        start(world, run(world, number))
    fire(world)
    assert told(world)[3:] == [f"CANCEL_REQUESTED 1 {overlap}", "HELD 3 overlap"]


@pytest.mark.parametrize("overlap", [Overlap.ALLOW, Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.BUFFER_ALL, *STOP])
def test_as_many_runs_of_a_key_go_out_as_its_limit_says(world: World, overlap: Overlap) -> None:
    """docs/overlap.md: how many of one group may be open; there is room where fewer are."""
    define(world, overlap, key="/k", max_per_key=2)
    a, b = b'{"k":"a"}', b'{"k":"b"}'
    assert trigger(world, a, a, b, b) == ["PENDING"] * 4
    assert trigger(world, a)[0] != "PENDING"


def test_max_held_is_of_the_job_whatever_the_keys_of_those_that_wait(world: World) -> None:
    """docs/overlap.md: how many runs of the job may wait."""
    define(world, Overlap.BUFFER_ALL, key="/k", max_held=2)
    a, b = b'{"k":"a"}', b'{"k":"b"}'
    assert trigger(world, a, b, a, b) == ["PENDING", "PENDING", "HELD", "HELD"]
    assert trigger(world, b, a) == ["SKIPPED", "SKIPPED"]


def test_whoever_leaves_the_queue_makes_a_place_in_it(world: World) -> None:
    define(world, Overlap.BUFFER_ALL, max_held=2)
    fire(world, 4)
    end(world, run(world, 1))
    fire(world, 2)
    waited = ["PENDING 1", "HELD 2 overlap", "HELD 3 overlap", "SKIPPED 4 overlap"]
    assert told(world) == [*waited, "PENDING 2", "HELD 5 overlap", "SKIPPED 6 overlap"]


@pytest.mark.parametrize("newest", [Concurrency(Overlap.BUFFER_ALL, max_concurrent=5), Concurrency()])
def test_a_fire_of_the_revision_before_waits_no_longer_than_the_newest_one_says(
    world: World, newest: Concurrency
) -> None:
    """docs/overlap.md: an edit counts at once for those that wait, and nobody waits behind one that may go."""
    _save(world, CommandKind.CREATE, Concurrency(Overlap.BUFFER_ALL))
    fire(world, 2)
    assert told(world) == ["PENDING 1"]  # its jitter holds the second one back
    _save(world, CommandKind.UPDATE, newest)
    for _ in range(20):
        world.clock.advance(US_PER_S)
        rest(world)
    assert told(world) == ["PENDING 1", "HELD 2 overlap", "PENDING 2", "PENDING 3"]


def _save(world: World, kind: CommandKind, concurrency: Concurrency) -> None:
    timing = Timing(jitter_us=4 * US_PER_S)
    world.command(kind, JOB, JobSpec("demo.noop", Every(EVERY_US, START), concurrency=concurrency, timing=timing))
    rest(world)


def test_no_tenant_takes_the_last_room_of_a_shard_from_the_others(world: World) -> None:
    """Its runs wait for a pool that nobody serves, perhaps: jobs of other tenants are not skipped for that."""
    every = Every(EVERY_US, START)
    names = ["u:one", *(f"t:crowd{number}" for number in range(12)), "u:two"]
    with mock.patch("waterclock.dispatcher.admitting.RUNS_MAX", 10):
        for name in names:
            limited = JobSpec("demo.noop", every, concurrency=Concurrency(Overlap.SKIP), tier=Tier.HIGH)
            world.command(CommandKind.CREATE, name, limited)
        for name in names:
            world.command(CommandKind.TRIGGER, name)
        rest(world)
        kinds = {name: [event.kind for event in world.events() if event.job_id == name][-1] for name in names}
        assert (kinds["u:one"], kinds["u:two"]) == (EventKind.PENDING, EventKind.PENDING)
        assert sum(kinds[f"t:crowd{number}"] is EventKind.PENDING for number in range(12)) == 8
        world.crash()
        rest(world)
        world.command(CommandKind.TRIGGER, "t:crowd11")
        rest(world)
    caps = [event.detail.cap for event in world.events(EventKind.SKIPPED) if isinstance(event.detail, Skipped)]
    assert caps == ["held_per_shard"] * 5


def test_the_last_room_of_a_shard_is_kept_also_where_nobody_else_has_anything_there_yet(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    later = JobSpec("demo.noop", Every(EVERY_US, START + 3_600 * US_PER_S), concurrency=Concurrency(Overlap.SKIP))
    world.command(CommandKind.CREATE, "u:other", later)
    with mock.patch("waterclock.dispatcher.admitting.RUNS_MAX", 10):
        assert trigger(world, *[b"1"] * 12) == ["PENDING", *["HELD"] * 8, *["SKIPPED"] * 3]
        world.command(CommandKind.TRIGGER, "u:other")
        rest(world)
    assert [line.split()[0] for line in told(world, "u:other")] == ["PENDING"]


def test_jobs_with_full_buffers_that_are_deleted_together_give_them_up_over_many_rounds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "WITHDRAWN_MAX", 10)
    names = [f"t:crowd{number}" for number in range(6)]
    for name in names:
        define_job(world, name, Concurrency(Overlap.BUFFER_ALL))
    fire(world, 5)
    assert len(world.events(EventKind.HELD)) == 4 * len(names)
    for name in names:
        world.command(CommandKind.DELETE, name)
    given_up = []
    for _ in range(10):
        before = len(world.events(EventKind.SKIPPED))
        world.dispatcher.step()
        given_up.append(len(world.events(EventKind.SKIPPED)) - before)

    assert [count for count in given_up if count] == [8, 8, 8]


@pytest.mark.parametrize("is_trigger", [False, True])
def test_large_runs_that_find_room_together_go_out_over_many_rounds(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_trigger: bool
) -> None:
    large = b'"' + b"x" * 60_000 + b'"'
    payload = b"1" if is_trigger else large
    spec = JobSpec("demo.noop", Every(EVERY_US, START), payload=payload, concurrency=Concurrency(Overlap.BUFFER_ALL))
    world.command(CommandKind.CREATE, JOB, spec)
    rest(world)
    fire(world)
    for _ in range(9):
        world.command(CommandKind.TRIGGER, JOB, payload=large if is_trigger else None)
    rest(world)
    monkeypatch.setattr(releasing, "RELEASES_MAX", 40)
    world.command(CommandKind.UPDATE, JOB, replace(spec, concurrency=Concurrency()))
    released = []
    for _ in range(10):
        before = len(world.runs())
        world.dispatcher.step()
        released.append(len(world.runs()) - before)

    assert sum(released) == 9
    assert max(released) <= 4
