"""Puts jobs into procrastinate's table, a thousand with each statement; makes the tables first."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import uvloop

from bench.peers.handler import obey
from bench.peers.with_procrastinate.tasks import app, noop

AT_ONCE = 1_000


async def _enqueue(first: int, count: int, at: datetime | None = None) -> None:
    deferrer = noop.configure(schedule_at=at)
    for begin in range(first, first + count, AT_ONCE):
        indexes = range(begin, min(begin + AT_ONCE, first + count))
        await deferrer.batch_defer_async(*({"index": index} for index in indexes))


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(app.open_async().__aenter__())
    runner.run(app.schema_manager.apply_schema_async())
    obey(
        lambda first, count: runner.run(_enqueue(first, count)),
        lambda first, count, at: runner.run(_enqueue(first, count, datetime.fromtimestamp(at, UTC))),
    )
