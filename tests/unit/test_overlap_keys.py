"""Concurrency keys that an edit brings or changes while runs wait and are open."""

from __future__ import annotations

from unittest import mock

import pytest
from waterclock.dispatcher import window
from waterclock.dispatcher.flow import Flow

from tests.unit.dispatcher_world import START, World
from tests.unit.test_overlap import JOB, define, define_job, end, fire, rest, run, start, told
from waterclock.model.concurrency import Concurrency, Overlap, concurrency_to_json
from waterclock.model.events import EventKind, Origin
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.ids import make_run_id
from waterclock.model.job import CommandKind, Tier
from waterclock.wire import codec
from waterclock.wire.messages import FLOW_PREFIX


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


@pytest.mark.parametrize("crashes", ["never", "before the edit", "after the edit"])
def test_a_key_that_an_edit_brings_counts_at_once_for_what_waits(world: World, crashes: str) -> None:
    define(world, Overlap.BUFFER_ALL)
    fire(world, 2)
    world.command(CommandKind.TRIGGER, JOB, payload=b'{"k":"a"}')
    fire(world)
    if crashes == "before the edit":
        world.crash()
    define_job(world, JOB, Concurrency(Overlap.BUFFER_ALL, key="/k"), CommandKind.UPDATE)
    if crashes == "after the edit":
        world.crash()
        rest(world)
    # The open one went out by no key: it is of no group. One each of the others goes, not all that wait.
    assert told(world)[4:] == ["PENDING 2", "PENDING 2~"]
    end(world, run(world, 2))
    assert told(world)[6:] == ["PENDING 3"]


def test_another_key_parts_those_that_wait_anew_and_open_ones_keep_theirs(world: World) -> None:
    define(world, key="/k")
    world.command(CommandKind.TRIGGER, JOB, payload=b'{"k":"a","of":1}')
    for _ in range(2):
        world.command(CommandKind.TRIGGER, JOB, payload=b'{"k":"a","of":2}')
    rest(world)
    work = world.records("waterclock.runs.medium")[0].value  # type: ignore[attr-defined]
    world.command(CommandKind.REDRIVE, JOB, run_id=world.runs()[0], work=work)
    rest(world)
    assert [line.split()[0] for line in told(world)] == ["PENDING", "HELD", "HELD", "HELD"]
    define_job(world, JOB, Concurrency(key="/of"), CommandKind.UPDATE)
    going = [event.run_id for event in world.events(EventKind.PENDING)]
    held = [event.run_id for event in world.events(EventKind.HELD)]
    assert going[1:] == [held[0], held[2]]  # one of group 2, and the redrive, of group 1


def test_a_paused_job_parts_those_that_wait_by_its_new_key_too(world: World) -> None:
    define(world, Overlap.CANCEL_OTHER)
    fire(world)
    start(world, run(world, 1))
    fire(world)
    world.command(CommandKind.PAUSE, JOB)
    rest(world)
    world.crash()
    define_job(world, JOB, Concurrency(Overlap.CANCEL_OTHER, max_concurrent=1, key="/k"), CommandKind.UPDATE)
    world.command(CommandKind.TRIGGER, JOB)
    rest(world)
    assert told(world)[-2:] == ["SKIPPED 2 overlap", "HELD 2~ overlap"]  # the newest of its group wins


def test_a_held_redrive_whose_work_cannot_be_read_is_named_and_stops_no_take_over() -> None:
    job = JobFlow(JOB, concurrency_to_json(Concurrency(key="/k")))
    run_id = make_run_id(JOB, START, 5)
    held = RunFlow(run_id, "concurrency", START, 1, Tier.HIGH, Origin.REDRIVE, work=b"of a later release")
    records = [(FLOW_PREFIX + JOB, codec.encode_flow_job(job)), (FLOW_PREFIX + run_id, codec.encode_flow_run(held))]
    assert Flow().restore(records, 0, 0) == [FLOW_PREFIX + run_id]
