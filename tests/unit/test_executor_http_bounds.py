"""Bounds of HTTP callbacks that begin before the call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.unit.executor_world import Target, bench_of
from waterclock.model.events import Outcome
from waterclock.model.executor import HttpCall


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.close()


class Slow:
    """A resolver that takes its time."""

    async def resolve(self, host: str, port: int) -> list[str]:
        await asyncio.sleep(0.5)
        return ["127.0.0.1"]


def test_the_time_for_a_name_counts_as_time_of_the_call(target: Target) -> None:
    """Given a call whose time is over before its address is known, then it has timed out, and is not made later."""
    with bench_of(Slow(), egress={"allow": (f"slow.example:{target.port}", target.place)}) as bench:
        began_s = time.monotonic()
        ended = bench.run(HttpCall(f"http://slow.example:{target.port}/?token=hush", timeout_s=0.1))
        assert time.monotonic() - began_s < 0.4
        assert (ended.outcome, ended.error_class) == (Outcome.TIMED_OUT, "timed-out")
        assert "before its address was known" in ended.error_message
        assert "hush" not in ended.error_message
        time.sleep(0.6)
        assert target.arrivals == []


def test_what_a_name_took_is_missing_for_the_answer(target: Target) -> None:
    def late(_: object) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.6)
        return 200, {}, b""

    target.answer = late
    with bench_of(Slow(), egress={"allow": (f"slow.example:{target.port}", target.place)}) as bench:
        ended = bench.run(HttpCall(f"http://slow.example:{target.port}/", timeout_s=0.8))
    assert (ended.outcome, ended.error_class) == (Outcome.TIMED_OUT, "timed-out")
