"""The backfills of one shard: what each has done, and what is written of that.

What must hold: memory, the record in the state topic and the runs change in one round, so a successor goes on behind
the last run that was made. A backfill is known from its command until nothing of it is open any more. Backfills of one
job go one after the other; one that is paused lets the next one pass. How it fails: a round that does not land drops
the whole shard, and what is committed is taken over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from waterclock.model.backfill import ENDED, Backfilled, BackfillStatus, make_backfill_id
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import EventKind, RunEvent, RunStatus
from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion
from waterclock.wire import codec
from waterclock.wire.messages import BACKFILL_PREFIX

if TYPE_CHECKING:
    from .backfill_reading import Found, Reading
    from .emit import Emitter
    from .shard import Shard

DELETED = "deleted"
HISTORY_GONE = "history-gone"
REVISION_GONE = "revision-gone"
SCHEDULE_GONE = "schedule-gone"
"""It does not compile any more."""

_COUNTED_AS = {
    RunStatus.SUCCEEDED: "succeeded_count",
    RunStatus.FAILED: "failed_count",
    RunStatus.CANCELLED: "cancelled_count",
}


class Backfill:
    """One backfill. ``told``: as it stands; ``version``: what its runs are made of, once it was read.

    ``existing``: which fires have run, once that is known. ``is_untold``: run-events do not say yet how it stands;
    ``told_s``: when its progress was told last (monotonic seconds). ``lost``: why it cannot go on, or "". ``served``:
    its number in the order in which backfills of its shard made something last; 0: it never did. ``asked_about``: the
    fire because of which it was read anew.
    """

    __slots__ = (
        "asked_about",
        "existing",
        "is_illegible",
        "is_untold",
        "job_id",
        "lost",
        "reading",
        "served",
        "told",
        "told_s",
        "version",
        "waits_for_history",
    )

    def __init__(self, job_id: str, told: Backfilled, version: JobVersion | None = None) -> None:
        self.job_id = job_id
        self.told = told
        self.version = version
        self.existing: Found | None = None
        self.reading: Reading | None = None
        self.is_untold = False
        self.told_s = -1e9
        self.lost = ""
        self.is_illegible = False
        """This release cannot read what its runs are made of: it waits for an owner who can."""
        self.served = 0
        self.asked_about: Instant = -1
        self.waits_for_history = False

    @property
    def backfill_id(self) -> str:
        return make_backfill_id(self.job_id, self.told.number)

    @property
    def all_decided(self) -> bool:
        """Whether every fire of its range is decided."""
        return self.told.position_at >= self.told.to_at - 1

    def ask_about(self, fire_at: Instant) -> None:
        """This fire waited for others when it was read, and nobody here holds it: read what became of it, once.

        Should it wait all the same, its record is of a later release: only that can let it go, and takes the shard over
        for it. To read on and on would let no other backfill of the shard have its turn.
        """
        if self.asked_about != fire_at:
            self.asked_about = fire_at
            self.forget_existing()

    def forget_existing(self) -> None:
        """What was read of existing runs holds no longer: others may make runs of its fires meanwhile."""
        self.existing = None
        if self.reading is not None:
            self.reading.close()
            self.reading = None


class Backfills:
    """Those of one shard. ``credit``: runs that they may make although work that is on time waits. ``turns``: how often
    they might have been read for."""

    def __init__(self) -> None:
        self._by_job: dict[str, dict[int, Backfill]] = {}
        self._served_count = 0
        self.credit = 0.0
        self.turns = 0

    def __bool__(self) -> bool:
        return bool(self._by_job)

    def __iter__(self) -> Iterator[Backfill]:
        for mine in self._by_job.values():
            yield from mine.values()

    def of_job(self, job_id: str) -> list[Backfill]:
        """The job's, oldest first."""
        return list(self._by_job.get(job_id, {}).values())

    def get(self, job_id: str, number: int) -> Backfill | None:
        return self._by_job.get(job_id, {}).get(number)

    def add(self, backfill: Backfill) -> None:
        self._by_job.setdefault(backfill.job_id, {})[backfill.told.number] = backfill

    def serve(self, backfill: Backfill) -> None:
        """It has made something: it goes behind all others."""
        self._served_count += 1
        backfill.served = self._served_count

    def drop(self, backfill: Backfill) -> None:
        """Nothing of it is left."""
        backfill.forget_existing()
        mine = self._by_job[backfill.job_id]
        del mine[backfill.told.number]
        if not mine:
            del self._by_job[backfill.job_id]

    def active(self) -> list[Backfill]:
        """Of each job the one that may be worked on: the one that was begun, else the oldest that waits."""
        found: list[Backfill] = []
        for mine in self._by_job.values():
            begun = [each for each in mine.values() if each.told.status is BackfillStatus.RUNNING]
            waiting = [each for each in mine.values() if each.told.status is BackfillStatus.WAITING]
            found += (begun or waiting)[:1]
        return found

    def restore(self, records: Iterable[tuple[str, bytes]]) -> list[str]:
        """Begin with what the state topic holds. Returns the keys of records that cannot be read."""
        strange: list[str] = []
        for key, value in records:
            try:
                event = codec.decode_event(value)
            except UndecodableRecord:
                strange.append(key)
                continue
            if isinstance(event.detail, Backfilled):
                self.add(Backfill(event.job_id, event.detail))
        return strange

    def close(self) -> None:
        """Let go of what is being read."""
        for backfill in self:
            backfill.forget_existing()


