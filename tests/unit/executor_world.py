"""A world for tests of executors: attempts by hand, a target that keeps what arrives, and the real executors."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from waterclock.workers.executors.building import executors_of
from waterclock.workers.executors.by_kind import ExecutorsByKind
from waterclock.workers.executors.port import Attempt, EndedAttempt

from waterclock.app import App
from waterclock.clock import SystemClock
from waterclock.egress.resolving import Resolver
from waterclock.model.events import WorkRecord
from waterclock.model.executor import Executor, executor_to_json
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.settings import Settings

BOUND_S = 20.0
CLOCK = SystemClock()
SECRET = "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
FIRE_AT = 1_794_998_800 * US_PER_S


def attempt_of(executor: Executor | str, payload: bytes = b"{}", number: int = 0, handler: str = "") -> Attempt:
    text = executor if isinstance(executor, str) else executor_to_json(executor)
    run_id = make_run_id("acme:j", FIRE_AT, series=number + 1)
    work = WorkRecord(run_id, FIRE_AT, FIRE_AT, 1, "acme:j", 1, Tier.HIGH, "default", handler, payload, text)
    return Attempt(work, FIRE_AT, 281_474_976_710_656 + number)


class Bench:
    """The executors of a worker, as they are built for a real one."""

    def __init__(self, resolver: Resolver | None = None, topics: tuple[str, ...] = (), **groups: Any) -> None:
        self.app = App()
        settings = Settings(**groups)
        self.executors: ExecutorsByKind = executors_of(self.app, settings, CLOCK, topics.__contains__, resolver)

    def run(self, executor: Executor | str, payload: bytes = b"{}", handler: str = "") -> EndedAttempt:
        self.executors.submit([attempt_of(executor, payload, handler=handler)])
        (ended,) = self.ends(1)
        return ended

    def ends(self, count: int) -> list[EndedAttempt]:
        """Wait until so many have ended."""
        ended: list[EndedAttempt] = []
        give_up_at_s = CLOCK.monotonic_s() + BOUND_S
        while len(ended) < count:
            assert CLOCK.monotonic_s() < give_up_at_s, f"{len(ended)} of {count} ended"
            self.executors.wait(count - len(ended), 0.01)
            ended += self.executors.take_ended()
        return ended


@contextmanager
def bench_of(resolver: Resolver | None = None, topics: tuple[str, ...] = (), **groups: Any) -> Iterator[Bench]:
    bench = Bench(resolver, topics, **groups)
    try:
        yield bench
    finally:
        bench.executors.stop(4.0)


class Arrival(NamedTuple):
    """One request as a receiver saw it; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: tuple[str, int]


Answer = tuple[int, dict[str, str], bytes]


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hangs up in the middle is part of some tests."""


class Target:
    """A receiver on loopback. ``answer`` says what it answers; ``arrivals`` keeps what came."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.answer: Callable[[Arrival], Answer] = lambda _: (200, {}, b"")
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                arrival = Arrival(self.command, self.path, headers, body, self.client_address)
                target.arrivals.append(arrival)
                status, more, text = target.answer(arrival)
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                if "content-length" not in {name.lower() for name in more}:
                    self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Quiet."""

        for method in ("POST", "GET", "PUT", "DELETE", "PATCH"):
            setattr(Handler, f"do_{method}", Handler.serve)
        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.place = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(BOUND_S)


class RawTarget:
    """A receiver that answers any connection with given bytes, and closes it; counts the requests it read."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests_count = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            with taken:
                taken.settimeout(BOUND_S)
                if taken.recv(65_536):
                    self.requests_count += 1
                    taken.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(BOUND_S)
