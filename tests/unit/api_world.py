"""The API on ports in memory, with a dispatcher behind it: a real app, driven through its real routes.

The ports in memory know one thread: one drives outbox, dispatcher and tail in turn, and a lock keeps those apart who
ask meanwhile (the pools of the API). Time is real here, because the API waits in real time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from starlette.testclient import TestClient
from waterclock.dispatcher.loop import Dispatcher
from waterclock.dispatcher.pace import Pace

from waterclock.api import keys
from waterclock.api.app import build_app
from waterclock.api.counting import Counting
from waterclock.api.services import Services
from waterclock.clock import SystemClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.recorder.loop import Recorder
from waterclock.settings import ApiSettings, Settings
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
JOB = {"name": "nightly", "every": "10m", "handler": "demo.ping"}


class Locked:
    """Calls of ``inner`` under one lock; what they return and is itself a port is wrapped too."""

    def __init__(self, inner: Any, lock: threading.RLock) -> None:
        self._inner = inner
        self._lock = lock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                made = found(*args, **kwargs)
            return Locked(made, self._lock) if name in ("reader", "appender") else made

        return call


class ApiWorld:
    """``client`` calls as whoever may call without a key; ``as_key`` as somebody with one."""

    def __init__(self, **api: Any) -> None:
        self.clock = SystemClock()
        self.lock = threading.RLock()
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, 2):
            self.cluster.create_topic(
                spec.name,
                spec.partitions,
                append_time=spec.config.get("message.timestamp.type") == "LogAppendTime",
                compact=spec.config.get("cleanup.policy") == "compact",
            )
        self.tables = MemoryTables(self.clock)
        self.store = MemoryStore(self.clock, self.tables, "test")
        self.settings = Settings(api=ApiSettings(**api))
        self.dispatcher = self._dispatcher()
        self.services = self.make_services("api")
        self.obeys = True
        """Whether the dispatcher moves."""
        self.recorder: Recorder | None = None
        """Moves too, where a test has made one."""
        self.sends = True
        """Whether commands leave the outbox."""
        self._stop = threading.Event()
        self._trouble: list[BaseException] = []
        self._driver = threading.Thread(target=self._drive, daemon=True)
        app = build_app(self.services, threads=False)
        app.state.counting = Counting(self.services, dict)  # lag is asked of a real cluster: here is none
        self.client = TestClient(app, base_url="http://127.0.0.1")

    def __enter__(self) -> Self:
        self.client.__enter__()
        self._driver.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._driver.join(10)
        self.client.__exit__(kind, error, trace)
        assert self._trouble == []

    def make_services(self, client_id: str) -> Services:
        log = Locked(MemoryLog(self.cluster, client_id), self.lock)
        store = Locked(MemoryStore(self.clock, self.tables, client_id), self.lock)
        return Services(self.settings, self.clock, log, store)

    def make_recorder(self) -> None:
        """History grows from now on."""
        log, store = MemoryLog(self.cluster, "r1"), MemoryStore(self.clock, self.tables, "r1")
        with self.lock:
            self.recorder = Recorder(log, store, self.clock, NAMES, "r1", batch_s=0.0, commit_every_s=0.0)

    def key(self, scopes: str = "admin", tenant: str = "default", **more: Any) -> str:
        """A key that works from now on."""
        token, kept = keys.new_key(tenant, scopes, self.clock.now(), **more)
        with self.lock:
            self.store.put_key(kept)
        return token

    def signs_in(self) -> None:
        """The client has a key from now on: without one it is let in only while nobody else has one."""
        self.client.headers.update(bearer(self.key()))

    def create(self, **parts: Any) -> Any:
        """A job that is there."""
        answer = self.client.post("/api/v1/jobs", json={**JOB, **parts})
        assert answer.status_code == 201, answer.text
        return answer

    def records(self, topic: str) -> int:
        """How many records a topic holds."""
        with self.lock:
            partitions = self.cluster.topic(topic).partitions
            return sum(partition.lso for partition in partitions)

    def _dispatcher(self) -> Dispatcher:
        log, store = MemoryLog(self.cluster, "d1"), MemoryStore(self.clock, self.tables, "d1")
        return Dispatcher(self.clock, log, store, NAMES, instance="d1", pace=Pace(round_interval_s=0.0))

    def _drive(self) -> None:
        try:
            while not self._stop.is_set():
                with self.lock:
                    if self.sends:
                        self.services.outbox.step(0.0)
                    if self.obeys:
                        self.dispatcher.step()
                    if self.recorder is not None:
                        self.recorder.step()
                    assert self.services.tail is not None
                    self.services.tail.step(0.0)
                time.sleep(0.001)
        except BaseException as error:  # told at the end of the test
            self._trouble.append(error)
            raise


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def until(condition: Callable[[], Any], within_s: float = 30.0) -> Any:
    """The first true value of ``condition()``."""
    give_up_at = time.monotonic() + within_s
    while time.monotonic() < give_up_at:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {within_s} s")
