"""However often a recorder dies, and whatever retention took meanwhile: its rows are those of one who never stopped."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.property.run_stream import RunStream
from tests.unit.test_recorder import EVENTS, GENERATION, NAMES, World
from waterclock import kept_runs
from waterclock.log.memory import CommitFate
from waterclock.log.port import TopicPartition
from waterclock.model.fold import Fold, parse_fold_from
from waterclock.recorder.loop import Recorder
from waterclock.store.memory import MemoryTables
from waterclock.wire.messages import event_message

STATE = TopicPartition(NAMES.state("recorder"), 0)
POSITIONS = "upkeep"
"""A table that tells how far history is written: who dies says it more often."""


def cells(tables: MemoryTables) -> dict[Any, Any]:
    """Every cell, with its write stamp."""
    return {
        (table, key, place, number): (cell.wts, cell.value)
        for table, partitions in tables._tables.items()
        if table != POSITIONS
        for key, partition in partitions.items()
        for place, row in partition.rows.items()
        for number, cell in row.cells.items()
    }


class Mortal:
    """A world whose recorder dies and is followed by another."""

    def __init__(self, dice: Random, behind: int) -> None:
        self.dice = dice
        self.behind = behind
        self.world = World()
        self.met: Counter[str] = Counter()
        self.recorder = self.born()

    def born(self) -> Recorder:
        parts = {"batch_records": self.dice.choice([1, 3, 100]), "batch_s": self.dice.choice([0.0, 0.5])}
        return self.world.recorder(kept_behind=self.behind, window=2, commit_every_s=0.0, **parts)

    def turn(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            self.recorder.step()
            self.world.clock.advance(100_000)

    def die(self) -> None:
        """And retention may take what nobody has to read again."""
        self.world.cluster.kill("recorder-1")
        committed = self.world.cluster.group(NAMES.group("recorder")).committed(EVENTS)
        read_from = None if committed is None else parse_fold_from(committed.metadata)
        if read_from is not None and self.dice.random() < 0.5:
            self.world.cluster.partition(EVENTS).delete_before(read_from)
            self.met["retention"] += read_from > 0
        self.recorder = self.born()
        self.met["deaths"] += 1


def play(seed: int) -> Counter[str]:
    dice = Random(seed)
    mortal, whole = Mortal(dice, dice.choice([0, 0, 2, 6])), World()
    world, fold = mortal.world, Fold[object](generation=GENERATION)
    stream = RunStream(dice, fold)
    for _ in range(60):
        event = stream.next()
        if event is None:
            continue
        offset = world.append(event_message(NAMES, event))
        whole.clock.advance(world.clock.now() - whole.clock.now() - 1_000)
        assert (whole.append(event_message(NAMES, event)), whole.clock.now()) == (offset, world.clock.now())
        fold.apply(event, offset)
        if dice.random() < 0.4:
            mortal.turn()
        if dice.random() < 0.15:
            mortal.die()
        elif dice.random() < 0.1:
            fate = dice.choice([CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS])
            world.cluster.faults.next_commit("waterclock.recorder.recorder-1", fate)
            mortal.met[fate.name] += 1
    for _ in range(20):  # an answer that stays away is waited for
        world.turn(mortal.recorder)
        if world.committed(EVENTS) == world.log.high_watermark(EVENTS):
            break
    assert world.committed(EVENTS) == world.log.high_watermark(EVENTS)
    whole.turn(whole.recorder())
    mine, theirs = cells(world.tables), cells(whole.tables)
    odd = {
        each: (mine.get(each), theirs.get(each))
        for each in mine.keys() | theirs.keys()
        if mine.get(each) != theirs.get(each)
    }
    assert not odd, (seed, odd)
    mortal.met["kept"] += world.log.high_watermark(STATE)
    mortal.met["cells"] += len(mine)
    return mortal.met


@pytest.mark.parametrize("per_round", [1, 500])
def test_a_recorder_that_dies_writes_the_rows_of_one_who_never_stopped(
    monkeypatch: pytest.MonkeyPatch, per_round: int
) -> None:
    """But for the limits that the fold states."""
    monkeypatch.setattr(kept_runs, "_PER_ROUND", per_round)
    met: Counter[str] = Counter()
    for seed in range(100):
        met.update(play(seed))
    assert min(met[what] for what in ("deaths", "retention", "kept")) > 100, met
