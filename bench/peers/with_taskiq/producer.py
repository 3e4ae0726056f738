"""Puts messages into taskiq's stream, several at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import uvloop

from bench.peers.handler import obey
from bench.peers.with_taskiq.tasks import broker, noop, source

AT_ONCE = 50


async def _enqueue(first: int, count: int) -> None:
    for begin in range(first, first + count, AT_ONCE):
        await asyncio.gather(*(noop.kiq(index) for index in range(begin, min(begin + AT_ONCE, first + count))))


async def _delay(first: int, count: int, at: float) -> None:
    when = datetime.fromtimestamp(at, UTC)
    for begin in range(first, first + count, AT_ONCE):
        indexes = range(begin, min(begin + AT_ONCE, first + count))
        await asyncio.gather(*(noop.schedule_by_time(source, when, index) for index in indexes))


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(broker.startup())
    runner.run(source.startup())
    obey(
        lambda first, count: runner.run(_enqueue(first, count)),
        lambda first, count, at: runner.run(_delay(first, count, at)),
    )
