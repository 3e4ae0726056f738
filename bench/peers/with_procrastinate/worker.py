"""A worker of procrastinate: many jobs at a time, and a look at what became due twenty times a second."""

from __future__ import annotations

import uvloop

from bench.peers.with_procrastinate.tasks import app


async def work() -> None:
    """Until it is ended."""
    async with app.open_async():
        await app.run_worker_async(concurrency=20, fetch_job_polling_interval=0.05)


uvloop.run(work())
