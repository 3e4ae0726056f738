"""The stream of run events, over a real socket: in order, of one tenant, to be gone on with, and never in the way."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from tests.free_ports import free_port
from tests.unit.api_world import JOB, ApiWorld, bearer, until
from waterclock.api import keys, serving, stream
from waterclock.api.answers import Answers
from waterclock.api.keyring import Caller
from waterclock.api.problems import Problem
from waterclock.api.tail import SeenBatch
from waterclock.api.watchers import QUEUE_MAX, Watcher, Watchers
from waterclock.log.port import Record
from waterclock.model.events import Answered, CommandVerdict, EventKind, RunEvent
from waterclock.wire.codec import encode_event

JOBS = "/api/v1/jobs"
OPEN = Caller("default", "admin")


class Served(ApiWorld):
    """The same world behind a real listener."""

    def __init__(self, **api: Any) -> None:
        port = free_port()
        super().__init__(port=port, **api)
        self.port = port
        self.second = self.make_services("served")
        self.ready = threading.Event()
        self.server = serving.make_server(self.settings, self.second, self.ready.set)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> Self:
        super().__enter__()
        self.thread.start()
        assert self.ready.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = True
        self.thread.join(15)
        super().__exit__(*error)  # type: ignore[arg-type]  # passed on as they came
        assert not self.thread.is_alive()

    def connect(self, **headers: str) -> Lines:
        return Lines(self.port, headers)


class Lines:
    """The events of one stream, as they come."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self._connection.request("GET", "/api/v1/stream", headers=headers)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        assert self._answer.getheader("content-type", "").startswith("text/event-stream")

    def next(self) -> dict[str, Any]:
        """The next event that is not a comment; {} at the end."""
        fields: dict[str, Any] = {}
        while line := self._answer.readline():
            name, colon, value = line.decode().rstrip("\n").partition(": ")
            if colon and name in ("event", "id", "data"):
                fields[name] = value
            elif not name and "data" in fields:
                return fields | {"data": json.loads(fields["data"])}
        return {}

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def world() -> Iterator[Served]:
    with Served(wait_s=10.0) as world:
        yield world


@contextmanager
def watching(world: Served, **headers: str) -> Iterator[Lines]:
    before = len(world.second.watchers)
    lines = world.connect(**headers)
    until(lambda: len(world.second.watchers) > before)
    try:
        yield lines
    finally:
        lines.close()


def test_what_happens_is_told_as_it_happens(world: Served) -> None:
    with watching(world) as lines:
        world.create()
        run_id = world.client.post(f"{JOBS}/nightly/trigger").json()["run_id"]
        told = [lines.next() for _ in range(2)]

    assert [event["data"]["event"] for event in told] == ["revised", "pending"]
    assert told[1]["data"]["run_id"] == run_id
    assert "event" not in told[0], "facts are plain messages"


def test_nothing_of_another_tenant_is_told(world: Served) -> None:
    mine, other = bearer(world.key(tenant="acme")), bearer(world.key(tenant="globex"))
    with watching(world, **mine) as lines:
        for headers in (other, mine):
            assert world.client.post(JOBS, json=JOB, headers=headers).status_code == 201
        assert lines.next()["data"]["job_id"] == "acme:nightly"


def test_whoever_comes_back_misses_nothing_and_sees_nothing_twice(world: Served) -> None:
    world.create()
    with watching(world) as lines:
        runs = [world.client.post(f"{JOBS}/nightly/trigger").json()["run_id"] for _ in range(2)]
        last = lines.next()
        assert last["data"]["run_id"] == runs[0]
    runs += [world.client.post(f"{JOBS}/nightly/trigger").json()["run_id"] for _ in range(2)]
    with watching(world, **{"Last-Event-ID": last["id"]}) as lines:
        runs.append(world.client.post(f"{JOBS}/nightly/trigger").json()["run_id"])
        assert [lines.next()["data"]["run_id"] for _ in range(4)] == runs[1:]


