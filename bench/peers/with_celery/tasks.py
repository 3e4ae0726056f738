"""Celery on Redis: the task, its worker's settings, and beat's entries."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.schedules import schedule

from bench.peers import handler

EVERY = timedelta(days=1)
"""So long that nothing becomes due a second time while beat works the herd off."""

app = Celery("peer", broker=handler.SERVER)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=int(os.environ.get("PEER_PREFETCH", "64")),
    task_ignore_result=True,
    worker_send_task_events=False,
    worker_disable_rate_limits=True,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(index: int) -> None:
    """Say that it ran."""
    handler.stamp(index)


def beat_entries(first: int, count: int, at: float) -> dict[str, dict[str, object]]:
    """One entry for each task, all of them due at ``at``, and then not for a day."""
    before = datetime.fromtimestamp(at, UTC) - EVERY
    return {
        f"job-{index}": {
            "task": "noop",
            "args": (index,),
            "schedule": schedule(run_every=EVERY),
            "last_run_at": before,
        }
        for index in range(first, first + count)
    }


if "PEER_HERD" in os.environ:
    _first, _count, _at = os.environ["PEER_HERD"].split()
    app.conf.beat_schedule = beat_entries(int(_first), int(_count), float(_at))
