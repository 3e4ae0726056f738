"""The judge of runs beside one another: it has nothing against a sound dispatcher, and names what a broken one does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias
from unittest import mock

import pytest
from waterclock.dispatcher import admission, admitting, window
from waterclock.dispatcher.shard import Shard

from tests.oracle import beside
from tests.simulation.planted_beside import PLANTED_BESIDE
from tests.unit.dispatcher_world import NAMES, START, World, raw
from tests.unit.test_overlap import EVERY_US, JOB, define, define_job, fire, rest, run, say, start
from tests.unit.test_overlap_limits import trigger
from tests.unit.test_overlap_pauses import RESUME_AT, go_on_to, paused_with_one_that_waits
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.dag import DagSpec, Node
from waterclock.model.events import EventKind, Origin, Pending
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier

Bug: TypeAlias = AbstractContextManager[Any]

A, B = b'{"k":"a"}', b'{"k":"b"}'


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def judged(world: World) -> list[str]:
    """What it says of all that stands there, but that the runs are not at rest."""
    records = [[raw(record) for record in world.records(topic)] for topic in (NAMES.commands, NAMES.run_events)]
    return [each for each in beside.check(*records)[0] if "held at rest" not in each]


def stops(world: World) -> None:
    define(world, Overlap.CANCEL_OTHER, max_concurrent=3)
    fire(world, 3)
    for number in (1, 2, 3):
        start(world, run(world, number))
    fire(world, 2)


def stops_what_has_not_begun(world: World) -> None:
    define(world, Overlap.TERMINATE_OTHER, max_concurrent=2)
    fire(world, 5)


def stops_one_of_a_key(world: World) -> None:
    define(world, Overlap.CANCEL_OTHER, key="/k", max_per_key=2)
    trigger(world, A)
    fire(world, 2)
    for number in (1, 2):
        start(world, run(world, number))
    fire(world)


def stops_as_many_as_an_edit_has_made_too_many(world: World) -> None:
    define(world, Overlap.CANCEL_OTHER, max_concurrent=3)
    fire(world, 3)
    for number in (1, 2, 3):
        start(world, run(world, number))
    define_job(world, JOB, Concurrency(Overlap.CANCEL_OTHER), CommandKind.UPDATE)
    fire(world)
    asked = [event.run_id for event in world.events(EventKind.CANCEL_REQUESTED)]
    assert asked == [run(world, number) for number in (1, 2, 3)]


def waits(world: World) -> None:
    define(world, Overlap.BUFFER_ALL, key="/k", max_held=2)
    assert len(trigger(world, A, B, A, B, A, B)) == 6


def waits_alone(world: World) -> None:
    define(world, Overlap.BUFFER_ONE)
    fire(world, 4)


def skips(world: World) -> None:
    define(world, Overlap.SKIP)
    fire(world, 2)


def finds_room(world: World) -> None:
    define(world, key="/k", max_per_key=2)
    assert len(trigger(world, A, A, B, A)) == 4


def stops_a_dag_run_over_its_time(world: World) -> None:
    """What is asked of it counts for nothing: it is to end anyway, and stays open until its node has ended."""
    dag = DagSpec((Node("a", "h"),), timeout_us=10 * US_PER_S)
    limits = Concurrency(Overlap.CANCEL_OTHER)
    spec = JobSpec("", Every(EVERY_US, START), payload=b"{}", concurrency=limits, dag=dag)
    world.command(CommandKind.CREATE, JOB, spec)
    rest(world)
    fire(world)
    node = f"{run(world, 1)}/a"
    say(world, node, EventKind.PENDING, detail=Pending(1, START, START, Tier.HIGH, Origin.RELEASE))
    start(world, node)
    say(world, run(world, 1), EventKind.RUN_EXPIRED, reason="expired")
    rest(world)
    fire(world)
    assert [event.run_id for event in world.events(EventKind.CANCEL_REQUESTED)] == [run(world, 1)]


def resumes(world: World) -> None:
    """A run waits, the resume stands before the end of the pause, and somebody triggers the job between the two."""
    paused_with_one_that_waits(world)
    trigger(world, A)
    go_on_to(world, RESUME_AT)


SOUND = [stops, stops_what_has_not_begun, stops_one_of_a_key, stops_as_many_as_an_edit_has_made_too_many,
         stops_a_dag_run_over_its_time, waits, waits_alone, skips, finds_room, resumes]  # fmt: skip


@pytest.mark.parametrize("history", SOUND)
def test_a_sound_history_passes(world: World, history: Callable[[World], None]) -> None:
    history(world)
    assert judged(world) == []


def asks_nobody() -> Bug:
    return mock.patch.object(admission, "_stopped", return_value=())


def says_another_policy() -> Bug:
    right = admitting.ask_to_end
    return mock.patch.object(
        admitting, "ask_to_end", lambda out, run, _, now: right(out, run, Overlap.TERMINATE_OTHER, now)
    )


def drops_nobody() -> Bug:
    return mock.patch.object(admitting, "drop_held")


def goes_with_the_resume() -> Bug:
    return mock.patch.object(Shard, "keeps_waiting", lambda self, job_id, _: self.is_paused(job_id))


def comes_to(fate: admission.Fate) -> Bug:
    """Whatever finds no room, whoever waits."""
    right = admission.admit

    def admit(*given: Any, **more: Any) -> admission.Admission:
        found = right(*given, **more)
        return found if found.fate is admission.Fate.RUN else admission.Admission(fate, "overlap")

    return mock.patch.object(admitting, "admit", admit)


BROKEN = [
    (stops, PLANTED_BESIDE["a fire stops all that are open"], "3 runs were asked to end, 1 have to"),
    (stops_one_of_a_key, PLANTED_BESIDE["a fire stops all that are open"], "2 runs were asked to end, 1 have to"),
    (stops_what_has_not_begun, PLANTED_BESIDE["a fire stops all that are open"], "2 runs were asked to end"),
    (stops, PLANTED_BESIDE["a fire stops the newest"], "was asked to end for it, and "),
    (stops, asks_nobody, "0 of 3 open runs are asked to end, 1 have to"),
    (stops_one_of_a_key, asks_nobody, "0 of 2 open runs are asked to end, 1 have to"),
    (stops, says_another_policy, "was asked to end by terminate_other, its job says cancel_other"),
    (stops, drops_nobody, "and its job says cancel_other"),
    (waits, PLANTED_BESIDE["max_held counts the runs of one key"], "3 runs of the job wait, 2 may"),
    (waits, PLANTED_BESIDE["one less may wait"], "dropped because of max_held, and 1 wait"),
    (skips, lambda: comes_to(admission.Fate.HOLD), "held, and its job says skip"),
    (waits_alone, lambda: comes_to(admission.Fate.HOLD), "and its job says buffer_one"),
    (waits_alone, lambda: comes_to(admission.Fate.DROP), "dropped, and nobody waits, its job says buffer_one"),
    (resumes, goes_with_the_resume, "released while its job is paused"),
    (finds_room, PLANTED_BESIDE["one run of a key, whatever its limit"], "quiet no more than 1 have been open"),
]


@pytest.mark.parametrize(("history", "bug", "complaint"), BROKEN)
def test_a_broken_history_is_named(
    world: World, history: Callable[[World], None], bug: Callable[[], Bug], complaint: str
) -> None:
    with bug():
        history(world)
    assert [each for each in judged(world) if complaint in each]
