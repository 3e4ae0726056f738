"""After all of it at once - kills, zombies, cancels, failures, expiries, drains - everything adds up at rest.

One stack under a load in which runs succeed, fail and are tried again, fail for ever, time out, or grow too old;
meanwhile workers are killed, stopped beyond their lease, and restarted gracefully, and runs are cancelled. At
rest: created = succeeded + failed + cancelled, skipped apart, in the log and in Cassandra; a dead letter for each
RUN_FAILED and RUN_EXPIRED, and no other; the reconciler, which looks twice more at rest, had nothing to repair, by the
count in the router's committed offsets and by what its deeds leave behind.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.acceptance.at_rest import judge_rest
from tests.acceptance.excuses import crossed
from tests.acceptance.kills import BREATH_S, Kill, Life
from tests.acceptance.scene import Scene, scene
from tests.acceptance.zombies import is_stopped
from tests.oracle import owed as judge
from tests.oracle.chronicle import Chronicle
from waterclock.model.failure_policy import Backoff, FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier

_EVERY_S = 2
_LEASE_S = 5.0
_LEAD_S = 6
_KILLED = ("worker-1", "worker-2")
_STOPPED = "worker-3"
_DRAINED = "worker-4"
_CANCELS_PER_S = 10.0
_TWO_LOOKS_S = 60.0
"""The reconciler looks every half minute, and repairs what it has seen twice: so long all roles stay up at rest."""


class Size(NamedTuple):
    """How many jobs of each kind, for how long (seconds), under how many kills."""

    jobs: int
    lasts_s: float
    kills: int


WHOLE = Size(40, 90.0, 24)
SHORT = Size(6, 18.0, 3)

_QUICK = FailurePolicy(backoff=Backoff.FIXED, delays_us=(US_PER_S,))
KINDS: dict[str, tuple[str, FailurePolicy]] = {
    "well": ('{"longest_s": 1.0, "emits": 2}', FailurePolicy()),
    "again": ('{"longest_s": 0.2, "fails": 1, "emits": 1}', _QUICK),
    "never": ('{"longest_s": 0.2, "fails": 99}', FailurePolicy(max_attempts=2, backoff=Backoff.LIST, delays_us=(0,))),
    "over": (
        '{"longest_s": 2.0, "calls": false}',
        FailurePolicy(max_attempts=2, delays_us=(US_PER_S,), attempt_timeout_us=US_PER_S // 2),
    ),
    "aged": (
        '{"fails": 99, "calls": false}',
        FailurePolicy(
            max_attempts=9, backoff=Backoff.FIXED, jitter=False, delays_us=(9 * US_PER_S,), run_timeout_us=4 * US_PER_S
        ),
    ),
    "long": ('{"shortest_s": 4.0, "longest_s": 5.0, "emits": 1, "calls": false}', FailurePolicy()),
    "stopped": ('{"longest_s": 0.5, "emits": 2, "stops": true}', FailurePolicy()),
}
"""By kind of job: its payload and its policy. The long ones take longer than the grace of a drain."""

_LONG_PART = 5
"""One long job for so many of each other kind: their runs hold their worker slots for long."""


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("conservation", seed) as played:
        folder = played.stack.folder / "stops"
        folder.mkdir()
        settings = {
            "WATERCLOCK_WORKER__LEASE_TTL_S": str(_LEASE_S),
            "WATERCLOCK_WORKER__SLOTS": "64",
            "WATERCLOCK_WORKER__CANCEL_GRACE_S": "0.5",
            "WATERCLOCK_WORKER__DRAIN_GRACE_S": "3.0",
            "STOP_FOLDER": str(folder),
        }
        workers = [*_KILLED, _STOPPED, _DRAINED]
        played.start(dict.fromkeys(workers, settings), module="tests.acceptance.zombie_worker")
        jobs = _jobs(size, played.dice)
        played.define(jobs)
        kills, stops, drains = _everything(played, jobs, folder, size)
        for worker in workers:
            played.stack.roles[worker].wait_ready()
        chronicle = played.come_to_rest(watch_s=0.0 if short else _TWO_LOOKS_S)
        played.evidence.figure("provoked", kills + stops + drains, kills=kills, stops=stops, drains=drains)
        judge_rest(played, chronicle, torn=crossed(played.following.events), lease_s=_LEASE_S)
        _judge_everything_happened(played, chronicle, stops, drains)
        if not short:
            played.evidence.demand(chronicle.outcomes()["DRAINED"] > 0, "no attempt was handed back")


def _jobs(size: Size, dice: Random) -> dict[str, JobSpec]:
    begin = (time.time_ns() // 1_000 // US_PER_S + _LEAD_S) * US_PER_S
    return {
        f"acme:{kind}-{number}": JobSpec(
            "calls.stopped" if kind == "stopped" else "calls.async",
            Every(_EVERY_S * US_PER_S, begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=payload.encode(),
            policy=policy,
        )
        for kind, (payload, policy) in KINDS.items()
        for number in range(size.jobs // _LONG_PART if kind == "long" else size.jobs)
    }


def _everything(played: Scene, jobs: dict[str, JobSpec], folder: Path, size: Size) -> tuple[int, int, int]:
    """Kills, stops, drains and cancels at once; how many of the first three there were."""
    dice = played.dice
    lives = [Life(played.stack.roles[worker], Random(dice.randrange(1 << 30)), _LEASE_S, 6.0) for worker in _KILLED]
    sleeper, drainer = _Sleeper(played, folder, dice), _Drainer(played, dice)
    kills: list[Kill] = []
    began_s = time.monotonic()
    cancel_at_s = began_s + _LEAD_S
    over = False
    while not over or any(life.is_down for life in lives) or sleeper.sleeps:
        now_s = time.monotonic()
        over = now_s >= began_s + size.lasts_s
        for life in lives:
            kill = life.go_on(may_kill=not over and len(kills) < size.kills)
            if kill is not None:
                kills.append(kill)
        sleeper.go_on(may_stop=not over)
        if not over:
            drainer.go_on()
            if now_s >= cancel_at_s:
                cancel_at_s = now_s + dice.expovariate(_CANCELS_PER_S)
                _cancel_any(played, jobs, dice)
        time.sleep(BREATH_S)
    drainer.finish()
    return len(kills), sleeper.stops, drainer.drains


def _cancel_any(played: Scene, jobs: dict[str, JobSpec], dice: Random) -> None:
    """A run that is about to be made, or was made up to some seconds ago."""
    job_id = dice.choice(list(jobs))
    schedule = jobs[job_id].schedule
    assert isinstance(schedule, Every)
    assert schedule.start_at is not None
    aimed_at = time.time_ns() // 1_000 - int(dice.uniform(-0.2, 3.0) * US_PER_S)
    fires = (aimed_at - schedule.start_at) // schedule.every_us
    run_id = judge.run_id(job_id, schedule.start_at + max(0, fires) * schedule.every_us)
    played.orders.send(CommandKind.CANCEL, job_id, run_id=run_id)


class _Sleeper:
    """Stops one worker beyond its lease, now in a handler, now at a commit, and wakes it."""

    def __init__(self, played: Scene, folder: Path, dice: Random) -> None:
        self._role = played.stack.roles[_STOPPED]
        self._folder = folder
        self._dice = dice
        self._order_at_s = time.monotonic() + _LEAD_S
        self._order: Path | None = None
        self._wake_at_s: float | None = None
        self.stops = 0

    @property
    def sleeps(self) -> bool:
        return self._wake_at_s is not None

    def go_on(self, *, may_stop: bool) -> None:
        now_s = time.monotonic()
        if self._wake_at_s is not None:
            if now_s >= self._wake_at_s:
                os.kill(self._role.pid, signal.SIGCONT)
                self._order, self._wake_at_s = None, None
                self._order_at_s = now_s + self._dice.uniform(2.0, 4.0)
        elif self._order is not None:
            if not may_stop:
                self._order.unlink(missing_ok=True)
            if is_stopped(self._role.pid):
                self.stops += 1
                self._wake_at_s = now_s + _LEASE_S + self._dice.uniform(2.0, 5.0)
            elif not may_stop:
                self._order = None
        elif may_stop and now_s >= self._order_at_s:
            self._order = self._folder / f"{_STOPPED}.{self._dice.choice(('handler', 'commit'))}"
            self._order.touch()


class _Drainer:
    """Restarts one worker gracefully again and again, without waiting for it: the rest goes on meanwhile."""

    def __init__(self, played: Scene, dice: Random) -> None:
        self._role = played.stack.roles[_DRAINED]
        self._dice = dice
        self._next_s = time.monotonic() + _LEAD_S
        self._is_draining = False
        self.drains = 0

    def go_on(self) -> None:
        now_s = time.monotonic()
        process = self._role.process
        assert process is not None
        if self._is_draining:
            if process.poll() is not None:
                self._role.start()
                self._is_draining = False
                self.drains += 1
                self._next_s = now_s + self._dice.uniform(6.0, 9.0)
        elif now_s >= self._next_s and self._role.is_ready:
            process.terminate()
            self._is_draining = True

    def finish(self) -> None:
        """Start it again if it is on its way out."""
        if self._is_draining:
            self._role.stop()
            self._role.start()


def _judge_everything_happened(played: Scene, chronicle: Chronicle, stops: int, drains: int) -> None:
    """Else nothing was shown."""
    outcomes, statuses = chronicle.outcomes(), chronicle.statuses()
    for outcome in ("SUCCEEDED", "FAILED", "TIMED_OUT", "LOST"):
        played.evidence.demand(outcomes[outcome] > 0, f"no attempt ended {outcome}")
    for status in ("SUCCEEDED", "FAILED", "CANCELLED"):
        played.evidence.demand(statuses[status] > 0, f"no run ended {status}")
    said = {kind for kind, _ in chronicle.verdicts.values()}
    for kind in ("RUN_FAILED", "RUN_EXPIRED"):
        played.evidence.demand(kind in said, f"no {kind}")
    played.evidence.demand(len(chronicle.retries) > 0, "nothing was tried again")
    played.evidence.demand(stops > 0, "no worker was stopped")
    played.evidence.demand(drains > 0, "no worker was drained")
