"""The steady load under which crash points are struck: jobs of all kinds, by every door, a few dozen runs a second."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from confluent_kafka import Producer

from tests.acceptance import dumps
from tests.acceptance.patient_client import ask
from tests.acceptance.scene import Scene
from tests.oracle import owed as judge
from waterclock.model.failure_policy import Backoff, FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier

API_JOBS = "api-"
EVENT_JOBS = "event-"
_EVERY_S = 2
HERD_FIRES = 4
"""So many fires in one instant are a herd here: dispatchers are told so, and the judge."""
HERD_LEAD_US = 60_000
"""So small a herd is sent 50 ms before its instant; the judge allows for a clock's tick and a turn."""
_HERD = "herd"
_HERD_JOBS = 20
"""In one instant, of all dispatchers together."""
_TRIGGER_PART = 0.3
_EDIT_PART = 0.3
_ORDERS_PER_S = 3.0
_EVENTS_PER_S = 8.0
_API_EVERY_S = 0.25
_GIVE_UP_S = 90.0
_ANSWER_WITHIN_S = 10.0
_AGAIN_S = 0.2
"""Before a request that nobody answered is sent again, as a patient client does."""


_QUICK = FailurePolicy(max_attempts=9, backoff=Backoff.FIXED, delays_us=(US_PER_S,))
_MANY = FailurePolicy(max_attempts=9)
_KINDS: dict[str, tuple[str, FailurePolicy, int]] = {
    "well": ('{"longest_s": 0.3, "emits": 2}', _MANY, 16),
    "again": ('{"longest_s": 0.2, "fails": 1, "emits": 1}', _QUICK, 8),
    "never": (
        '{"longest_s": 0.1, "fails": 99}',
        FailurePolicy(max_attempts=2, backoff=Backoff.LIST, delays_us=(0,)),
        6,
    ),
    "slow": ('{"shortest_s": 1.5, "longest_s": 2.5, "emits": 1}', _MANY, 4),
    "heeding": ('{"longest_s": 1.0, "heeds": true, "calls": false}', _MANY, 4),
    _HERD: ('{"longest_s": 0.1}', _MANY, _HERD_JOBS),
}
"""By kind of job: its payload, its policy, how many of them. A crash costs an attempt, so most may have many."""


class Wish(NamedTuple):
    """One request to the API that was kept up until it was answered. Seconds of this process's clock."""

    name: str
    status: int
    asked: int
    began_s: float
    ended_s: float


def jobs(dice: Random, lead_s: float, tenant: str = "acme") -> dict[str, JobSpec]:
    """The jobs that fire every two seconds."""
    begin = int(time.time() + lead_s) * US_PER_S
    together = begin + dice.randrange(_EVERY_S * US_PER_S)
    return {
        f"{tenant}:{kind}-{number}": JobSpec(
            "calls.async",
            Every(_EVERY_S * US_PER_S, together if kind == _HERD else begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=payload.encode(),
            policy=policy,
        )
        for kind, (payload, policy, count) in _KINDS.items()
        for number in range(count)
    }


class Load:
    """Triggers, edits and cancels by commands, one-offs by job events; ``go_on`` sends what is due.

    ``event_jobs``: how the names of the one-offs begin.
    """

    def __init__(self, scene: Scene, dice: Random, event_jobs: str = EVENT_JOBS) -> None:
        self._scene = scene
        self._event_jobs = event_jobs
        self._dice = dice
        self._next_order_s = self._next_event_s = time.monotonic()
        self._producer = Producer(dumps.client(scene.stack.bootstrap) | {"enable.idempotence": True, "linger.ms": 5})
        self.events_sent = 0

    def go_on(self) -> None:
        """Send what is due by now."""
        now_s = time.monotonic()
        if now_s >= self._next_order_s:
            self._next_order_s = now_s + self._dice.expovariate(_ORDERS_PER_S)
            self._order()
        if now_s >= self._next_event_s:
            self._next_event_s = now_s + self._dice.expovariate(_EVENTS_PER_S)
            self._event()

    def flush(self) -> None:
        """Until the broker has every event."""
        if self._producer.flush(30.0):
            raise TimeoutError("job events were not acknowledged within 30 s")

    def _order(self) -> None:
        """A trigger, a change of the tier, or a cancel of a run that is about to be, or was lately."""
        job_id, drawn = self._dice.choice(list(self._scene.specs)), self._dice.random()
        if drawn < _TRIGGER_PART:
            self._scene.orders.send(CommandKind.TRIGGER, job_id, key=f"trigger-{self._scene.orders.sent}", answer=True)
            return
        spec = self._scene.specs[job_id]
        if drawn < _TRIGGER_PART + _EDIT_PART:
            spec = self._scene.specs[job_id] = replace(spec, tier=self._dice.choice(list(Tier)))
            self._scene.orders.send(CommandKind.UPDATE, job_id, spec)
            return
        schedule = spec.schedule
        assert isinstance(schedule, Every)
        assert schedule.start_at is not None
        aimed_at = time.time_ns() // 1_000 - int(self._dice.uniform(-0.2, 2.0) * US_PER_S)
        fires = (aimed_at - schedule.start_at) // schedule.every_us
        run_id = judge.run_id(job_id, schedule.start_at + max(0, fires) * schedule.every_us)
        self._scene.orders.send(CommandKind.CANCEL, job_id, run_id=run_id)

    def _event(self) -> None:
        """A one-off, due now, from a sender that asks nobody and picks any partition."""
        self.events_sent += 1
        names = self._scene.stack.names
        document = json.dumps(one_off(f"{self._event_jobs}{self.events_sent}")).encode()
        self._producer.produce(names.job_events, document, partition=self._dice.randrange(self._scene.stack.partitions))
        self._producer.poll(0)


class ApiClient(threading.Thread):
    """Makes one job after the other through the API, each under its key, asked again until it is answered."""

    def __init__(self, port: int) -> None:
        super().__init__(name="api client", daemon=True)
        self._port = port
        self._done = threading.Event()
        self.wishes: list[Wish] = []

    def run(self) -> None:
        """Until ``finish``."""
        for number in _counting(self._done):
            self.wishes.append(self._wish(f"{API_JOBS}{number}"))
            self._done.wait(_API_EVERY_S)

    def finish(self) -> None:
        """Answer the last wish, and stop."""
        self._done.set()
        self.join(_GIVE_UP_S + _ANSWER_WITHIN_S)

    def _wish(self, name: str) -> Wish:
        """Ask until there is an answer below 500, or no 409: 0 where there is none after a minute and a half."""
        began_s, asked = time.monotonic(), 0
        body, headers = json.dumps(one_off(name)).encode(), {"Idempotency-Key": f"key-of-{name}"}
        while time.monotonic() < began_s + _GIVE_UP_S:
            asked += 1
            told = ask(self._port, "POST", "/api/v1/jobs", body, headers, within_s=_ANSWER_WITHIN_S)
            if told is not None and not told.says_later:
                return Wish(name, told.status, asked, began_s, time.monotonic())
            time.sleep(_AGAIN_S)
        return Wish(name, 0, asked, began_s, time.monotonic())


def one_off(name: str) -> dict[str, object]:
    """A job that is due now, as every door takes it."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"name": name, "handler": "calls.async", "at": at, "payload": {"longest_s": 0.2}}


def _counting(done: threading.Event) -> Iterator[int]:
    number = 0
    while not done.is_set():
        yield number
        number += 1
