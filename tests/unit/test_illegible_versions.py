"""A job that a later release has changed, in a way that this one cannot read, stands still; and it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from waterclock.dispatcher import window
from waterclock.dispatcher.legible import newest_below, versions_of_each
from waterclock.dispatcher.pace import Pace

from tests.unit.dispatcher_world import START, World, every
from tests.unit.test_fixed_delay import spec as delayed
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, JobVersion
from waterclock.store import rows

BAD = "t:bad"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A job beside the one that becomes illegible."""
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)
    world = World(partitions=1, pace=Pace(sweep_every_s=0.05, sweep_lap_s=0.5))
    world.command(CommandKind.CREATE, "t:tick", every(1))
    return world


def run_that_waits(world: World) -> None:
    """Its predecessor is asked to end."""
    spec = JobSpec("demo.noop", Every(3_600 * US_PER_S), concurrency=Concurrency(Overlap.BUFFER_ALL))
    world.command(CommandKind.CREATE, BAD, spec)
    world.run(1)
    for _ in range(2):
        world.command(CommandKind.TRIGGER, BAD)
    world.run(2)
    world.command(CommandKind.CANCEL, BAD, run_id=world.runs(BAD)[0])


def fixed_delay(world: World) -> None:
    world.command(CommandKind.CREATE, BAD, delayed(10))


def often(world: World) -> None:
    world.command(CommandKind.CREATE, BAD, every(5))


def seldom(world: World) -> None:
    world.command(CommandKind.CREATE, BAD, every(3_600))
    world.run(10)


def backfill(world: World) -> None:
    world.command(CommandKind.CREATE, BAD, every(3_600))
    world.run(1)
    world.command(CommandKind.BACKFILL, BAD, from_at=START - 36_000 * US_PER_S, to_at=START, concurrency=1)


def made_illegible(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rows.version_of

    def version_of(job_id: str, values: Any) -> JobVersion:
        if job_id == BAD:
            raise ValueError("'elsewhen' is not a valid Overlap")
        return right(job_id, values)

    monkeypatch.setattr(rows, "version_of", version_of)


@pytest.mark.parametrize("what", [run_that_waits, fixed_delay, often, seldom, backfill])
@pytest.mark.parametrize("is_taken_over", [True, False])
def test_a_job_that_cannot_be_read_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, what: Callable[[World], None], *, is_taken_over: bool
) -> None:
    what(world)
    world.run(3)
    made_illegible(monkeypatch)
    if is_taken_over:
        world.crash()
    before = len(world.runs("t:tick@"))
    world.run(20, step_s=0.1)
    assert len(world.runs("t:tick@")) - before >= 18


def test_its_commands_are_refused_and_do_not_begin_it_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seldom(world)
    made_illegible(monkeypatch)
    for kind in (CommandKind.CREATE, CommandKind.PAUSE, CommandKind.TRIGGER, CommandKind.DELETE):
        world.command(kind, BAD, every(60) if kind is CommandKind.CREATE else None, answer=b"a" * 16)
    world.command(CommandKind.TRIGGER, "t:tick")
    world.run(3)
    answered = [event.detail for event in world.events(EventKind.ANSWERED)]
    assert len(answered) == 4
    assert all("Upgrade the dispatchers" in str(answer) for answer in answered)
    assert [run_id for run_id in world.runs("t:tick@") if "~" in run_id]
    assert len([event for event in world.events(EventKind.REVISED) if event.job_id == BAD]) == 1


def test_what_waited_of_it_goes_on_under_an_owner_who_can_read_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_that_waits(world)
    backfill(world)
    world.run(1)
    with monkeypatch.context() as later:
        made_illegible(later)
        world.crash()
        world.run(10, step_s=0.1)
        held = world.runs(BAD)
    world.crash()
    world.command(CommandKind.CANCEL, BAD, run_id=held[0])
    world.run(10, step_s=0.1)
    assert not [event for event in world.events(EventKind.SKIPPED) if event.job_id == BAD], "it was given up"


class Index:
    """Of jobs, some of which nobody can read."""

    def __init__(self, bad: set[str]) -> None:
        self.bad = bad
        self.asked = 0

    def versions_below(self, wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        self.asked += 1
        if self.bad & {job_id for job_id, _ in wanted}:
            raise KeyError("elsewhen")
        return [None if job_id == "gone" else JobVersion(job_id, 1, None, None, "", 0, 0) for job_id, _ in wanted]  # type: ignore[arg-type]

    def versions(self, job_ids: Sequence[str], _back_to: int | None = None) -> dict[str, list[JobVersion]]:
        found = self.versions_below([(job_id, 2) for job_id in job_ids])
        return {version.job_id: [version] for version in found if version}


def test_what_is_in_the_way_of_many_is_found_in_few_questions() -> None:
    index = Index({"job7", "job60"})
    jobs = [f"job{number}" for number in range(100)] + ["gone"]
    found, illegible = newest_below(index, [(job_id, 2) for job_id in jobs])  # type: ignore[arg-type]
    assert illegible == {"job7", "job60"}
    assert [job_id for job_id, version in zip(jobs, found, strict=True) if version is None] == ["job7", "job60", "gone"]
    assert index.asked < 30
    each = versions_of_each(index, jobs)  # type: ignore[arg-type]
    assert [job_id for job_id, versions in each.items() if not versions] == ["job7", "job60"]
    assert "gone" not in each


def test_one_question_is_enough_where_all_can_be_read() -> None:
    index = Index(set())
    assert newest_below(index, [("a", 2), ("b", 2)])[1] == set()  # type: ignore[arg-type]
    assert (index.asked, newest_below(index, [])) == (1, ([], set()))  # type: ignore[arg-type]
