"""Calls one target as fast as one core allows, by turns: the bare client library, and a worker's HTTP executor.

``python -m tests.acceptance.calls.rate_caller <place> <secret> <core> <turns> <seconds>`` prints one JSON line a turn:
who called, how many calls ended well, how many did not, in how many seconds of wall and of processor time, and whether
this process had its core for itself in that turn and its neighbour: turns in which it had not are made again, up to
four times as many. Whoever runs it pins nothing: it pins itself, with all threads that it will start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from itertools import count
from typing import Any

import aiohttp
import uvloop
from waterclock.workers.executors.building import executors_of
from waterclock.workers.executors.by_kind import ExecutorsByKind

from tests.acceptance.calls.caller import attempt
from waterclock.app import App
from waterclock.clock import SystemClock
from waterclock.model.events import Outcome
from waterclock.settings import Settings

AT_ONCE = 100
"""Calls in flight, of either."""

PAYLOAD = json.dumps({"invoice": "2026-11-18/4711", "customer": "acme", "lines": ["x" * 40] * 4}).encode()
_WARM_UP_S = 0.5
_ALONE = 0.85
"""A pair counts if this caller had so much of its core; else somebody else was measured, too."""

_TRIES = 4


async def _bare(url: str, seconds: float) -> tuple[int, int]:
    """The library as its documentation shows it: one session, one body, the status read and the answer too."""
    good = bad = 0
    until_s = time.perf_counter() + seconds
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one_after_the_other() -> None:
            nonlocal good, bad
            while time.perf_counter() < until_s:
                async with session.post(url, data=PAYLOAD, headers={"Content-Type": "application/json"}) as response:
                    await response.read()
                    good, bad = good + (response.status == 200), bad + (response.status != 200)

        await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return good, bad


def _ours(executors: ExecutorsByKind, url: str, numbers: count[int], seconds: float) -> tuple[int, int]:
    """As the round thread does it: hand over what fits, take back what has ended."""
    good = bad = running = 0
    until_s = time.perf_counter() + seconds
    call = json.dumps({"http": {"url": url}})
    while running or time.perf_counter() < until_s:
        if time.perf_counter() < until_s:
            executors.submit([attempt(call, next(numbers), PAYLOAD) for _ in range(AT_ONCE - running)])
            running = AT_ONCE
        executors.wait(AT_ONCE // 4, 0.005)
        ended = executors.take_ended()
        running -= len(ended)
        well = sum(end.outcome is Outcome.SUCCEEDED for end in ended)
        good, bad = good + well, bad + len(ended) - well
    return good, bad


def _pair(
    executors: ExecutorsByKind, url: str, numbers: count[int], seconds: float, *, first: str
) -> list[dict[str, Any]]:
    """One turn of each."""
    pair = []
    for who in (first, {"ours": "bare", "bare": "ours"}[first]):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        good, bad = uvloop.run(_bare(url, seconds)) if who == "bare" else _ours(executors, url, numbers, seconds)
        spent = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
        pair.append({"who": who, "good": good, "bad": bad, **spent})
    return pair


def main(place: str, secret: str, core: str, turns: str, seconds: str) -> None:
    os.sched_setaffinity(0, {int(core)})
    gc.set_threshold(50_000, 20, 100)  # for both, as a worker process does
    url = f"http://{place}/hooks/invoice"
    settings = Settings(egress={"allow": (place,)}, webhook={"secrets": {"default": secret}})
    executors = executors_of(App(), settings, SystemClock(), lambda _: False)
    numbers = count()
    _pair(executors, url, numbers, _WARM_UP_S, first="bare")
    counted = 0
    for turn in range(_TRIES * int(turns)):
        pair = _pair(executors, url, numbers, float(seconds), first=("ours", "bare")[turn % 2])
        alone = all(each["cpu_s"] >= _ALONE * each["wall_s"] for each in pair)
        counted += alone
        for each in pair:
            print(json.dumps({**each, "alone": alone}), flush=True)
        if counted == int(turns):
            break
    executors.stop(5.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
