"""APScheduler: one process that keeps its jobs in PostgreSQL or in memory, and runs them in threads of its own.

Another process could write to the store, but the scheduler would not hear of it: so it takes the orders itself.
"""

from __future__ import annotations

from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from bench.peers.handler import SERVER, obey, stamp


def noop(index: int) -> None:
    """Say that it ran."""
    stamp(index)


def store_of(address: str) -> BaseJobStore:
    """The store at an address; "memory" is the scheduler's own memory."""
    return MemoryJobStore() if address == "memory" else SQLAlchemyJobStore(url=address)


scheduler = BackgroundScheduler(
    jobstores={"default": store_of(SERVER)},
    executors={"default": ThreadPoolExecutor(4)},
    job_defaults={"misfire_grace_time": None, "coalesce": False},
    timezone=UTC,
)


def delay(first: int, count: int, at: float) -> None:
    """One job for each, due at ``at``. Asleep meanwhile: a scheduler that is awake looks at its store after each."""
    when = datetime.fromtimestamp(at, UTC)
    scheduler.pause()
    for index in range(first, first + count):
        scheduler.add_job("bench.peers.with_apscheduler.scheduler:noop", "date", (index,), run_date=when)
    scheduler.resume()


def enqueue(first: int, count: int) -> None:
    """Due at once."""
    delay(first, count, datetime.now(UTC).timestamp())


if __name__ == "__main__":
    scheduler.start()
    obey(enqueue, delay)
