"""Whoever takes a partition over as its retry router, whenever, asks for what one asks for who never stopped.

For the same verdicts, letters and starts, with the same trails; and of every open run both know the same.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from waterclock.retry_router.deaths import Deaths
from waterclock.retry_router.expiry import over_at_of
from waterclock.retry_router.loop import ROLE
from waterclock.retry_router.open_attempts import OpenAttempts
from waterclock.retry_router.open_runs import kept_runs
from waterclock.retry_router.shard import Shard, Wanted
from waterclock.retry_router.trail import Note, trail_of

from tests.part_by_part import all_at_once
from tests.property.run_stream import Place, RunStream
from waterclock import kept_runs as keeping
from waterclock.clock import ManualClock
from waterclock.log.following import Beginning
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import TopicPartition
from waterclock.model.events import RunEvent
from waterclock.model.fold import Fold
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
PLACE = TopicPartition(NAMES.run_events, 0)
LATER = 10**17


class Partition:
    """The log of one partition, its state topic, whoever has it, and one who has read it all."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.cluster = MemoryCluster(ManualClock())
        for spec in topic_specs(NAMES, 1):
            compact = spec.config.get("cleanup.policy") == "compact"
            self.cluster.create_topic(spec.name, spec.partitions, compact=compact)
        self.log = MemoryLog(self.cluster, "anybody")
        self.appender = self.log.appender()
        self.stream: list[RunEvent] = []
        self.committed = Place()
        self.asked: dict[int, Any] = {}  # by offset what the one who never stopped asked for
        self.never_stopped = self.shard_at(Place())
        self.owner = self.shard_at(Place())
        self.restored = 0

    def shard_at(self, place: Place) -> Shard:
        fold: Fold[Note] = Fold(window=1)
        kept = kept_runs(NAMES, ROLE, 0, behind=self.behind)
        if place.position:
            all_at_once(kept.restoring(self.log, fold))
            self.restored = len(fold.open)
        attempts = OpenAttempts(Deaths(self.log, NAMES.leases))
        return Shard(PLACE, Beginning(place.read_from, place.position, is_first=False), fold, attempts, kept)

    def append(self, event: RunEvent) -> None:
        offset = len(self.stream)
        self.stream.append(event)
        self.asked[offset] = wanted_of(self.never_stopped, event, offset)
        assert wanted_of(self.owner, event, offset) == self.asked[offset]

    def round(self) -> None:
        for message in self.owner.kept.messages(self.owner.fold, 0.0):
            self.appender.append(message)
        self.committed = Place(len(self.stream), self.owner.fold.fold_from())

    def take_over(self) -> None:
        """By somebody who reads from where the last round allows, and acts from its position on."""
        place = self.committed
        self.owner = self.shard_at(place)
        for offset in range(place.read_from, len(self.stream)):
            if offset >= place.position and not self.owner.live:
                self.owner.go_live()
            asked = wanted_of(self.owner, self.stream[offset], offset)
            assert asked == (self.asked[offset] if offset >= place.position else ((), (), ())), (offset, place)
        if not self.owner.live:
            self.owner.go_live()
        assert knowledge(self.owner) == knowledge(self.never_stopped), place


def wanted_of(shard: Shard, event: RunEvent, offset: int) -> Any:
    """What one event makes a router ask for."""
    wanted = Wanted()
    shard.take(event, offset, wanted)
    shard.take_turns(1_000)
    return tuple(wanted.given_up), tuple(wanted.ends), tuple(shard.take_undecided())


def knowledge(shard: Shard) -> dict[str, Any]:
    """Of every open run, and whose attempts are open. What will be over some day stands among the deadlines."""
    runs = shard.fold.open
    found: dict[str, Any] = {
        run_id: (run.state, trail_of(run.note), run.first_offset, over_at_of(run.state, run.note))
        for run_id, run in runs.items()
    }
    for run_id, run in runs.items():
        over_at = over_at_of(run.state, run.note)
        assert over_at > LATER or shard.deadlines._queued[run_id] <= over_at
    found["workers"] = set(shard.attempts.unknown_workers())
    return found


def play(seed: int) -> Counter[str]:
    dice = Random(seed)
    partition = Partition(behind=dice.choice([0, 0, 2, 6]))
    stream = RunStream(dice, partition.never_stopped.fold)
    met: Counter[str] = Counter()
    for _ in range(80):
        event = stream.next()
        if event is None:
            continue
        partition.append(event)
        asked = partition.asked[len(partition.stream) - 1]
        met.update(name for name, parts in zip(("letters", "ends", "verdicts"), asked, strict=True) if parts)
        if dice.random() < 0.2:
            partition.round()
        if dice.random() < 0.2:
            partition.take_over()
            met["restored"] += partition.restored
    return met


@pytest.mark.parametrize("per_round", [1, 500])
def test_a_successor_asks_for_what_the_whole_log_asks_for(monkeypatch: pytest.MonkeyPatch, per_round: int) -> None:
    """But for the limits that the fold states."""
    monkeypatch.setattr(keeping, "_PER_ROUND", per_round)
    met: Counter[str] = Counter()
    for seed in range(300):
        try:
            met.update(play(seed))
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}") from wrong
    assert min(met[name] for name in ("letters", "ends", "verdicts", "restored")) > 100, met
