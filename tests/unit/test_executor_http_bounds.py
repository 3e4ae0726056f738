"""Bounds of HTTP callbacks that begin before the call, and dates that mean the same on every machine."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import orjson
import pytest

from tests.unit.executor_world import CLOCK, Target, attempt_of, bench_of
from waterclock.egress.allow import AllowList
from waterclock.egress.destination import Destination
from waterclock.egress.guard import Guard, Passage
from waterclock.egress.http_client import HttpClient, HttpRequest
from waterclock.egress.refusals import Unreachable
from waterclock.model.errors import RequestError
from waterclock.model.events import Outcome
from waterclock.model.executor import HttpCall
from waterclock.model.ids import US_PER_S


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


class Silent:
    """A resolver that knows nothing until it is told to."""

    def __init__(self) -> None:
        self.is_known = False

    async def resolve(self, host: str, port: int) -> list[str]:
        while not self.is_known:
            await asyncio.sleep(0.01)
        return ["127.0.0.1"]


def test_the_time_for_a_name_counts_as_time_of_the_call(target: Target) -> None:
    """Given a call whose time is over before its address is known, then it has timed out, and is not made later."""
    names = Silent()
    with bench_of(names, egress={"allow": (f"slow.example:{target.port}", target.place)}) as bench:
        ended = bench.run(HttpCall(f"http://slow.example:{target.port}/?token=hush", timeout_s=0.1))
        assert (ended.outcome, ended.error_class) == (Outcome.TIMED_OUT, "timed-out")
        assert "before its address was known" in ended.error_message
        assert "hush" not in ended.error_message
        names.is_known = True
        time.sleep(0.2)
        assert target.arrivals == []


def test_a_call_whose_time_ended_with_its_address_has_timed_out(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a loop that was held up just then, so that the address is there and no time is left, then it says so."""

    class Ready:
        async def resolve(self, host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

    client = HttpClient(guard := Guard(AllowList([f"slow.example:{target.port}"]), CLOCK, resolver=Ready()))
    passage = guard.passage

    async def late(destination: Destination, *, within_s: float | None = None) -> Passage:
        found = await passage(destination, within_s=within_s)
        time.sleep(0.1)
        return found

    monkeypatch.setattr(guard, "passage", late)
    with pytest.raises(Unreachable, match="was over before it could be called") as caught:
        asyncio.run(client.send(HttpRequest(f"http://slow.example:{target.port}/", "GET", {}, b"", 0.06)))
    assert caught.value.error_class == "timed-out"
    assert target.arrivals == []


def test_what_a_name_took_is_missing_for_the_answer(target: Target) -> None:
    def late(_: object) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.6)
        return 200, {}, b""

    target.answer = late
    with bench_of(Slow(), egress={"allow": (f"slow.example:{target.port}", target.place)}) as bench:
        ended = bench.run(HttpCall(f"http://slow.example:{target.port}/", timeout_s=0.8))
    assert (ended.outcome, ended.error_class) == (Outcome.TIMED_OUT, "timed-out")


def held(target: Target) -> tuple[threading.Event, threading.Event]:
    """Its answers wait for the second event; the first one says that a call has come."""
    arrived, release = threading.Event(), threading.Event()

    def slow(_: object) -> tuple[int, dict[str, str], bytes]:
        arrived.set()
        release.wait(20.0)
        return 200, {}, b""

    target.answer = slow
    return arrived, release


def test_a_call_that_got_no_connection_names_the_setting(target: Target) -> None:
    """Given a pool of one connection that a slow answer holds, then the next call was never made, and says why."""
    arrived, release = held(target)
    with bench_of(egress={"allow": (target.place,), "connections": 1}) as bench:
        bench.executors.submit([attempt_of(HttpCall(f"http://{target.place}/"))])
        assert arrived.wait(20.0)
        ended = bench.run(HttpCall(f"http://{target.place}/", timeout_s=0.2))
        assert (ended.outcome, ended.error_class) == (Outcome.TIMED_OUT, "timed-out")
        assert "none of the 1 connections was free in 0.2 s; see egress.connections" in ended.error_message
        release.set()
        assert bench.ends(1)[0].outcome is Outcome.SUCCEEDED
        assert bench.run(HttpCall(f"http://{target.place}/")).outcome is Outcome.SUCCEEDED
    assert len(target.arrivals) == 2


def test_a_call_that_is_stopped_while_it_waits_for_a_connection_was_never_made(target: Target) -> None:
    arrived, release = held(target)
    with bench_of(egress={"allow": (target.place,), "connections": 1}) as bench:
        made, waits = (attempt_of(HttpCall(f"http://{target.place}/"), number=number) for number in range(2))
        bench.executors.submit([made])
        assert arrived.wait(20.0)
        bench.executors.submit([waits])
        bench.executors.force([waits])
        assert [(end.attempt, end.has_begun) for end in bench.ends(1)] == [(waits, False)]
        bench.executors.force([made])
        assert [(end.attempt, end.has_begun) for end in bench.ends(1)] == [(made, True)]
        release.set()
    assert len(target.arrivals) == 1


def _without_a_zone(at_s: float) -> str:
    return time.asctime(time.gmtime(at_s))


@pytest.mark.parametrize("form", [_without_a_zone, formatdate], ids=["asctime", "-0000"])
def test_a_date_without_a_zone_is_utc_wherever_the_worker_is(
    target: Target, monkeypatch: pytest.MonkeyPatch, form: Callable[[float], str]
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        target.answer = lambda _: (503, {"retry-after": form(CLOCK.now() / US_PER_S + 90)}, b"")
        with bench_of(egress={"allow": (target.place,)}) as bench:
            ended = bench.run(HttpCall(f"http://{target.place}/"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert 80 * US_PER_S <= ended.retry_after_us <= 95 * US_PER_S


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_authorities_that_cannot_be_read_stop_the_start_and_name_the_setting(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with (
        pytest.raises(RequestError, match=r"egress\.ca_file cannot be used: .*ca\.pem"),
        bench_of(egress={"ca_file": file}),
    ):
        pass


@pytest.mark.parametrize("size", [8_170, 8_180, 8_192, 8_193])
def test_of_an_answer_that_just_does_not_fit_the_end_is_kept(target: Target, size: int) -> None:
    body = b'{"a":"' + b"x" * (size - 8) + b'"}'
    target.answer = lambda _: (200, {"content-type": "application/json"}, body)
    with bench_of(egress={"allow": (target.place,)}) as bench:
        result = orjson.loads(bench.run(HttpCall(f"http://{target.place}/")).result or b"")
    assert len(str(result["body"])) >= 4_000