def open_count(shard: Shard, backfill: Backfill) -> int:
    """How many of its runs are open."""
    job = shard.flow.jobs.get(backfill.job_id)
    number = backfill.told.number
    return 0 if job is None else sum(run.kept.backfill == number for run in job.open.values())


def begin(shard: Shard, out: Emitter, job_id: str, told: Backfilled, now: Instant) -> None:
    """A command has asked for it."""
    backfill = Backfill(job_id, told)
    shard.backfills.add(backfill)
    keep(shard, out, backfill, now)
    tell(out, backfill, now)


def turn(
    shard: Shard, out: Emitter, backfill: Backfill, status: BackfillStatus, now: Instant, reason: str = ""
) -> None:
    """It stands otherwise from now on; one that has ended never does."""
    if backfill.told.status in ENDED or backfill.told.status is status:
        return
    if status is not BackfillStatus.RUNNING:
        backfill.forget_existing()
    if status not in ENDED:
        _unsettle_others(shard, backfill)
    seq = backfill.told.seq + 1
    backfill.told = backfill.told._replace(status=status, seq=seq, reason=reason)
    keep(shard, out, backfill, now)
    tell(out, backfill, now)
    _forget_ended(shard, out, backfill)


def _unsettle_others(shard: Shard, backfill: Backfill) -> None:
    """It may run from now on, perhaps before one that had read already which fires have run: that one reads again."""
    for other in shard.backfills.of_job(backfill.job_id):
        if other is not backfill:
            other.forget_existing()


def cancel_of_job(shard: Shard, out: Emitter, job_id: str, reason: str, now: Instant) -> None:
    """Nothing more is made of this job."""
    for backfill in shard.backfills.of_job(job_id):
        turn(shard, out, backfill, BackfillStatus.CANCELLED, now, reason)


def count_ends(shard: Shard, out: Emitter, now: Instant) -> None:
    """Runs of backfills have ended. In the round that forgets these runs: so each is counted once."""
    ends, shard.flow.backfill_ends = shard.flow.backfill_ends, []
    counted: dict[tuple[str, int], Backfill] = {}
    for job_id, number, status in ends:
        backfill, name = shard.backfills.get(job_id, number), _COUNTED_AS.get(status)
        if backfill is None or name is None:
            continue
        backfill.told = backfill.told._replace(**{name: getattr(backfill.told, name) + 1})
        backfill.is_untold = True
        counted[backfill.job_id, backfill.told.number] = backfill
    for backfill in counted.values():  # all of a backfill's ends first: the last of them may be its own
        keep(shard, out, backfill, now)
        finish(shard, out, backfill, now)


def finish(shard: Shard, out: Emitter, backfill: Backfill, now: Instant) -> None:
    """Where nothing is left to be made, and nothing open, it is done."""
    if open_count(shard, backfill):
        return
    if backfill.told.status is BackfillStatus.RUNNING and backfill.all_decided:
        turn(shard, out, backfill, BackfillStatus.DONE, now)
    elif backfill.told.status in ENDED:
        tell_anew(shard, out, backfill, now)
        _forget_ended(shard, out, backfill)


def tell_anew(shard: Shard, out: Emitter, backfill: Backfill, now: Instant) -> None:
    """Say how it stands, under a new number."""
    backfill.told = backfill.told._replace(seq=backfill.told.seq + 1)
    keep(shard, out, backfill, now)
    tell(out, backfill, now)


def tell(out: Emitter, backfill: Backfill, now: Instant) -> None:
    """Into run-events."""
    backfill.is_untold = False
    out.backfill(_event(backfill, now))


def keep(shard: Shard, out: Emitter, backfill: Backfill, now: Instant) -> None:
    """Into the state topic."""
    out.backfill_kept(shard.partition, _event(backfill, now))


def _event(backfill: Backfill, now: Instant) -> RunEvent:
    return RunEvent(EventKind.BACKFILL, backfill.job_id, "", now, detail=backfill.told)


def _forget_ended(shard: Shard, out: Emitter, backfill: Backfill) -> None:
    if backfill.told.status in ENDED and not open_count(shard, backfill):
        shard.backfills.drop(backfill)
        out.state_forgotten(shard.partition, BACKFILL_PREFIX + backfill.backfill_id)
