"""DagRuns of a version that a later release wrote: shown without their nodes, and nobody who reads them breaks.

And one that was triggered with another payload than its job's.
"""

from __future__ import annotations

from typing import cast

import pytest

from tests.unit.dag_history import JOB, NODES, REVISION, DagHistory
from tests.unit.test_stuck_watch import Known, lap
from waterclock.clock import ManualClock
from waterclock.commands.dag_tree import draw_run
from waterclock.dag_runs.acting import plan_rerun
from waterclock.dag_runs.looking import stuck_in
from waterclock.dag_runs.picture import nodes_seen
from waterclock.dag_runs.reading import read_dag_run
from waterclock.dag_runs.views import dag_run_in_full
from waterclock.model.dag import Node, TriggerRule
from waterclock.model.dag_events import NodeEnd
from waterclock.model.errors import Conflict
from waterclock.model.events import RunStatus
from waterclock.model.ids import US_PER_S, parse_run_id
from waterclock.recorder.stuck_watch import StuckWatch
from waterclock.store.upkeep import STUCK_DAGS

NOW = 1_795_000_020 * US_PER_S
OF_LATER = Node("new", "h", after=("list",), trigger_rule=cast("TriggerRule", "most_success"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def history(clock: ManualClock) -> DagHistory:
    found = DagHistory(clock, (*NODES, OF_LATER))
    with pytest.raises(ValueError, match="most_success"):
        found.store.version(JOB, REVISION)
    found.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1]")
    return found


def test_it_is_shown_as_one_whose_version_is_gone(history: DagHistory) -> None:
    history.run()
    seen = read_dag_run(history.store, parse_run_id(history.run_id))
    assert seen is not None
    assert (seen.spec, seen.graph, seen.state, list(seen.nodes)) == (None, None, None, ["list"])
    now = history.began_at + 3_600 * US_PER_S
    shown = dag_run_in_full(seen, nodes_seen(seen), stuck_in(seen, frozenset(), now), now)
    assert (shown["status"], shown["nodes"], shown["stuck"]) == ("RUNNING", [], [])
    assert draw_run(seen, [], [], now)[0].text.startswith(f"{history.run_id}  RUNNING")


def test_its_rerun_is_refused_in_words(history: DagHistory) -> None:
    history.run(RunStatus.FAILED, ended_s=9)
    seen = read_dag_run(history.store, parse_run_id(history.run_id))
    assert seen is not None
    with pytest.raises(Conflict, match="cannot be read"):
        plan_rerun(seen, ())


def test_the_look_for_stuck_nodes_counts_it(clock: ManualClock, history: DagHistory) -> None:
    history.run()
    watch = StuckWatch(history.store, clock, Known(history.run_id), frozenset)
    lap(watch, clock)
    told = history.store.told(STUCK_DAGS, "1")
    assert told is not None
    assert (told.parts["looked_at"], told.parts["named"]) == (1, [])


def test_a_dag_run_with_a_payload_of_its_own_is_read_whatever_its_job_has(clock: ManualClock) -> None:
    history = DagHistory(clock, payload=b'"%b"' % (b"x" * 65_500))  # with an item it is more than a node may be given
    history.ended_badly()
    seen = read_dag_run(history.store, parse_run_id(history.run_id))
    assert seen is not None
    assert [each.counts_as for each in nodes_seen(seen)] == [
        NodeEnd.SUCCEEDED, NodeEnd.FAILED, NodeEnd.SUCCEEDED, NodeEnd.UPSTREAM_FAILED,
    ]  # fmt: skip
    assert plan_rerun(seen, (), failed=True).begins == ("load",)
