"""What a case of the Store's suite is given: clients of one store, its time, and values to put into it.

Cases share a real keyspace, so each world has a tenant and minutes of its own. ``pass_until`` is the only way to let
time go by: in memory the clock is moved, on a real node it waits for the condition.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from waterclock.clock import Clock, ManualClock
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, slot_of
from waterclock.model.job import Cron, JobSpec, JobStatus, JobVersion, Schedule, Tier
from waterclock.store.port import DueDelete, DueRow, JobChange, JobRow, RunRow, Store

US_PER_DAY = 86_400 * US_PER_S

_minutes = itertools.count(10, 10)
CRON = Cron("0 9 * * *", "Europe/Berlin")


@dataclass
class StoreWorld:
    """``store`` and ``other`` are two clients of the same tables. ``now`` is fixed when the case begins."""

    kind: str
    store: Store
    other: Store
    clock: Clock
    tenant: str

    def __post_init__(self) -> None:
        self.now = self.clock.now()
        self.minute = self.now // US_PER_MINUTE + next(_minutes)

    def pass_until(self, condition: Callable[[], bool], within_s: float = 15.0) -> None:
        """Let time go by until ``condition``; fails when it does not come true."""
        until = time.monotonic() + within_s
        for _ in range(200):
            if condition():
                return
            if isinstance(self.clock, ManualClock):
                self.clock.advance(US_PER_S // 4)
            else:
                time.sleep(0.1)
            if time.monotonic() > until:
                break
        raise AssertionError(f"not within {within_s} s")

    def job_id(self, name: str = "job") -> str:
        return f"{self.tenant}:{name}"

    def due(
        self,
        *,
        slot: int = 7,
        minute: int | None = None,
        second: float = 0.0,
        name: str = "job",
        revision: int = 11,
        entry: str = "",
        attempt: int = 1,
        tenant: str | None = None,
        env: bytes = b"envelope",
        wts: int | None = None,
    ) -> DueRow:
        minute = self.minute if minute is None else minute
        due_at = minute * US_PER_MINUTE + int(second * US_PER_S)
        tenant = self.tenant if tenant is None else tenant
        return DueRow(
            slot,
            minute,
            due_at,
            self.job_id(name),
            revision,
            entry,
            due_at - 1,
            attempt,
            Tier.HIGH,
            tenant,
            env,
            wts or self.now,
        )

    def due_at_edge_of_life(self, left_s: int, **parts: object) -> DueRow:
        """A row that was due almost three days ago: it expires in ``left_s`` seconds."""
        due_at = self.clock.now() - 3 * US_PER_DAY + left_s * US_PER_S
        row = self.due(minute=due_at // US_PER_MINUTE)
        return row._replace(due_at=due_at, fire_at=due_at)._replace(**parts)  # type: ignore[arg-type]  # fields by name

    def delete(self, row: DueRow, wts: int) -> DueDelete:
        return DueDelete(row.slot, row.minute, row.due_at, row.job_id, row.revision, row.entry, wts)

    def bucket(self, row: DueRow) -> list[DueRow]:
        return self.store.load_due([row.slot], row.minute)

    def version(self, name: str = "job", revision: int = 11, stamp: int | None = None, **parts: object) -> JobVersion:
        version = JobVersion(
            self.job_id(name),
            revision,
            self.spec(),
            JobStatus.ACTIVE,
            "ann",
            self.now if stamp is None else stamp,
            5,
            revision,
            self.now,
        )
        return version._replace(**parts)  # type: ignore[arg-type]  # fields by name

    def spec(self, schedule: Schedule = CRON, payload: bytes = b"\x00\xffbytes") -> JobSpec:
        return JobSpec("demo.ping", schedule, Tier.LOW, "big", payload)

    def job(self, name: str = "job", revision: int = 11, stamp: int | None = None, **parts: object) -> JobRow:
        stamp = self.now if stamp is None else stamp
        job = JobRow(
            self.job_id(name),
            self.spec(),
            JobStatus.ACTIVE,
            revision,
            5,
            revision,
            self.now,
            stamp,
            2,
            40,
            stamp,
        )
        return job._replace(**parts)  # type: ignore[arg-type]  # fields by name

    def change(self, name: str = "job", revision: int = 11, stamp: int | None = None, **parts: object) -> JobChange:
        """A command's whole effect: job and version agree."""
        job = self.job(name, revision, stamp, **parts)
        version = self.version(name, revision, stamp, spec=job.spec, status=job.status)
        return JobChange(job, version)

    def write_due(self, *rows: DueRow) -> None:
        self.store.write_due(rows)

    def remove(self, *deletes: DueDelete, client: Store | None = None) -> None:
        (client or self.store).apply([JobChange(self.job(), None, (), deletes)])

    def run(self, name: str = "job", **parts: object) -> RunRow:
        run = RunRow(
            self.job_id(name),
            self.now,
            0,
            11,
            Tier.HIGH,
            "SCHEDULE",
            RunStatus.SUCCEEDED,
            Outcome.SUCCEEDED,
            1,
            self.now + 1,
            self.now + 2,
            self.now + 3,
            "workers-1",
            99,
            "",
            b"result",
            "",
            "Europe/Berlin",
            "2026f",
            0,
            0,
            self.now,
        )
        return run._replace(**parts)  # type: ignore[arg-type]  # fields by name

    def slot(self, name: str) -> int:
        return slot_of(self.job_id(name))
