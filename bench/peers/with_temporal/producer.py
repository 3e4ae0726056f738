"""Starts workflows, several at a time."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from temporalio.client import Client

from bench.peers.handler import SERVER, obey
from bench.peers.with_temporal.work import QUEUE, Once

AT_ONCE = 50


async def _enqueue(client: Client, first: int, count: int, at: float | None = None) -> None:
    for begin in range(first, first + count, AT_ONCE):
        indexes = range(begin, min(begin + AT_ONCE, first + count))
        after = None if at is None else timedelta(seconds=at - time.time())
        await asyncio.gather(
            *(
                client.start_workflow(Once.run, index, id=f"run-{index}", task_queue=QUEUE, start_delay=after)
                for index in indexes
            )
        )


with asyncio.Runner() as runner:
    connected = runner.run(Client.connect(SERVER))
    obey(
        lambda first, count: runner.run(_enqueue(connected, first, count)),
        lambda first, count, at: runner.run(_enqueue(connected, first, count, at)),
    )
