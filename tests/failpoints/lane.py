"""One role process that is struck again and again: armed, dead, its successor unarmed and at work, armed again.

Steps, not threads: a child dies with the thread that started it, and the load goes on meanwhile. What a strike needs
elsewhere (a worker's death) the lane brings about itself. Every wait has a bound; what did not come is a complaint.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.acceptance.kills import Kill
from tests.acceptance.real_stack import RoleProcess
from tests.failpoints.points import Point, Provoke
from tests.failpoints.progress import Progress, Signs
from waterclock.model.ids import partition_of

_LEAVES_WITHIN_S = 20.0
_REACHED_WITHIN_S = 45.0
_BACK_WITHIN_S = 40.0
_PEACE_S = 1.0
_DIES_AGAIN_AFTER_S = 6.0
_TRIES = 3


def keep_up(role: RoleProcess) -> str:
    """What a supervisor does: start it again where it has ended by itself; returns its last line then, else ""."""
    if role.process is None or role.process.poll() is None:
        return ""
    said = f"{role.instance}, {role.process.returncode}: {role.log_path.read_text().rstrip().rpartition(chr(10))[2]}"
    role.stop()
    role.start()
    return said


class Strike(NamedTuple):
    """A point that is to be struck at this visit; ``tries``: how often it was tried in vain."""

    point: Point
    visit: int
    tries: int = 0


class Struck(NamedTuple):
    """A crash that happened: where, when, and when its successor's first round stood in the log (microseconds)."""

    point: str
    instance: str
    visit: int
    at: int
    back_at: int


