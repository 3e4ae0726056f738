"""A round of fires is bounded in bytes, too: large payloads of one instant go out in several, and all of them do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from waterclock.dispatcher import herds, ready
from waterclock.dispatcher.pace import Pace
from waterclock.dispatcher.timeline import Chain

from tests.unit.dispatcher_world import NAMES, START, World
from waterclock.model.dag import DagSpec, Node
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import CommandKind, Every, JobSpec, JobStatus, JobVersion, Once, Tier
from waterclock.store.port import DueRow

COUNT = 200
DUE_AT = START + 30 * US_PER_S
ROUND_BYTES = 4_200_000


def _world(size: int, pace: Pace | None = None) -> World:
    """The jobs are made, and nothing of them is due yet."""
    world = World(partitions=1, pace=pace)
    world.run(1)
    for number in range(COUNT):
        world.command(CommandKind.CREATE, f"t:large-{number}", JobSpec("demo.noop", Once(DUE_AT), payload=b"x" * size))
    world.run(20, step_s=0.1)
    assert not world.runs()
    return world


def _bytes(world: World) -> int:
    return sum(len(record.value) for tier in Tier for record in world.records(NAMES.runs(tier)))  # type: ignore[attr-defined]


def _largest_round(world: World, for_s: float) -> int:
    largest = before = 0
    for _ in range(round(for_s / 0.1)):
        world.steps(1)
        world.clock.advance(US_PER_S // 10)
        size = _bytes(world)
        largest, before = max(largest, size - before), size
    return largest


def _ids() -> list[str]:
    return sorted(make_run_id(f"t:large-{number}", DUE_AT) for number in range(COUNT))


@pytest.mark.parametrize("away_s", [0, 300, 7_200])
def test_large_payloads_of_one_instant_go_out_in_several_rounds(away_s: int) -> None:
    """On time, as misfires of a short absence, and by the lane of a gap."""
    world = _world(65_000)
    if away_s:
        world.crash()
        world.clock.advance(away_s * US_PER_S)
    assert _largest_round(world, 25) <= ROUND_BYTES
    assert sorted(world.runs()) == sorted(world.work()) == _ids()


def test_a_payload_that_is_larger_than_a_round_goes_out_alone() -> None:
    world = _world(65_000, Pace(round_records=1))
    assert _largest_round(world, 40) <= 66_000
    assert sorted(world.runs()) == _ids()


def test_a_herd_with_payloads_that_was_sent_early_is_decided_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(herds, "_BESIDE_MAX", 0)
    world = _world(20_000, Pace(herd_fires=100, herd_lead_s=0.5, round_records=20))
    world.run(15)
    assert world.dispatcher._rounds.early_count == 1
    assert sorted(world.runs()) == sorted(world.work()) == _ids()


def test_a_herd_that_is_too_large_by_its_payloads_is_not_sent_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(herds, "_RECORDS_PER_S", 20_000.0)
    for size, sent_count in ((100, 1), (65_000, 0)):
        world = _world(size, Pace(herd_fires=100, herd_lead_s=0.5))
        world.run(15)
        assert world.dispatcher._herds.sent_count == sent_count
        assert sorted(world.runs()) == _ids()


def test_only_so_much_of_large_payloads_is_encoded_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "READY_MAX", 320)
    monkeypatch.setattr(herds, "READY_MAX", 320)
    world = _world(65_000, Pace(herd_fires=10))
    world.run(8.5, step_s=0.1)
    (shard,) = world.dispatcher._shards.values()
    made = sum(chain.ready is not None for chain in shard.timeline.soon(DUE_AT, COUNT))
    assert 5 <= made <= 30
    world.run(6)
    assert world.dispatcher._herds.sent_count == 0
    assert sorted(world.runs()) == _ids()


def test_a_small_payload_and_a_dag_count_for_one() -> None:
    spec = JobSpec("demo.noop", Every(US_PER_S), payload=b"x" * 2_000)
    version = JobVersion("t:a", 1, spec, JobStatus.ACTIVE, "test", START, START)
    row = DueRow(0, 0, START, "t:a", 1, "", START, 1, spec.tier, "t", b"", 0)
    assert Chain(version, row, START).weight == 1
    dag = replace(spec, handler="", payload=b"x" * 60_000, dag=DagSpec((Node("a", "h"),)))
    assert Chain(version._replace(spec=dag), row, START).weight == 1
