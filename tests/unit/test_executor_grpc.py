"""gRPC calls against a real server on loopback: bytes through, identity in metadata, nothing resolved twice."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import orjson
import pytest

from tests.unit.executor_world import CLOCK, Bench, attempt_of, bench_of
from waterclock.egress import grpc_client
from waterclock.egress.allow import AllowList
from waterclock.egress.destination import Destination
from waterclock.egress.guard import Guard, Passage
from waterclock.model.events import Outcome
from waterclock.model.executor import GrpcCall

METHOD = "acme.Billing/Run"


class Service(grpc.GenericRpcHandler):
    """Any method, plain bytes."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.hosts: set[str] = set()
        self.answer: Callable[[bytes, grpc.ServicerContext], bytes] = lambda request, _: b"got " + request

    def service(self, call: Any) -> Any:
        def unary(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.seen.append((call.method, {key: str(value) for key, value in call.invocation_metadata}, request))
            self.hosts.add(context._rpc_event.call_details.host.decode())  # type: ignore[attr-defined]
            return self.answer(request, context)

        return grpc.unary_unary_rpc_method_handler(unary)


class Server:
    def __init__(self) -> None:
        self.service = Service()
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self.service,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.place = f"127.0.0.1:{self.port}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait(5.0)


class Resolver:
    def __init__(self) -> None:
        self.asked = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return ["127.0.0.1"]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def bench(server: Server) -> Iterator[Bench]:
    with bench_of(egress={"allow": (server.place,)}) as bench:
        yield bench


def _call(server: Server, timeout_s: float = 10.0, **more: Any) -> GrpcCall:
    return GrpcCall(server.place, METHOD, timeout_s=timeout_s, tls=False, **more)


def test_a_server_gets_the_bytes_the_key_and_the_fence(bench: Bench, server: Server) -> None:
    ended = bench.run(_call(server, metadata=(("x-team", "billing"),)), b"\x08\x96\x01")
    assert ended.outcome is Outcome.SUCCEEDED
    assert orjson.loads(ended.result or b"") == {"bytes": 7, "body_base64": "Z290IAiWAQ=="}
    ((method, metadata, body),) = server.service.seen
    assert (method, body) == (f"/{METHOD}", b"\x08\x96\x01")
    expected = {
        "x-team": "billing",
        "idempotency-key": "acme:j@20261118T104640Z~1",
        "waterclock-run-id": "acme:j@20261118T104640Z~1",
        "waterclock-attempt": "1",
        "waterclock-fence": "281474976710656",
        "waterclock-fire-time": "2026-11-18T10:46:40Z",
    }
    assert {name: metadata.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "grpc-invalid-argument"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "throttled"),
        (grpc.StatusCode.INTERNAL, "grpc-internal"),
    ],
)
def test_a_status_is_a_class(bench: Bench, server: Server, status: grpc.StatusCode, error_class: str) -> None:
    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(status, "no more today")
        return b""

    server.service.answer = refuse
    ended = bench.run(_call(server))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, error_class)
    assert "no more today" in ended.error_message
    assert len(server.service.seen) == 1


def test_a_slow_server_is_given_up_and_a_long_answer_is_not_taken(bench: Bench, server: Server) -> None:
    release = threading.Event()
    server.service.answer = lambda *_: b"%d" % release.wait(10.0)
    try:
        assert bench.run(_call(server, timeout_s=0.3)).error_class == "timed-out"
    finally:
        release.set()
    server.service.answer = lambda *_: b"x" * 100_000
    assert bench.run(_call(server)).error_class == "answer-broken"


def test_nobody_listening_fails_the_attempt(bench: Bench, server: Server) -> None:
    server.close()
    ended = bench.run(_call(server))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "connection-failed")
    assert ended.error_message.startswith(f"{server.place}: ")
    assert "answered" not in ended.error_message


def test_a_server_that_speaks_no_tls_is_not_reached_by_it(bench: Bench, server: Server) -> None:
    ended = bench.run(GrpcCall(server.place, METHOD, timeout_s=10.0))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "tls-failed")


def test_a_server_that_reached_nobody_itself_has_answered(bench: Bench, server: Server) -> None:
    """Given a receiver that passes on the words of a call of its own, then what it did before may have happened."""

    def relay(_: bytes, context: grpc.ServicerContext) -> bytes:
        words = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.9:1: Failed to connect"
        context.abort(grpc.StatusCode.UNAVAILABLE, words)
        return b""

    server.service.answer = relay
    ended = bench.run(_call(server))
    assert ended.error_class == "grpc-unavailable"
    assert "answered UNAVAILABLE" in ended.error_message


