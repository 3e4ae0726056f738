"""Work that is read back from where its claims found it: all that stands there, however many records a poll brings."""

from __future__ import annotations

import pytest
from waterclock.retry_router import work_records
from waterclock.retry_router.work_records import WorkRecords

from waterclock.log.memory import MemoryLog
from waterclock.log.port import TopicPartition
from waterclock.model.events import EventKind
from waterclock.model.failure_policy import FailurePolicy, policy_to_json

from .router_world import World

WAVE = work_records._POLLS_PER_ASSIGN
"""After so many polls the reader is told anew where to go on."""


@pytest.mark.parametrize("batch", [1, 3, 500])
def test_every_record_that_stands_is_read_back_wherever_the_polls_end(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_records, "_BATCH", batch)
    world = World()
    places = [world.pending()[1] for _ in range(2 * WAVE + 2)]
    reader = WorkRecords(MemoryLog(world.cluster, "reader"))
    for last in range(1, len(places)):
        asked = {places[0], places[last]}
        assert reader.records(asked).keys() == asked


def test_what_retention_has_removed_is_left_out_and_the_rest_is_read() -> None:
    world = World()
    places = [world.pending()[1] for _ in range(4)]
    world.cluster.partition(TopicPartition(places[0].topic, 0)).delete_before(places[2].offset)
    assert WorkRecords(MemoryLog(world.cluster, "reader")).records(places).keys() == set(places[2:])


def test_no_run_is_given_up_while_its_work_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given two that failed in one round, whose work lies as far apart as the reader goes in one wave of short polls:
    both are tried again (design §8: gone by retention, and only then, the run fails with that reason)."""
    monkeypatch.setattr(work_records, "_BATCH", 1)
    world = World()
    world.policy = policy_to_json(FailurePolicy(max_attempts=2))
    claimed = [world.claimed() for _ in range(WAVE + 1)]
    for run_id, token in (claimed[0], claimed[-1]):
        world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(world.router())
    assert {each.run_id for each in world.events(EventKind.RETRYING)} == {claimed[0][0], claimed[-1][0]}
    assert world.events(EventKind.RUN_FAILED) == []
