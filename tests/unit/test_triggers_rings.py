"""Jobs that start each other in several rings: the chains of one beginning are some hundreds of runs, and then rest."""

from __future__ import annotations

import pytest
from waterclock.retry_router.triggering import LISTENERS_MAX, RunEnd, met_by, started_by, waits_for

from tests.unit.router_world import NAMES, World
from tests.unit.test_triggers_judge import NEVER, History
from tests.unit.test_triggers_router import commands, listens, succeeded
from waterclock.listeners import Listeners
from waterclock.log.port import TopicPartition
from waterclock.model.events import RunStatus
from waterclock.model.ids import make_run_id
from waterclock.model.job import CommandKind, JobSpec
from waterclock.model.triggers import HOPS_MAX, RunEnds, Triggers


def _followed(world: World) -> Listeners:
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock)
    listeners.ask()
    while not listeners.caught_up:
        listeners.look()
    return listeners


def _levels(world: World, beginning: str) -> list[int]:
    """How many runs one trigger makes, by how far they stand behind it."""
    listeners, now = _followed(world), world.clock.now()
    level, counts = [(beginning, 0)], list[int]()
    while level:
        counts.append(len(level))
        assert sum(counts) < 10_000
        following = list[tuple[str, int]]()
        for job_id, hops in level:
            end = RunEnd(make_run_id(job_id, now), job_id, RunStatus.SUCCEEDED, now, hops, TopicPartition("e", 0), 1)
            met, ring = met_by(end, listeners.of(job_id)), listeners.leading_back(job_id)
            started = started_by(end, met[:LISTENERS_MAX], ring, now)
            following += [(each.job_id, each.hops) for each in started if each.hops <= HOPS_MAX]
        level = following
    return counts


@pytest.mark.parametrize(("count", "most"), [(2, 17), (3, 511), (4, 364), (5, 341), (9, 73), (17, 17)])
def test_jobs_that_all_wait_for_each_other_make_so_many_runs_of_one_trigger(count: int, most: int) -> None:
    world = World()
    names = [f"ring-{number}" for number in range(count)]
    for name in names:
        listens(world, *(RunEnds(other) for other in names if other != name), job_id=f"acme:{name}")
    assert sum(_levels(world, "acme:ring-0")) == most


def test_a_start_in_a_ring_of_which_there_are_too_many_still_makes_its_first_runs() -> None:
    world = World()
    listens(world, RunEnds("leaf-0"), RunEnds("leaf-1"), job_id="acme:hub")
    for number in range(40):
        listens(world, RunEnds("hub"), job_id=f"acme:leaf-{number}")
    assert _levels(world, "acme:hub")[:2] == [1, 40]


def test_what_leads_back_to_nobody_counts_one_however_many_an_end_starts() -> None:
    world = World()
    listens(world, RunEnds("before"), job_id="acme:nightly")
    for step in range(HOPS_MAX):
        source = f"step-{step - 1}" if step else "nightly"
        for job_id in (f"acme:step-{step}", f"acme:notify-{step}", f"acme:clean-up-{step}"):
            listens(world, RunEnds(source), job_id=job_id)
    assert _levels(world, "acme:nightly") == [1] + [3] * HOPS_MAX


def test_a_long_ring_beside_others_who_wait_goes_on_as_a_ring_does() -> None:
    world = World()
    listens(world, RunEnds("report"), job_id="acme:load")
    listens(world, RunEnds("load"), job_id="acme:report")
    listens(world, RunEnds("load"), job_id="acme:notify")
    assert sum(_levels(world, "acme:load")) == 17 + 8


def test_a_ring_is_forgotten_with_the_condition_that_closes_it() -> None:
    world = World()
    for name in ("b", "c"):
        listens(world, RunEnds("a"), job_id=f"acme:{name}")
        listens(world, RunEnds("b"), RunEnds("c"), job_id="acme:a")
    listeners = _followed(world)
    assert listeners.leading_back("acme:a") == {"acme:b", "acme:c"}
    listens(world, RunEnds("b"), job_id="acme:a")
    listeners.ask()
    listeners.look()
    assert listeners.leading_back("acme:a") == {"acme:b"}


def test_the_router_says_so_in_its_commands() -> None:
    world = World()
    router = world.router()
    world.turn(router)
    router.close()
    listens(world, RunEnds("report"), RunEnds("clean-up"), job_id="acme:nightly")
    for name in ("report", "clean-up", "notify"):
        listens(world, RunEnds("nightly"), job_id=f"acme:{name}")
    succeeded(world, "acme:nightly")
    world.turn(world.router())
    assert {each.job_id: each.hops for each in commands(world)} == {
        "acme:report": 2,
        "acme:clean-up": 2,
        "acme:notify": 1,
    }


@pytest.mark.parametrize(("hops", "is_right"), [(2, True), (1, False), (3, False)])
def test_a_start_in_a_ring_that_counts_wrongly_is_seen(hops: int, is_right: bool) -> None:
    history = History()
    spec = JobSpec("demo.noop", NEVER, on=Triggers((RunEnds("report"), RunEnds("other"))))
    history.command(CommandKind.CREATE, "acme:load", spec)
    history.waits("acme:other")
    source = history.ended("acme:load")
    for job_id in ("acme:report", "acme:other"):
        history.told(source, job_id, hops=hops)
    wrong = [each for each in history.judged() if "of its ring" in each]
    assert bool(wrong) is not is_right
