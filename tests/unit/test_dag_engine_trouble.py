"""What a DAG engine meets that it cannot go on with: it says so, and everything else goes on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.dag_world import JOB, REVISION, World
from waterclock.model.dag import Node
from waterclock.model.document import spec_from_json, spec_to_json
from waterclock.model.events import EventKind
from waterclock.model.job import JobVersion

ENDS = (EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED)


def chain(**limits: int) -> World:
    return World(Node("a", "h"), Node("b", "h", after=("a",)), **limits)


def test_a_dag_run_waits_for_the_release_that_understands_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said to be gone, and DagRuns of other versions go on."""
    world = chain()
    world.store.kept[JOB, 8] = world.store.kept[JOB, REVISION]._replace(revision=8)
    later = spec_to_json(world.store.kept[JOB, 8].spec).replace(b'"after":["a"]', b'"trigger_rule":"most_success"')
    right = world.store.versions_below

    def versions_below(wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        if (JOB, 9) in wanted:
            spec_from_json(later)
        return right(wanted)

    monkeypatch.setattr(world.store, "versions_below", versions_below)
    waiting, going = world.fire(revision=8), world.fire()
    world.turn(world.engine())
    assert [each.run_id for each in world.events(EventKind.PENDING)] == [waiting, going, f"{going}/a"]
    assert world.events(*ENDS) == []
    monkeypatch.undo()
    world.cluster.kill("dag-engine-1")
    world.turn(world.engine("dag-engine-2"), 60)
    assert world.released() == ["a", "a"]
