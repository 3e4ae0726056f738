"""The client outside: orders by the API and by job-events, each under a key, and the history H of what it was told.

``python -m tests.chaos.client FOLDER API_PORT BOOTSTRAP TOPIC SEED`` until SIGTERM; then it deletes its jobs, and ends.
Each thread has jobs of its own and one door, and begins nothing new while an order is unanswered: what nobody answered
is asked again under the same key, for ever while faults go on, and for a bounded time afterwards. One line of H for
each order: when it began and ended (monotonic and wall), what was told (ok, fail, info), and how often it was asked.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from confluent_kafka import Producer

from tests.acceptance.patient_client import ask

PAYLOAD = {"longest_s": 0.3, "emits": 1}
"""Of every job that it makes: the judges know what their runs had to do."""

_API_THREADS, _EVENT_THREADS = 3, 2
_JOBS_EACH = 6
_REST_S = (0.05, 0.4)
_REQUEST_S = 8.0
_DELIVERY_S = 12.0
_AFTERWARDS_S = 120.0
_PAUSE_S = 0.3
"""Before an order that nobody answered is given again, as a patient client does."""


class Told(NamedTuple):
    """What one order came to: ok or fail; info: nobody said, within the bound. ``tries``: how often it was asked."""

    word: str
    status: int
    tries: int
    answer: dict[str, Any]
    revision: str = ""


class History:
    """H, as a file; one line for each order, written when it is over."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def add(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(line) + "\n")


