"""A random history of backfills, from one seed: jobs fire, are paused, changed and deleted; ranges of their past are
asked for, paused, resumed and cancelled; runs end, and the dispatcher is killed. At the end all of it is judged.

On the in-memory ports, with a recorder that is behind for a while. The judges import nothing of ours.
"""

from __future__ import annotations

import random
from collections import Counter
from unittest import mock

from waterclock.dispatcher import backfill_lanes, backfill_reading, window

from tests.oracle import backfills, beside, books
from tests.unit.backfill_world import BackfillWorld
from tests.unit.dispatcher_world import NAMES, raw
from waterclock.model.backfill import make_backfill_id
from waterclock.model.concurrency import FREE, Concurrency, Overlap
from waterclock.model.events import EventKind, Pending
from waterclock.model.ids import ordinal
from waterclock.model.job import CommandKind, Cron, JobSpec, Tier

JOBS = ("t:a", "t:b")
STEPS = 40
_ROUNDS = 60
_VERBS = (
    *["ask"] * 2,
    *["end"] * 4,
    *["wait"] * 2,
    *["turn"] * 3,
    "crash",
    "pause",
    "resume",
    "edit",
    "cancel",
    "delete",
)


class History:
    """One history. ``counts``: what happened in it."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._asked: list[str] = []
        self._records = True

    def play(self) -> list[str]:
        """Play it; what is wrong with it."""
        rng = self._rng
        with (
            mock.patch.object(window, "SLOTS_PER_SLICE", 256),
            mock.patch.object(backfill_lanes, "LOOKS_MAX", rng.choice([1, 3, 500])),
            mock.patch.object(backfill_reading, "_EVENTS", rng.choice([1, 7, 2_000])),
        ):
            world = BackfillWorld()
            for job_id in JOBS:
                world.define(self._spec(), job_id)
            for _ in range(STEPS):
                self._step(world, rng.choice(_VERBS))
            self._come_to_rest(world)
        commands = [raw(each) for each in world.records(NAMES.commands)]
        events = [raw(each) for each in world.records(NAMES.run_events)]
        return [*self._judged(commands, events, world.clock.now() - 1)]

    def _judged(self, commands: list[dict[str, object]], events: list[dict[str, object]], until: int) -> list[str]:
        complaints: list[str] = []
        for name, found in (
            ("backfills", backfills.check(commands, events)),
            ("books", books.balance(commands, events, until)),
            ("beside", beside.check(commands, events)),
        ):
            complaints += [f"{name}: {complaint}" for complaint in found[0]]
            self.counts.update(found[1])
        return complaints

    def _spec(self) -> JobSpec:
        rng = self._rng
        overlap = rng.choice([Overlap.ALLOW, Overlap.SKIP, Overlap.BUFFER_ALL, Overlap.CANCEL_OTHER])
        concurrency = Concurrency(overlap, max_concurrent=rng.choice([1, 2])) if rng.random() < 0.5 else FREE
        cron = Cron(rng.choice(["* * * * *", "* * * * *", "*/2 * * * *"]))
        return JobSpec("demo.noop", cron, rng.choice(list(Tier)), concurrency=concurrency)

    def _step(self, world: BackfillWorld, verb: str) -> None:
        rng, job_id = self._rng, self._rng.choice(JOBS)
        self.counts[f"step {verb}"] += 1
        match verb:
            case "ask":
                self._ask(world, job_id)
            case "end":
                self._end_one(world)
            case "wait":
                self._records = rng.random() < 0.7
                world.wait(rng.choice([5, 60, 65, 120]), records=self._records)
            case "crash":
                world.crash()
            case "turn":
                self._turn(world)
            case "cancel":
                self._cancel(world)
            case "edit":
                world.command(CommandKind.CREATE, job_id, self._spec())
            case "delete" if rng.random() < 0.7:
                pass
            case _:
                world.command(CommandKind[verb.upper()], job_id)
        world.rest(records=self._records)

    def _ask(self, world: BackfillWorld, job_id: str) -> None:
        rng = self._rng
        now = world.clock.now()
        from_at = now - rng.randint(1, 14) * 60_000_000 - rng.randrange(60_000_000)
        to_at = from_at + rng.randint(1, 10) * 60_000_000
        if to_at >= now:
            to_at = 0  # up to the command
            self.counts["asked without an end"] += 1
        more = {"from_at": from_at, "to_at": to_at, "concurrency": rng.choice([0, 1, 2])}
        offset = world.command(CommandKind.BACKFILL, job_id, answer=rng.random() < 0.5, **more)
        self._asked.append(make_backfill_id(job_id, ordinal(1, offset)))

    def _turn(self, world: BackfillWorld) -> None:
        rng = self._rng
        if not self._asked:
            return
        backfill_id = rng.choice(self._asked)
        kind = rng.choice([CommandKind.PAUSE_BACKFILL, CommandKind.RESUME_BACKFILL, CommandKind.RESUME_BACKFILL,
                           CommandKind.CANCEL_BACKFILL])  # fmt: skip
        world.turn(kind, backfill_id)

    def _open(self, world: BackfillWorld) -> list[str]:
        ended = {event.run_id for event in world.events() if event.kind in _ENDS}
        made = (event.run_id for event in world.events(EventKind.PENDING))
        return [run_id for run_id in dict.fromkeys(made) if run_id not in ended]

    def _end_one(self, world: BackfillWorld) -> None:
        waiting = self._open(world)
        if waiting:
            world.end(self._rng.choice(waiting))

    def _cancel(self, world: BackfillWorld) -> None:
        waiting = self._open(world)
        if waiting:
            run_id = self._rng.choice(waiting)
            world.command(CommandKind.CANCEL, run_id.partition("@")[0], run_id=run_id)

    def _come_to_rest(self, world: BackfillWorld) -> None:
        """Jobs and backfills go on, then fires come to an end, and every run ends."""
        for job_id in JOBS:
            world.command(CommandKind.RESUME, job_id)
        for backfill_id in self._asked:
            world.turn(CommandKind.RESUME_BACKFILL, backfill_id)
        world.wait(130)
        for job_id in JOBS:
            world.command(CommandKind.UPDATE, job_id, JobSpec("demo.noop", Cron("0 0 1 1 *")))
        for _ in range(_ROUNDS):
            waiting = self._open(world)
            for run_id in waiting:
                world.end(run_id)
            world.wait(5)
            if not waiting and not self._open(world):
                break
        self.counts["backfilled runs"] += len(
            [each for each in world.events(EventKind.PENDING) if _is_ours(each.detail)]
        )
        self.counts["take-overs"] += world.lives - 1


_ENDS = (EventKind.ATTEMPT_SUCCEEDED, EventKind.CANCEL_REQUESTED)


def _is_ours(detail: object) -> bool:
    return isinstance(detail, Pending) and detail.backfill != 0
