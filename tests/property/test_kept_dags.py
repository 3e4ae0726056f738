"""Whoever takes a partition of DagRuns over, whenever, knows of each what one knows who has read the whole log.

Of records that were written at different times: a DagRun's may be older than those of its nodes.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from waterclock.dag_engine import kept
from waterclock.dag_engine.kept import KeptDags
from waterclock.dag_engine.loop import ROLE
from waterclock.dag_engine.shard import Shard

from tests.part_by_part import all_at_once
from tests.property.run_stream import Place, RunStream
from tests.property.test_dag_reduce_oracle import DAG_RUN
from tests.unit.dag_world import NAMES, World
from waterclock.log.following import Beginning
from waterclock.log.memory import MemoryLog
from waterclock.log.port import TopicPartition
from waterclock.model.events import RunEvent
from waterclock.model.fold import Fold
from waterclock.model.known_state import state_from_text
from waterclock.model.run_state import RunState
from waterclock.wire.codec import decode_dag_run

PLACE = TopicPartition(NAMES.run_events, 0)
HOW = {"held", "going", "ending"} | {
    *("held, kept as held", "going, kept as held", "ending, kept as held"),
    *("going, kept as going", "ending, kept as going"),
}
"""How a DagRun stands at a take-over, without a record and with one. Of one that is to end none is written."""


class Partition:
    """The log of one partition, its state topic, and whoever has it."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.world = World()
        self.log = MemoryLog(self.world.cluster, "anybody")
        self.stream: list[RunEvent] = []
        self.committed = Place()
        self.has_read_all = self.shard_from(0)
        self.owner = self.shard_from(0)

    def shard_from(self, offset: int) -> Shard:
        """One that begins there, with what the state topic holds unless that is at the log's beginning."""
        fold: Fold[None] = Fold(window=1)
        records = KeptDags(NAMES, ROLE, 0, behind=self.behind, start_at=offset)
        dags = all_at_once(records.restoring(self.log, fold))
        shard = Shard(PLACE, Beginning(offset, 0, is_first=False), fold, records)
        for dag in dags:
            shard.adopt(dag)
        return shard

    def append(self, event: RunEvent) -> None:
        offset = len(self.stream)
        self.stream.append(event)
        for shard in (self.has_read_all, self.owner):
            shard.take(event, offset)

    def round(self) -> None:
        owner = self.owner
        for message in owner.kept.messages(owner.fold, owner.dags, now_s=0.0):
            self.world.append(message)
        owner.next_offset = len(self.stream)
        held_back = owner.kept.read_from
        read_from = owner.fold.fold_from()
        self.committed = Place(owner.next_offset, read_from if held_back is None else min(held_back, read_from))

    def take_over(self) -> None:
        """By somebody who reads from where the last round allows, to the log's end."""
        self.owner = self.shard_from(self.committed.read_from)
        for offset in range(self.committed.read_from, len(self.stream)):
            self.owner.take(self.stream[offset], offset)

    def stands(self) -> str:
        """How its DagRun stands, and how it stood when the record was written that there is of it."""
        run = self.has_read_all.fold.open.get(DAG_RUN)
        if run is None:
            return "over"
        value = self.world.kept().get(DAG_RUN)
        known = None if value is None else state_from_text(decode_dag_run(value).state)
        return name_of(run.state) if known is None else f"{name_of(run.state)}, kept as {name_of(known)}"


def name_of(state: RunState) -> str:
    if state.held:
        return "held"
    return "ending" if state.ending else "going"


def knowledge(shard: Shard) -> dict[str, Any]:
    """By run id what is known of every open DagRun, and of its nodes."""
    found: dict[str, Any] = {run_id: run.state for run_id, run in shard.fold.open.items()}
    for run_id, dag in shard.dags.items():
        nodes = dag.run.dag
        told = (dag.revision, dag.fire_at, dag.first_offset, dag.began_at, dag.start, dag.linked_run)
        running = None if nodes is None else (set(nodes.open), set(nodes.ended), nodes.running)
        found[run_id] = (dag.run.state, told, dag.known, running)
    return found


def play(seed: int) -> Counter[str]:
    """Some events of one DagRun, of its nodes and of others; rounds and take-overs between. How it was taken over."""
    dice = Random(seed)
    partition = Partition(behind=dice.choice([0, 0, 2, 6]))
    fold = partition.has_read_all.fold
    stream = RunStream(dice, fold)
    met: Counter[str] = Counter()
    for _ in range(60):
        event = stream.next()
        if event is not None:
            partition.append(event)
        if dice.random() < 0.2:
            partition.round()
        if dice.random() < 0.2:
            partition.take_over()
            assert knowledge(partition.owner) == knowledge(partition.has_read_all), (seed, partition.stream)
            met[partition.stands()] += 1
        if DAG_RUN not in fold.open and dice.random() < 0.2:
            break
    return met


@pytest.mark.parametrize("per_round", [1, 500])
def test_a_successor_knows_of_every_dag_run_what_the_whole_log_tells(
    monkeypatch: pytest.MonkeyPatch, per_round: int
) -> None:
    """But for the limits that the fold states (``test_dag_reduce_oracle.py``)."""
    monkeypatch.setattr(kept, "KEPT_PER_ROUND", per_round)
    monkeypatch.setattr(kept, "FORGOTTEN_PER_ROUND", per_round)
    met: Counter[str] = Counter()
    for seed in range(1_000):
        met.update(play(seed))
    assert set(met) == HOW | {"over"}, met
