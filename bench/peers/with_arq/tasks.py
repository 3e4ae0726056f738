"""Arq on Redis: its worker's settings."""

from __future__ import annotations

from arq.connections import RedisSettings

from bench.peers import handler


async def noop(_context: dict[str, object], index: int) -> None:
    """Say that it ran."""
    handler.stamp(index)


class Worker:
    """What `arq` reads."""

    functions = [noop]
    redis_settings = RedisSettings.from_dsn(handler.SERVER)
    max_jobs = 100
    poll_delay = 0.01
    keep_result = 0
    log_results = False
