"""An API with history behind it, and a hand that plays worker and retry router: its runs wait, run or are given up."""

from __future__ import annotations

from typing import Any

from tests.unit.api_world import NAMES, ApiWorld, until
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import DeadLetter, Ended, EventKind, RunEvent, SourceRecord, Started, WorkRecord
from waterclock.model.fingerprint import fingerprint
from waterclock.model.ids import RunId, job_of_run, ordinal
from waterclock.model.job import Tier
from waterclock.wire import codec
from waterclock.wire.messages import dead_letter_message, event_message

API = "/api/v1"


class FailingWorld(ApiWorld):
    """See ``ApiWorld``; with a recorder."""

    def __init__(self, **api: Any) -> None:
        super().__init__(wait_s=10.0, rate_per_s=100_000, burst=100_000, **api)
        self.make_recorder()
        self.hand = MemoryLog(self.cluster, "hand")

    def append(self, message: Outgoing) -> int:
        with self.lock:
            offset = self.hand.appender().append(message).offset
        assert offset is not None
        return offset

    def event(self, kind: EventKind, run_id: str, attempt: int = 0, **parts: Any) -> int:
        event = RunEvent(kind, job_of_run(run_id), run_id, self.clock.now(), attempt)._replace(**parts)
        return self.append(event_message(NAMES, event))

    def triggered(self, name: str, *, payload: Any = None, headers: dict[str, str] | None = None) -> str:
        """A run that waits, and that history shows."""
        body = None if payload is None else {"payload": payload}
        answer = self.client.post(f"{API}/jobs/{name}/trigger", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["run_id"])

    def started(self, run_id: str) -> int:
        claim = Started(NAMES.runs(Tier.MEDIUM), 0, 0)
        return ordinal(1, self.event(EventKind.STARTED, run_id, 1, worker="w-1", incarnation=3, detail=claim))

    def ended(self, kind: EventKind, run_id: str, token: int, error: str = "no 7") -> None:
        detail = Ended(self.clock.now(), error_class="ValueError", error_message=error)
        self.event(kind, run_id, 1, worker="w-1", incarnation=3, token=token, detail=detail)

    def given_up(self, name: str, error: str = "no 7", redrives: int = 0, **more: Any) -> str:
        """A run that failed for good, with its letter; history shows it."""
        run_id = self.triggered(name, **more)
        self.ended(EventKind.ATTEMPT_FAILED, run_id, self.started(run_id), error)
        self.event(EventKind.RUN_FAILED, run_id, 1, reason="ValueError")
        self.append_letter(run_id, error, redrives)
        until(lambda: run_id in map(_run_of, self.failures()))
        return run_id

    def append_letter(self, run_id: str, error: str = "no 7", redrives: int = 0) -> None:
        """What the retry router writes of a run, or of a node, that it gives up."""
        work, now = self.work_of(run_id)._replace(redrives=redrives), self.clock.now()
        source = SourceRecord(NAMES.runs(work.tier), 0, 0, work.job_id.encode(), codec.encode_work(work), ())
        letter = DeadLetter(run_id, work.job_id, "ValueError", "ValueError", error, fingerprint("ValueError", error),
                            1, now, now, now, source)  # fmt: skip
        self.append(dead_letter_message(NAMES, letter))

    def failures(self) -> list[Any]:
        with self.lock:
            return [row for tenant in ("default", "other") for row in self.store.failures(tenant, 1_000)]

    def works(self) -> list[WorkRecord]:
        return [codec.decode_work(record.value or b"") for record in self.all_of(NAMES.runs(Tier.MEDIUM))]

    def work_of(self, run_id: str) -> WorkRecord:
        return next(work for work in self.works() if work.run_id == run_id)

    def all_of(self, topic: str) -> list[Any]:
        with self.lock:
            places = [TopicPartition(topic, partition) for partition in range(self.hand.partitions(topic))]
            return [
                record
                for place in places
                for record in read_range(self.hand, Isolation.COMMITTED, place, 0, self.hand.high_watermark(place))
            ]

    def status_of(self, run_id: str) -> str:
        return str(self.client.get(f"{API}/runs/{run_id}").json()["status"])


def _run_of(failure: Any) -> str:
    return str(RunId(failure.job_id, failure.fire_at, failure.series, failure.node))
