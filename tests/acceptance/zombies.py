"""50 workers stopped beyond their lease, ready to speak when they wake: nothing of theirs becomes visible.

Each is stopped by SIGSTOP at the end of a handler, two records emitted and a call still to be made, or between produce
and commit, with outcome and records in the log, uncommitted (>= 15 of these). Each sleeps until its lease is over and
its runs are tried elsewhere, then wakes and goes on: outcome and records are ready at once, and the call goes out. At
rest: every attempt that it held was LOST, no word of it stands committed, its records are seen by read_uncommitted
alone, and the sink's receiver refuses its older fence: of half of them at least, a newer attempt had called before.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.acceptance import dumps
from tests.acceptance.at_rest import judge_rest
from tests.acceptance.real_stack import RoleProcess
from tests.acceptance.scene import OUTPUTS, Scene, scene
from tests.oracle import calls
from tests.oracle.chronicle import Chronicle
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, Tier

SHORT_FORM = False
"""The short form of ``conservation`` stops workers in both places too."""

LEASE_S = 5.0
LATE_PART = 0.5
"""Of those stopped in a handler, so many at least sleep until a newer attempt has called."""

_SLOTS = "100"
"""So that those who are awake carry the load: in a backlog no newer attempt comes before the zombie wakes."""

_SESSION_S = 10.0
_EVERY_S = 2
_WITHIN_S = 300.0
_OUTCOMES = ("ATTEMPT_SUCCEEDED", "ATTEMPT_FAILED", "ATTEMPT_TIMED_OUT", "ATTEMPT_CANCELLED")


class Size(NamedTuple):
    """How many stops in a handler, how many between produce and commit; of how many workers, under how many jobs."""

    in_handler: int
    at_commit: int
    workers: int
    jobs: int


WHOLE = Size(32, 18, 8, 120)
SHORT = Size(2, 2, 4, 60)


class Stop(NamedTuple):
    """One zombie: where it was stopped, what it held, when, and when it was woken (microseconds)."""

    worker: str
    where: str
    held: tuple[str, ...]
    at: int
    woken_at: int


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("zombies", seed, partitions=8) as played:
        folder = played.stack.folder / "stops"
        folder.mkdir()
        settings = {
            "WATERCLOCK_WORKER__LEASE_TTL_S": str(LEASE_S),
            "WATERCLOCK_WORKER__SLOTS": _SLOTS,
            "STOP_FOLDER": str(folder),
        }
        workers = [f"worker-{number}" for number in range(1, size.workers + 1)]
        played.start(dict.fromkeys(workers, settings), module="tests.acceptance.zombie_worker")
        played.define(_jobs(size, played.dice))
        stops = stop_and_wake(played, folder, _plan(size, played.dice))
        chronicle = played.come_to_rest()
        judge_rest(played, chronicle, lease_s=LEASE_S)
        judge_stops(played, chronicle, stops)
        for where, wanted in (("handler", size.in_handler), ("commit", size.at_commit)):
            found = sum(stop.where == where for stop in stops)
            played.evidence.demand(found >= wanted, f"{found} workers were stopped at {where}, wanted {wanted}")


def _jobs(size: Size, dice: Random) -> dict[str, JobSpec]:
    begin = time.time_ns() // 1_000 // US_PER_S * US_PER_S
    payload = b'{"longest_s": 0.6, "emits": 2, "stops": true}'
    return {
        f"acme:zombie-{number}": JobSpec(
            "calls.stopped",
            Every(_EVERY_S * US_PER_S, begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=payload,
        )
        for number in range(size.jobs)
    }


def _plan(size: Size, dice: Random) -> list[str]:
    plan = ["handler"] * size.in_handler + ["commit"] * size.at_commit
    dice.shuffle(plan)
    return plan


class _Sleeper:
    """One worker that is told to stop, sleeps beyond its lease, is woken, and rests a while before the next time."""

    def __init__(self, role: RoleProcess, folder: Path, dice: Random) -> None:
        self._role = role
        self._folder = folder
        self._dice = dice
        self._stopped_at_s: float | None = None
        self._wake_at_s = 0.0
        self._order: Path | None = None
        self._rest_until_s = 0.0
        self.woken: list[int] = []

    @property
    def is_idle(self) -> bool:
        return self._order is None and time.monotonic() >= self._rest_until_s

    @property
    def is_busy(self) -> bool:
        return self._order is not None

    def order(self, where: str) -> None:
        self._order = self._folder / f"{self._role.instance}.{where}"
        self._order.touch()

    def go_on(self) -> None:
        now_s = time.monotonic()
        if self._order is None or self._order.exists():
            return
        if self._stopped_at_s is None:
            if is_stopped(self._role.pid):
                self._stopped_at_s = now_s
                # Long enough for its session to end too: until then nobody else claims from its partitions, and the
                # next attempt's work stands there.
                self._wake_at_s = now_s + _SESSION_S + self._dice.uniform(4.0, 7.0)
        elif now_s >= self._wake_at_s:
            self.woken.append(time.time_ns() // 1_000)
            os.kill(self._role.pid, signal.SIGCONT)
            self._order, self._stopped_at_s = None, None
            self._rest_until_s = now_s + self._dice.uniform(1.5, 3.0)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def stop_and_wake(played: Scene, folder: Path, plan: list[str]) -> list[Stop]:
    """Stop workers as the plan says, half of them at a time, and wake each; returns what was done.

    Half: a backlog would keep the newer attempts from coming before the zombies wake.
    """
    seed = played.dice.randrange(1 << 30)
    sleepers = {
        worker: _Sleeper(played.stack.roles[worker], folder, Random(f"{seed}/{worker}")) for worker in played.workers
    }
    left = list(plan)
    until_s = time.monotonic() + _WITHIN_S
    while (left or any(sleeper.is_busy for sleeper in sleepers.values())) and time.monotonic() < until_s:
        for sleeper in sleepers.values():
            sleeper.go_on()
        asleep = sum(sleeper.is_busy for sleeper in sleepers.values())
        for sleeper in sleepers.values():
            if left and sleeper.is_idle and asleep < len(sleepers) // 2:
                sleeper.order(left.pop())
                asleep += 1
        time.sleep(0.02)
    return [stop for worker, sleeper in sleepers.items() for stop in _stops(worker, folder, sleeper.woken)]


def _stops(worker: str, folder: Path, woken: list[int]) -> Iterator[Stop]:
    notes = folder / f"{worker}.stopped.jsonl"
    told: list[dict[str, Any]] = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    for note, woken_at in zip(told, woken, strict=True):
        yield Stop(worker, note["where"], tuple(note["held"]), note["at"], woken_at)


def judge_stops(played: Scene, chronicle: Chronicle, stops: list[Stop]) -> None:
    """What each held was lost, nothing that it said later stands committed, and the sink took no effect of it."""
    evidence = played.evidence
    slept_s = [(stop.woken_at - stop.at) / US_PER_S for stop in stops]
    at_commit = [stop for stop in stops if stop.where == "commit"]
    evidence.figure("workers stopped beyond their lease", len(stops), between_produce_and_commit=len(at_commit))
    evidence.demand(bool(stops) and min(slept_s) > LEASE_S, f"slept {sorted(slept_s)[:3]} s: not beyond the lease")
    held = {key: stop for stop in stops for key in _held(chronicle, stop)}
    ends = {key: chronicle.ends.get(key) for key in held}
    other = (f"{key}: {end}" for key, end in ends.items() if end is None or end.kind != "ATTEMPT_LOST")
    evidence.none_of(other, "attempts in the hands of a stopped worker that were not LOST")
    spoke = (f"{run} {n}: {kind}" for kind in _OUTCOMES for run, n, _ in chronicle.ignored[kind] if (run, n) in held)
    evidence.none_of(spoke, "words of a zombie that stand committed")
    _judge_uncommitted(played, at_commit)
    _judge_sink(played, held)


def _held(chronicle: Chronicle, stop: Stop) -> Iterator[tuple[str, int]]:
    """(run, attempt) of what it held; an effect id names no attempt: it is the one that was claimed last before."""
    for held in stop.held:
        run_id, _, number = held.rpartition("/")
        if stop.where == "handler":
            yield run_id, int(number)
            continue
        run_id = run_id.removesuffix("/out")
        claimed = [n for (run, n), claim in chronicle.claims.items() if run == run_id and claim.stamp <= stop.at]
        if claimed:
            yield run_id, max(claimed)


def _judge_uncommitted(played: Scene, at_commit: list[Stop]) -> None:
    """What stood between produce and commit is there for read_uncommitted, and for nobody else."""
    bootstrap = played.stack.bootstrap
    committed = dumps.dump(bootstrap, OUTPUTS)
    gone = dumps.aborted(bootstrap, OUTPUTS, committed)
    wanted = sum(len(stop.held) for stop in at_commit)
    played.evidence.figure("emitted records that only read_uncommitted shows", len(gone), of_stopped_commits=wanted)
    played.evidence.demand(wanted > 0, "no worker was stopped with records in the log")
    played.evidence.demand(len(gone) >= wanted, f"{wanted} records stood uncommitted at a stop, {len(gone)} do now")


def _judge_sink(played: Scene, held: dict[tuple[str, int], Stop]) -> None:
    """Everybody who was stopped in a handler calls when it wakes: refused, where a newer attempt has called before."""
    in_handler = {key: stop.woken_at for key, stop in held.items() if stop.where == "handler"}
    wrong, counts = calls.zombies(played.sink.lines(), in_handler)
    spoke, late = counts["after waking"], counts["after a newer attempt's"]
    played.evidence.figure("calls of zombies", spoke, after_a_newer_attempt=late, stopped_in_handler=len(in_handler))
    played.evidence.demand(spoke == len(in_handler), f"{spoke} of {len(in_handler)} zombies called when they woke")
    bar = LATE_PART * len(in_handler)
    played.evidence.demand(0 < late >= bar, f"{late} of {len(in_handler)} zombies called after a newer attempt")
    played.evidence.none_of(wrong, "calls under an older fence that were not refused")