def test_whoever_comes_back_misses_nothing_of_a_partition_that_was_empty_before(world: Served) -> None:
    world.create(name="first")
    with watching(world) as lines:
        world.client.post(f"{JOBS}/first/trigger")
        last = lines.next()
    names = {f"n-{number}" for number in range(6)}  # of both partitions
    for name in names:
        world.create(name=name)
    with watching(world, **{"Last-Event-ID": last["id"]}) as lines:
        assert {lines.next()["data"]["job_id"] for _ in names} == {f"default:{name}" for name in names}


def test_a_past_that_is_too_long_is_told_as_a_gap(world: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "CATCH_UP_MAX", 3)
    world.create()
    with watching(world) as lines:
        world.client.post(f"{JOBS}/nightly/trigger")
        last = lines.next()
    for _ in range(4):
        world.client.post(f"{JOBS}/nightly/trigger")
    with watching(world, **{"Last-Event-ID": last["id"]}) as lines:
        assert lines.next()["event"] == "gap"
        assert lines.next()["data"]["run_id"]


@pytest.mark.parametrize("mark", ["x", "0", "0:", "0:-1", "0:1;1:2", "0:" + "9" * 30, ",".join(["0:1"] * 300)])
def test_a_mark_that_is_none_is_refused(world: Served, mark: str) -> None:
    answer = world.client.get("/api/v1/stream", headers={"Last-Event-ID": mark})
    assert answer.status_code == 400


def test_a_shutdown_ends_every_stream_with_a_word_and_is_quick() -> None:
    with Served() as world, watching(world) as lines:
        began_s = time.monotonic()
        world.server.should_exit = True
        assert lines.next()["event"] == "closing"
        assert lines.next() == {}
        world.thread.join(10)
        assert not world.thread.is_alive()
        assert time.monotonic() - began_s < 5


def test_too_many_streams_are_refused(world: Served) -> None:
    watchers = Watchers(1)
    watchers.add("acme")
    with pytest.raises(Problem) as refused:
        watchers.add("acme")
    assert refused.value.status == 503


def _record(offset: int, job_id: str = "acme:a") -> Record:
    event = RunEvent(EventKind.CANCEL_REQUESTED, job_id, f"{job_id}@20261121T090000Z", 1)
    return Record("run-events", 0, offset, 1, job_id.encode(), encode_event(event))


def test_a_client_that_does_not_keep_up_is_dropped_and_the_others_are_not() -> None:
    async def story() -> None:
        watchers = Watchers(5)
        slow, quick = watchers.add("acme"), watchers.add("acme")
        for offset in range(QUEUE_MAX + 1):
            watchers.take(SeenBatch([_record(offset), _record(offset, "globex:a")]))
            assert len(await quick.take(0.0)) == 1
        assert slow.lost
        assert await slow.take(0.0) == []
        assert not quick.lost

    asyncio.run(story())


def test_an_event_is_offered_to_those_alone_whom_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given hundreds of streams, of other jobs and of other tenants, then they cost an event nothing."""
    offered: list[Watcher] = []
    monkeypatch.setattr(Watcher, "offer", lambda watcher, _seen: offered.append(watcher))
    watchers = Watchers(500)
    others = [watchers.add("acme", f"acme:b{number}") for number in range(200)]
    others += [watchers.add(f"t{number}") for number in range(200)]
    concerned = {watchers.add("acme"), watchers.add("acme", "acme:a"), watchers.add("acme", "acme:a")}
    gone = watchers.add("acme", "acme:a")
    watchers.remove(gone)
    watchers.take(SeenBatch([_record(1)]))
    assert (set(offered), len(offered)) == (concerned, 3)
    for watcher in [*others, *concerned]:
        watchers.remove(watcher)
    assert len(watchers) == 0


def test_a_dropped_client_is_told_where_to_go_on() -> None:
    async def story() -> list[bytes]:
        with ApiWorld() as world:
            watcher = world.services.watchers.add("default")
            watcher.lost, watcher.positions = True, {0: 8}
            return [part async for part in stream._told(world.services, OPEN, watcher, {0: 7})]

    last = asyncio.run(story())[-1].decode()
    assert "event: dropped" in last
    assert "id: 0:7" in last


def test_a_mark_of_topics_that_were_made_again_is_a_gap_and_not_silence_for_ever() -> None:
    async def story() -> list[bytes]:
        with ApiWorld() as world:
            watcher = world.services.watchers.add("default")
            watcher.closed, watcher.positions = True, {0: 8}
            return [part async for part in stream._told(world.services, OPEN, watcher, {0: 10**17})]

    told = b"".join(asyncio.run(story())).decode()
    assert "event: gap" in told
    assert "id: 0:7" in told


def test_many_who_come_back_at_once_hold_no_other_question_to_the_log_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after each restart of an API: whether Kafka answers is asked there, too, and told by /readyz."""
    monkeypatch.setattr(stream, "_missed", lambda *_: (time.sleep(0.1), ([], True))[1])

    async def told(world: ApiWorld) -> list[bytes]:
        watcher = world.services.watchers.add("default")
        watcher.closed = True
        return [part async for part in stream._told(world.services, OPEN, watcher, {0: 7})]

    async def story() -> float:
        with ApiWorld() as world:
            async with asyncio.TaskGroup() as all_of_them:
                for _ in range(10):
                    all_of_them.create_task(told(world))
                await asyncio.sleep(0.05)
                began_s = time.monotonic()
                await world.services.ask(int)
                return time.monotonic() - began_s

    assert asyncio.run(story()) < 0.5