class Victims:
    """Workers whose deaths others are to notice, one for each keeper: told by where their beats lie.

    ``kills``: every SIGKILL from outside.
    """

    def __init__(self, workers: Mapping[str, RoleProcess], progress: Progress, partitions: int) -> None:
        self._workers = workers
        self._progress = progress
        self._partitions = partitions
        self.kills: list[Kill] = []

    def kept_by(self, router: str) -> RoleProcess | None:
        """The one whose lease this router keeps; None while the keepers' group is on the move."""
        for name, worker in self._workers.items():
            if self._progress.owner("keeper", partition_of(name, self._partitions)) == router:
                return worker
        return None

    def kill(self, worker: RoleProcess) -> None:
        """SIGKILL; it stays away until it is started."""
        keep_up(worker)
        worker.kill()
        self.kills.append(Kill(worker.instance, time.time_ns() // 1_000, False))


class Lane:
    """Strikes one process; ``go_on`` takes the next step. ``struck`` and ``complaints`` say what came of it.

    ``ended``: the last lines of lives that ended by themselves; whoever supervises roles starts them again.
    """

    def __init__(
        self, role: RoleProcess, plan: list[Strike], progress: Progress, victims: Victims, notes: Path, dice: Random
    ) -> None:
        self.role = role
        self.struck: list[Struck] = []
        self.complaints: list[str] = []
        self.ended: list[str] = []
        self._plan = plan
        self._progress = progress
        self._victims = victims
        self._notes = notes
        self._dice = dice
        self._step: Callable[[], None] = self._rest
        self._strike: Strike | None = None
        self._signs: Signs = frozenset()
        self._victim: RoleProcess | None = None
        self._died_at_s = 0.0
        self._has_seen = False
        self._until_s = time.monotonic()
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Nothing is left to strike, and the last successor is at work."""
        return not self._plan and self._strike is None

    @property
    def left(self) -> int:
        """How many strikes are to come."""
        return len(self._plan)

    @property
    def is_struck(self) -> bool:
        """A strike is under way: its process is about to die, or not yet back."""
        return self._strike is not None

    def go_on(self, *, may_begin: bool) -> None:
        """What is due by now; where it may not begin, a strike that is under way goes on all the same."""
        if may_begin or self._strike is not None:
            self._step()

    # Arming -------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        said = keep_up(self.role)
        if said:
            self.ended.append(said)
        if not self._plan or time.monotonic() < self._until_s or not self.role.ready_path.exists():
            return
        strike = self._plan[-1]
        self._signs = self._progress.signs_of(strike.point.core, self.role.instance)
        if strike.point.provoke is not Provoke.NOTHING:
            self._victim = self._victims.kept_by(self.role.instance)
        if not self._signs or (strike.point.provoke is not Provoke.NOTHING and self._victim is None):
            return
        self._plan.pop()
        self._strike = strike
        self._take_down()
        self._go(self._leave, _LEAVES_WITHIN_S)

    def _take_down(self) -> None:
        """Drained; a worker is killed, because one that leaves its groups has them wait for whoever else is dead.

        That is ten seconds for a worker that stays away beyond its lease, and not what is to be measured.
        """
        assert self.role.process is not None
        if self.role.role == "workers":
            self._victims.kill(self.role)
        else:
            self.role.process.terminate()

    def _leave(self) -> None:
        process = self.role.process
        assert process is not None
        assert self._strike is not None
        if process.poll() is None and time.monotonic() < self._until_s:
            return
        if process.poll() is None:
            self.complaints.append(f"{self.role.instance} was told to stop and did not within {_LEAVES_WITHIN_S:.0f} s")
        self.role.stop(0.1)
        self.role.env |= {"FAILPOINT": f"{self._strike.point.name}:{self._strike.visit}"}
        self.role.start()
        self._died_at_s, self._has_seen = 0.0, False
        self._go(self._await_crash, _REACHED_WITHIN_S)

    # Dying --------------------------------------------------------------------------------------------------------

    def _await_crash(self) -> None:
        process = self.role.process
        assert process is not None
        if process.poll() is not None:
            self._crashed(process.returncode)
        elif time.monotonic() > self._until_s:
            self.role.kill()
            self._missed()
        elif self.role.ready_path.exists():
            self._see_what_it_owns()
            self._provoke()

    def _see_what_it_owns(self) -> None:
        """Once: a restart that took longer than its session may have moved partitions, and others go on with those."""
        assert self._strike is not None
        if not self._has_seen:
            self._signs = self._progress.signs_of(self._strike.point.core, self.role.instance) or self._signs
            self._has_seen = True

    def _provoke(self) -> None:
        """A death that comes too early is nobody's news any more: only once the armed one is at work."""
        assert self._strike is not None
        worker, now_s = self._victim, time.monotonic()
        if worker is None or self._strike.point.provoke is Provoke.NOTHING:
            return
        if self._strike.point.provoke is Provoke.SILENCE:
            if not self._died_at_s:
                self._victims.kill(worker)
                self._died_at_s = now_s
        elif worker.ready_path.exists() and now_s > self._died_at_s + _DIES_AGAIN_AFTER_S:
            self._victims.kill(worker)
            worker.start()
            self._died_at_s = now_s

    def _crashed(self, code: int) -> None:
        assert self.role.process is not None
        assert self._strike is not None
        note = self._note_of(self.role.process.pid)
        self.role.stop()
        if code != -signal.SIGKILL or note is None:
            self.complaints.append(f"{self.role.instance} ended by itself with {code}, armed with {self._strike[:2]}")
            self._missed()
            return
        self._at = note
        self._start_unarmed()
        self._go(self._await_back, _BACK_WITHIN_S)

    def _note_of(self, pid: int) -> int | None:
        """When this process struck its point, by its own note."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        told = (json.loads(line) for line in lines)
        return next((note["at"] for note in told if note["pid"] == pid), None)

    def _missed(self) -> None:
        """Nobody came by: once more, at its first visit; the check misses the point where that never works."""
        assert self._strike is not None
        if self._strike.tries + 1 < _TRIES:
            self._plan.insert(0, Strike(self._strike.point, 1, self._strike.tries + 1))
        self._start_unarmed()
        self._at = time.time_ns() // 1_000
        self._strike = None
        self._end()

    # Coming back --------------------------------------------------------------------------------------------------

    def _start_unarmed(self) -> None:
        self.role.env.pop("FAILPOINT", None)
        self.role.start()

    def _await_back(self) -> None:
        assert self._strike is not None
        said = keep_up(self.role)
        if said:
            self.ended.append(said)
        back_at = self._progress.first_after(self._signs, self._at)
        if back_at is not None:
            point, visit, _ = self._strike
            self.struck.append(Struck(point.name, self.role.instance, visit, self._at, back_at))
            self._end()
        elif time.monotonic() > self._until_s:
            name = self._strike.point.name
            self.complaints.append(f"{self.role.instance}: {name}: no round of it within {_BACK_WITHIN_S:.0f} s")
            self._end()

    def _end(self) -> None:
        """Peace, of a length that the dice know, so that the next strike meets another moment."""
        worker, self._victim = self._victim, None
        if worker is not None and worker.process is not None and worker.process.poll() is not None:
            worker.start()
        self._strike = None
        self._go(self._rest, self._dice.uniform(0.0, _PEACE_S))

    def _go(self, step: Callable[[], None], bound_s: float) -> None:
        self._step, self._until_s = step, time.monotonic() + bound_s
