"""Drawn plays in which a dispatcher is killed while it makes up for an absence, and its cursor is erased.

Jobs of all tiers and misfire policies are edited, paused and deleted meanwhile; rounds hold one to three fires, so the
loss comes in the middle of things. What must hold: the books, the policies and the makings complain of nothing.
"""

from __future__ import annotations

import random

import pytest
from waterclock.dispatcher.pace import Pace

from tests.oracle import books, makings, misfires
from tests.oracle.owed import Rules
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from tests.unit.test_dispatcher_trouble import GROUP
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, Tier
from waterclock.model.timing import CatchUpOrder, Misfire, Timing

_JOBS = tuple(f"t:{name}" for name in "abcmxyz")
_CHANGES = (*[CommandKind.UPDATE] * 5, CommandKind.PAUSE, CommandKind.RESUME, CommandKind.DELETE, CommandKind.CREATE)
_GRACE_S = 5.0
_BLOCK = 12


class Play:
    """One of them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lost_at: list[int] = []
        self.lost_amid = 0
        """Cursors that were lost while a gap was open, or fires were overdue."""
        self.pace = Pace(
            grace_s=_GRACE_S,
            idle_commit_s=self.rng.choice([5.0, 1_000.0]),
            round_records=self.rng.choice([1, 1, 2, 3]),
            catch_up_per_s=self.rng.choice([3.0, 1_000.0]),
        )
        self.world = World(partitions=1, pace=self.pace)

    def complaints(self) -> list[str]:
        world, rng = self.world, self.rng
        world.run(1.5, 0.1)
        for job_id in _JOBS:
            world.command(CommandKind.CREATE, job_id, self.spec())
        world.run(rng.choice([6, 12]), 0.1)
        for _ in range(rng.randint(1, 3)):
            self.be_away()
            self.make_up_for_it()
            self.lose_cursor()
            if rng.random() < 0.5:
                world.run(rng.uniform(0, 12), 0.1)
        for _ in range(6):
            world.run(12, 0.1)
            if self.is_on_time():
                break
        world.run(14, 0.1)
        return self.judged()

    def spec(self) -> JobSpec:
        rng = self.rng
        timing = Timing(
            misfire=rng.choice(list(Misfire)),
            catch_up_max=rng.choice([1, 2, 100]),
            jitter_us=rng.choice([0, 0, 0, 2 * US_PER_S]),
            catch_up_order=rng.choice(list(CatchUpOrder)),
        )
        return every(10, tier=rng.choice(list(Tier)), start_at=START, timing=timing)

    def be_away(self) -> None:
        """Nobody is there for a while, and people change their jobs."""
        world, rng = self.world, self.rng
        world.cluster.kill(f"d1-{world.lives}")
        away_s, changes = rng.choice([20, 35, 45, 120]), rng.randint(1, 5)
        for _ in range(changes):
            world.clock.advance(away_s * US_PER_S // (changes + 1))
            kind, job_id = rng.choice(_CHANGES), rng.choice(_JOBS)
            has_spec = kind in (CommandKind.UPDATE, CommandKind.CREATE)
            world.command(kind, job_id, self.spec() if has_spec else None)
        world.clock.advance(away_s * US_PER_S // (changes + 1))
        world.dispatcher = world.start()

    def make_up_for_it(self) -> None:
        """Until some round after the first one that decides anything."""
        rounds = 0
        for _ in range(400):
            before = len(self.world.records(NAMES.run_events))
            self.world.steps(1)
            self.world.clock.advance(US_PER_S // 50)
            if len(self.world.records(NAMES.run_events)) > before:
                rounds += 1
                if rounds > 1 and self.rng.random() < 0.3:
                    return

    def lose_cursor(self) -> None:
        """The process dies, and the group's positions with it; the next one starts."""
        world = self.world
        self.lost_amid += self.owes_much()
        world.cluster.kill(f"d1-{world.lives}")
        world.clock.advance(7 * US_PER_S)
        world.cluster.expire_group(GROUP)
        self.lost_at.append(world.clock.now())
        world.dispatcher = world.start()

    def owes_much(self) -> bool:
        shard = self.world.dispatcher._shards.get(0)
        if shard is None:
            return False
        next_at = shard.timeline.next_due_at()
        overdue_at = self.world.clock.now() - round(_GRACE_S * US_PER_S)
        return bool(shard.gaps) or (next_at is not None and next_at < overdue_at)

    def is_on_time(self) -> bool:
        shard = self.world.dispatcher._shards.get(0)
        behind_at = self.world.clock.now() - 5 * US_PER_S
        return shard is not None and not shard.gaps and shard.jump is None and shard.cursor.due_at > behind_at

    def judged(self) -> list[str]:
        world = self.world
        until = world.clock.now() - 12 * US_PER_S
        rules = Rules(grace=5 * US_PER_S, skew=5 * US_PER_S, cursors_lost=tuple(self.lost_at))
        commands, events = (
            [raw(each) for each in world.records(topic)] for topic in (NAMES.commands, NAMES.run_events)
        )
        work = [raw(record) for tier in Tier for record in world.records(NAMES.runs(tier))]
        found = books.balance(commands, events, until, rules)[0] + misfires.check(commands, events, until, rules)[0]
        return found + makings.check(commands, events, work, rules)[0]


@pytest.mark.parametrize("first", range(0, 5 * _BLOCK, _BLOCK))
def test_a_cursor_that_is_lost_while_an_absence_is_made_up_for_changes_nothing(first: int) -> None:
    lost_amid = 0
    for seed in range(first, first + _BLOCK):
        play = Play(seed)
        assert play.complaints() == [], f"seed {seed}"
        lost_amid += play.lost_amid
    assert lost_amid >= _BLOCK // 2, "too few cursors were lost while much was still to be decided"
