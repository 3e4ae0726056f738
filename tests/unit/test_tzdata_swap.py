"""An upgrade of zone data: next fires move to their new times, and whoever has older data leaves.

Two versions for real: in one America/Havana keeps winter time in December 2026, as copies of machines have it; in the
package it does not.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import pytest
from waterclock.dispatcher import tzdata, window
from waterclock.dispatcher.envelope import seal, unseal
from waterclock.dispatcher.pace import Pace

from tests.compiled_schedules import forget_zones
from waterclock.model import zone_prints
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant, make_run_id
from waterclock.model.job import CommandKind, Cron, JobSpec, JobStatus, JobVersion
from waterclock.model.schedule import next_fire
from waterclock.model.time_text import parse_rfc3339
from waterclock.store.cells import Put
from waterclock.store.memory import MemoryStore
from waterclock.store.tables import UPKEEP
from waterclock.store.upkeep import DUE_SWEEP

from .dispatcher_world import World

NOON = JobSpec("demo.noop", Cron("0 12 * * *", "America/Havana"))
PACE = Pace(sweep_every_s=0.05, sweep_lap_s=0.5)
DECEMBER = parse_rfc3339("2026-12-10T15:30:00Z", "")
OLD_NOON = parse_rfc3339("2026-12-10T17:00:00Z", "")
NEW_NOON = parse_rfc3339("2026-12-10T16:00:00Z", "")
OLD = "2026a"


@contextmanager
def zone_data_of(folder: Path | None, version: str) -> Iterator[None]:
    """The process as it would be with other zone data: files in ``folder`` come before those of the package."""
    zoneinfo.reset_tzpath(to=[str(folder)] if folder else ())
    forget_zones()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(tzdata.ZoneData.__init__, "__defaults__", (version,))
        yield
    zoneinfo.reset_tzpath(to=())
    forget_zones()


@pytest.fixture
def old_tree(tmp_path: Path) -> Path:
    """Havana as it is where nobody has told that Cuba keeps summer time: five hours behind, all the winter."""
    (tmp_path / "America").mkdir()
    jamaica = resources.files("tzdata.zoneinfo.America").joinpath("Jamaica").read_bytes()
    (tmp_path / "America" / "Havana").write_bytes(jamaica)
    return tmp_path


@pytest.fixture(autouse=True)
def _whole_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)


def world_in_december(old_tree: Path) -> World:
    """A job at noon in Havana, as a dispatcher with old zone data has planned it."""
    with zone_data_of(old_tree, OLD):
        world = World(partitions=1, pace=PACE)
        world.clock.advance(DECEMBER - world.clock.now())
        world.crash()
        run(world, 6)
        world.command(CommandKind.CREATE, "acme:noon", NOON)
        run(world, 6)
        assert next_noon() == OLD_NOON
        world.cluster.kill(f"d1-{world.lives}")
    return world


def next_noon() -> Instant | None:
    return next_fire(NOON.schedule, 0, DECEMBER)


def run(world: World, seconds: float) -> None:
    world.run(seconds, 0.1)


def jump_to(world: World, at: Instant) -> None:
    world.clock.advance(at - world.clock.now())
    for _ in range(9_000):
        world.steps(1)
        world.clock.advance(1_000)
        shard = world.dispatcher._shards.get(0)
        if shard is not None and shard.horizon_at > world.clock.now() + 60 * US_PER_S:
            break
    run(world, 6)


def step_for_a_while(world: World) -> None:
    for _ in range(1_000):
        world.dispatcher.step()
        world.clock.advance(US_PER_S // 5)


def told(world: World) -> dict[str, object]:
    (line,) = MemoryStore(world.clock, world.tables, "onlooker").told_of_all(DUE_SWEEP)
    return dict(line.parts)


def test_the_two_versions_are_an_hour_apart_and_print_differently(old_tree: Path) -> None:
    with zone_data_of(old_tree, OLD):
        assert next_noon() == OLD_NOON
        old = zone_prints.zone_print("America/Havana", 2026), zone_prints.zone_print("Europe/Berlin", 2026)
    assert next_noon() == NEW_NOON
    assert zone_prints.zone_print("America/Havana", 2026) != old[0]
    assert zone_prints.zone_print("Europe/Berlin", 2026) == old[1]


def test_after_an_upgrade_a_fire_that_moved_earlier_comes_at_its_new_time_and_only_then(old_tree: Path) -> None:
    world = world_in_december(old_tree)
    world.dispatcher = world.start()
    run(world, 6)
    assert (told(world)["recomputed"], told(world)["repairs"]) == (1, 0)
    jump_to(world, NEW_NOON)
    assert world.runs() == [make_run_id("acme:noon", NEW_NOON)]
    jump_to(world, OLD_NOON)
    assert world.runs() == [make_run_id("acme:noon", NEW_NOON)]
    assert told(world)["repairs"] == 0


def test_a_row_of_other_transitions_is_looked_at_again_when_it_is_loaded(old_tree: Path) -> None:
    """The backstop, where no sweep came by: the old time is no fire any more, and the chain goes on."""
    world = world_in_december(old_tree)
    world.pace = Pace(sweep_every_s=1e6)
    world.dispatcher = world.start()
    jump_to(world, OLD_NOON)
    assert world.runs() == []
    jump_to(world, NEW_NOON + 24 * 3_600 * US_PER_S)
    assert world.runs() == [make_run_id("acme:noon", NEW_NOON + 24 * 3_600 * US_PER_S)]


def test_a_revision_after_the_upgrade_leaves_no_ghost_at_the_old_time(old_tree: Path) -> None:
    world = world_in_december(old_tree)
    world.pace = Pace(sweep_every_s=1e6)
    world.dispatcher = world.start()
    run(world, 3)
    world.command(CommandKind.PAUSE, "acme:noon")
    run(world, 3)
    world.command(CommandKind.RESUME, "acme:noon")
    run(world, 3)
    jump_to(world, NEW_NOON)
    jump_to(world, OLD_NOON)
    assert world.runs() == [make_run_id("acme:noon", NEW_NOON)]


def test_who_has_older_zone_data_neither_joins_nor_stays(old_tree: Path) -> None:
    world = world_in_december(old_tree)
    with zone_data_of(old_tree, OLD):
        world.dispatcher = world.start()
        run(world, 2)
    newer = world.start("d2")
    newer.close()
    with zone_data_of(old_tree, OLD):
        with pytest.raises(tzdata.OlderZoneData):
            step_for_a_while(world)
        with pytest.raises(RequestError, match="tzdata 2026a"):
            world.start("d3")


def test_an_envelope_of_an_earlier_release_is_believed() -> None:
    version = JobVersion("acme:noon", 1, NOON, JobStatus.ACTIVE, "me", DECEMBER)
    env = unseal(seal(version, NEW_NOON))
    assert not env.is_stale
    assert not env._replace(zone_print="").is_stale
    assert env._replace(zone_print="2026:00000000").is_stale


def test_an_announcement_that_cannot_be_read_stops_no_dispatcher() -> None:
    world = World()
    line = ("tzdata", "9999z", "no json", world.clock.now())
    world.tables.apply([Put(UPKEEP, line, world.clock.now())])
    world.crash()
    world.command(CommandKind.CREATE, "acme:noon", NOON)
    world.run(70, 0.5)
    assert world.dispatcher.ready