class Ending:
    """Whether it is time to end, and until when an unanswered order is asked again."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._until_s = float("inf")

    def begin(self) -> None:
        self._until_s = time.monotonic() + _AFTERWARDS_S
        self._event.set()

    @property
    def has_begun(self) -> bool:
        return self._event.is_set()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until_s

    def rest(self, wait_s: float) -> None:
        self._event.wait(wait_s)


class ApiDoor:
    """Orders as HTTP requests with an Idempotency-Key."""

    name = "api"

    def __init__(self, port: int, ending: Ending) -> None:
        self._port = port
        self._ending = ending

    def give(self, verb: str, job: str, key: str, more: dict[str, Any]) -> Told:
        """Ask until somebody says what became of it."""
        method, path, body, headers = _request(verb, job, more)
        headers = {"Idempotency-Key": key, **headers}
        tries, acknowledged = 0, 0
        while not self._ending.is_over:
            tries += 1
            told = ask(self._port, method, path, body, headers, within_s=_REQUEST_S)
            if told is not None and told.status == 202:
                acknowledged += 1
            elif told is not None and not told.says_later:
                return Told("ok" if told.status < 300 else "fail", told.status, tries, told.document, told.etag)
            elif told is not None and told.status == 409 and not told.document.get("type", "").endswith("in-flight"):
                return Told("fail", told.status, tries, told.document, told.etag)
            time.sleep(_PAUSE_S)
        return Told("ok" if acknowledged else "info", 202 if acknowledged else 0, tries, {})


def _request(verb: str, job: str, more: dict[str, Any]) -> tuple[str, str, bytes, dict[str, str]]:
    place = f"/api/v1/jobs/{quote(f'default:{job}', safe='')}"
    body = json.dumps(more["document"]).encode() if "document" in more else b""
    match verb:
        case "create":
            return "POST", "/api/v1/jobs", body, {}
        case "update":
            return "PATCH", place, body, {"If-Match": more["revision"]}
        case "delete":
            return "DELETE", place, b"", {}
        case "cancel":
            return "POST", f"/api/v1/runs/{quote(more['run_id'], safe='')}/cancel", b"", {}
        case _:
            return "POST", f"{place}/{verb}", b"", {}


class EventDoor:
    """Orders as JSON records on job-events, with the key inside."""

    name = "job-events"

    def __init__(self, bootstrap: str, topic: str, ending: Ending) -> None:
        self._topic = topic
        self._ending = ending
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "message.timeout.ms": int(_DELIVERY_S * 1_000),
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )

    def give(self, verb: str, job: str, key: str, more: dict[str, Any]) -> Told:
        """Send until a broker has acknowledged it."""
        document = {**more.get("document", {}), "kind": verb, "name": job, "idempotency_key": key}
        value = json.dumps(document).encode()
        tries = 0
        while not self._ending.is_over:
            tries += 1
            at = self._send(value, job.encode())
            if at is not None:
                return Told("ok", 0, tries, {"partition": at.partition(), "offset": at.offset()})
            time.sleep(_PAUSE_S)
        return Told("info", 0, tries, {})

    def _send(self, value: bytes, job: bytes) -> Any:
        """Where it stands; None: nobody said that it does."""
        landed: list[Any] = []
        self._producer.produce(self._topic, value, job, on_delivery=lambda error, at: landed.append((error, at)))
        self._producer.flush(_DELIVERY_S + 5.0)
        return landed[0][1] if landed and landed[0][0] is None else None


class Person(threading.Thread):
    """One thread: its jobs, its door, its dice."""

    def __init__(self, name: str, door: ApiDoor | EventDoor, history: History, ending: Ending, dice: Random) -> None:
        super().__init__(name=name)
        self._door = door
        self._history = history
        self._ending = ending
        self._dice = dice
        self._jobs = [f"{name}-{number}" for number in range(_JOBS_EACH)]
        self._standing: dict[str, str] = {}
        self._runs: list[str] = []
        self._count = 0

    def run(self) -> None:
        while not self._ending.has_begun:
            self._one()
            self._ending.rest(self._dice.uniform(*_REST_S))
        for job in list(self._standing):
            self._give("delete", job, {})

    def _one(self) -> None:
        job = self._dice.choice(self._jobs)
        if job not in self._standing:
            self._give("create", job, {"document": self._document() | {"name": job}})
            return
        verb = self._dice.choices(
            ("update", "pause", "resume", "delete", "trigger", "cancel"), weights=(4, 2, 3, 1, 4, 3)
        )[0]
        by_api = isinstance(self._door, ApiDoor)
        if verb == "cancel":
            if by_api and self._runs:
                self._give("cancel", job, {"run_id": self._runs.pop()})
            return
        more: dict[str, Any] = {}
        if verb == "update":
            more = {"document": self._document(), "revision": self._standing[job] or "*"}
            if by_api and not self._standing[job]:
                return
        self._give(verb, job, more)

    def _give(self, verb: str, job: str, more: dict[str, Any]) -> None:
        self._count += 1
        key = f"{self.name}-{self._count}"
        began_s, began = time.monotonic(), time.time()
        told = self._door.give(verb, job, key, more)
        self._history.add(
            {
                "op": verb,
                "door": self._door.name,
                "job": f"default:{job}",
                "key": key,
                "run_id": more.get("run_id", ""),
                "t0": began_s,
                "t1": time.monotonic(),
                "wall0": began,
                "wall1": time.time(),
                "result": told.word,
                "status": told.status,
                "tries": told.tries,
                "answer": {name: told.answer[name] for name in _KEPT if name in told.answer},
            }
        )
        self._learn(verb, job, told)

    def _learn(self, verb: str, job: str, told: Told) -> None:
        is_gone = (verb == "delete" and told.word != "fail") or (told.status == 404 and verb != "cancel")
        is_there = verb == "create" and (told.word != "fail" or told.status == 409)
        if is_gone:
            self._standing.pop(job, None)
        elif is_there or (job in self._standing and told.revision):
            self._standing[job] = told.revision
        if verb == "trigger" and told.answer.get("run_id"):
            self._runs.append(told.answer["run_id"])

    def _document(self) -> dict[str, Any]:
        dice = self._dice
        every = {"every": f"{dice.choice((2, 3, 5))}s"}
        schedule = dice.choice((every, every, {"cron": "* * * * *"}))
        tier = dice.choice(("high", "medium", "low"))
        return {**schedule, "handler": "calls.async", "tier": tier, "payload": PAYLOAD}


_KEPT = ("type", "run_id", "revision", "partition", "offset", "status")


def main(folder: Path, api_port: int, bootstrap: str, topic: str, seed: str) -> None:
    history, ending = History(folder / "history.jsonl"), Ending()
    signal.signal(signal.SIGTERM, lambda *_: ending.begin())
    people = [
        Person(f"a{n}", ApiDoor(api_port, ending), history, ending, Random(f"{seed}/a{n}")) for n in range(_API_THREADS)
    ]
    people += [
        Person(f"e{n}", EventDoor(bootstrap, topic, ending), history, ending, Random(f"{seed}/e{n}"))
        for n in range(_EVENT_THREADS)
    ]
    for person in people:
        person.start()
    for person in people:
        while person.is_alive():
            person.join(0.5)  # in steps: a signal is seen between them


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5])