def test_one_key_cannot_take_every_stream() -> None:
    watchers = Watchers(8)
    for _ in range(2):
        watchers.add("acme", key="greedy")
    with pytest.raises(Problem):
        watchers.add("acme", key="greedy")
    watchers.add("acme", key="modest")


def test_the_stream_of_a_key_that_was_revoked_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_KEEP_ALIVE_S", 0.0)
    monkeypatch.setattr("waterclock.api.keyring.KEPT_S", 0.0)

    async def story() -> list[bytes]:
        with ApiWorld() as world:
            token = keys.read_token(world.key())
            assert token is not None
            kept = world.store.key(token.prefix)
            assert kept is not None
            caller = Caller("default", "read", token.prefix)
            watcher = world.services.watchers.add("default")
            told = stream._told(world.services, caller, watcher, {})
            parts = [await anext(told), await anext(told)]
            world.store.put_key(kept._replace(revoked_at=world.clock.now()))
            async with asyncio.timeout(10):
                return parts + [part async for part in told]

    last = asyncio.run(story())[-1].decode()
    assert "event: closing" in last
    assert "the key is no longer good" in last


def test_an_answer_reaches_only_who_sent_that_command_for_that_job() -> None:
    async def story() -> tuple[bool, bool]:
        answers = Answers()
        future = answers.expect("acme:a", "api-1", 0)
        foreign = Answered("api-1", 7, CommandVerdict.REPEATED, 1)
        answers.settle("globex:b", foreign, 0)
        was_settled = future.done() or answers.recent("acme:a", "api-1") is not None
        answers.settle("acme:a", foreign, 0)
        return was_settled, future.done()

    assert asyncio.run(story()) == (False, True)


def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_WITHIN_S", 0.3)
    with Served() as world:
        for begun in (b"", b"GET /healthz HTTP/1.1\r\nHost: x"):
            with socket.create_connection(("127.0.0.1", world.port), timeout=5) as slow:
                slow.sendall(begun)
                assert slow.recv(1) == b""


def test_a_client_that_takes_nothing_of_its_stream_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "TAKEN_WITHIN_S", 0.3)
    with Served() as world, socket.socket() as asleep:
        asleep.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asleep.connect(("127.0.0.1", world.port))
        asleep.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        watchers, tail = world.second.watchers, world.second.tail
        until(lambda: len(watchers) == 1)
        assert tail is not None
        batches = (SeenBatch([_record(start + at, "default:a") for at in range(500)]) for start in range(0, 10**6, 500))

        def is_let_go() -> bool:
            tail._loop.call_soon_threadsafe(watchers.take, next(batches))
            return len(watchers) == 0

        until(is_let_go)


def test_a_body_that_does_not_come_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.api.bodies.WITHIN_S", 0.3)
    with Served() as world, socket.create_connection(("127.0.0.1", world.port), timeout=5) as slow:
        head = "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += "Content-Length: 9\r\n\r\n{"
        slow.sendall(head.encode())
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_second_request_on_the_same_connection_is_served(world: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=5)
    for _ in range(3):
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["status"]) == (200, "ok")
    connection.close()
