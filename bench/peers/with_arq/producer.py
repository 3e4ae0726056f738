"""Puts jobs into arq's queue, several at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import uvloop
from arq import create_pool
from arq.connections import RedisSettings

from bench.peers.handler import SERVER, obey

AT_ONCE = 50


async def _enqueue(first: int, count: int, at: datetime | None = None) -> None:
    for begin in range(first, first + count, AT_ONCE):
        indexes = range(begin, min(begin + AT_ONCE, first + count))
        await asyncio.gather(*(pool.enqueue_job("noop", index, _defer_until=at) for index in indexes))


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    pool = runner.run(create_pool(RedisSettings.from_dsn(SERVER)))
    obey(
        lambda first, count: runner.run(_enqueue(first, count)),
        lambda first, count, at: runner.run(_enqueue(first, count, datetime.fromtimestamp(at, UTC))),
    )