def test_nobody_at_an_address_of_the_longer_kind() -> None:
    with socket.socket(socket.AF_INET6) as gone:
        gone.bind(("::1", 0))
        place = f"[::1]:{gone.getsockname()[1]}"
    with bench_of(egress={"allow": (place,)}) as bench:
        assert bench.run(GrpcCall(place, METHOD, tls=False)).error_class == "connection-failed"


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_is_told_of_a_failed_call_holds_no_metadata(bench: Bench, server: Server, is_gone: bool) -> None:
    """Given a token in the metadata, when the server refuses or is gone, then no message repeats it."""

    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, "no")

    server.service.answer = refuse
    if is_gone:
        server.close()
    ended = bench.run(_call(server, timeout_s=5.0, metadata=(("authorization", "Bearer hunter2"),)))
    assert ended.outcome is not Outcome.SUCCEEDED
    assert server.place in ended.error_message
    assert "hunter2" not in ended.error_message + ended.error_trace


@pytest.mark.parametrize(
    "metadata", [("waterclock-fence", "9"), ("idempotency-key", "x"), ("x", "a\nb"), ("x-bin", "a")]
)
def test_metadata_that_replaces_or_injects_is_never_sent(
    bench: Bench, server: Server, metadata: tuple[str, str]
) -> None:
    assert bench.run(_call(server, metadata=(metadata,))).error_class == "executor-refused"
    assert server.service.seen == []


@pytest.mark.parametrize("target", ["127.0.0.1:1", "127.1:443", "[::1]:443", "10.0.0.1:443", "hooks.example:50051"])
def test_the_guard_stands_before_grpc_too(bench: Bench, target: str) -> None:
    assert bench.run(GrpcCall(target, METHOD)).error_class == "egress-refused"
    assert bench.run(GrpcCall(target, METHOD, tls=False)).error_class == "egress-refused"


def test_a_name_is_resolved_by_us_alone_and_stays_the_authority(server: Server) -> None:
    resolver = Resolver()
    target = f"billing.internal:{server.port}"
    with bench_of(resolver, egress={"allow": (target,)}) as bench:
        for _ in range(3):
            assert bench.run(GrpcCall(target, METHOD, tls=False)).outcome is Outcome.SUCCEEDED
    assert resolver.asked == 1
    assert server.service.hosts == {target}


def test_many_calls_at_once_all_end_once(bench: Bench, server: Server) -> None:
    bench.executors.submit([attempt_of(_call(server), number=number) for number in range(100)])
    ended = bench.ends(100)
    assert {end.outcome for end in ended} == {Outcome.SUCCEEDED}
    assert len(server.service.seen) == 100


def test_a_lease_that_ran_out_cancels_the_call_at_the_server(bench: Bench, server: Server) -> None:
    cancelled, arrived = threading.Event(), threading.Event()

    def hang(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(cancelled.set)
        arrived.set()
        cancelled.wait(10.0)
        return b""

    server.service.answer = hang
    bench.executors.submit([attempt_of(_call(server, timeout_s=600.0))])
    assert arrived.wait(10.0)
    bench.executors.allow_until(CLOCK.monotonic_s() - 1)
    assert cancelled.wait(10.0)


def test_without_the_extra_the_attempt_says_what_to_install(
    bench: Bench, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(grpc_client.importlib, "import_module", missing)
    ended = bench.run(_call(server))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "executor-missing")
    assert "waterclock[grpc]" in ended.error_message


def test_channels_that_were_busy_at_once_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_client, "_CHANNELS_MAX", 4)
    client = grpc_client.GrpcClient(Guard(AllowList(), CLOCK))

    def channel(number: int) -> grpc_client._Channel:
        place = f"192.0.2.{number}"
        return client._channel(grpc, Passage(Destination(place, 443, tls=False), (place,)))

    busy = []
    for number in range(20):
        busy.append(channel(number))
        busy[-1].calls_count += 1
    assert len(client._channels) == 20, "a busy one is never closed"
    for each in busy:
        each.calls_count -= 1
    last = channel(20)
    assert len(client._channels) == 4
    assert client._channels[Passage(Destination("192.0.2.20", 443, tls=False), ("192.0.2.20",))] is last
    asyncio.run(client.close())
