"""Every kind of executor in a worker on a real broker: what arrives outside, and what the log says of it.

What the fakes cannot show: executors on their own loop beside the client's threads, a record of a job in the
transaction of its completion, and a claim read back from a real partition with markers in it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from waterclock.workers.executors.building import executors_of
from waterclock.workers.loop import Worker

from tests.conftest import Running
from tests.unit.executor_world import Target
from waterclock.app import App
from waterclock.clock import SystemClock
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, Record, TopicPartition, TopicSpec
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, WorkRecord
from waterclock.model.executor import Executor, GrpcCall, HttpCall, KafkaRecord, ShellCommand, executor_to_json
from waterclock.model.ids import make_run_id, ordinal
from waterclock.model.job import Tier
from waterclock.settings import Settings
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import event_message, work_message
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers

WITHIN_S = 60.0
_GENERATION = 1


class Billing(grpc.GenericRpcHandler):
    """A gRPC service of one method; keeps the metadata that came."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, str]] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers((self,))
        self.place = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, call: Any) -> Any:
        def unary(request: bytes, _: object) -> bytes:
            self.metadata.append({key: str(value) for key, value in call.invocation_metadata})
            return request

        return grpc.unary_unary_rpc_method_handler(unary)

    def close(self) -> None:
        self._server.stop(None).wait(5.0)


class Outside:
    """A worker on the real broker, the dispatcher's side of its story, and whom its jobs reach."""

    def __init__(self, address: str, prefix: str, folder: Path, closing: ExitStack) -> None:
        self.names, self.clock, self.folder = Names(prefix), SystemClock(), folder
        self.ledger = f"{prefix}x-ledger"
        ensure_topics(address, [*topic_specs(self.names, 1), TopicSpec(self.ledger, 1, {})])
        self.log = KafkaLog(address, client_id="outside")
        closing.callback(self.log.close)
        self.target, self.billing = Target(), Billing()
        closing.callback(self.target.close)
        closing.callback(self.billing.close)
        settings = Settings(  # noqa: S604 - no call of a shell: a group of settings
            kafka={"prefix": prefix},
            egress={"allow": (self.target.place, self.billing.place)},
            shell={"enabled": True, "allow": ("/bin/sh",), "working_dir": folder},
            kafka_records={"allow": (self.ledger,)},
        )
        self.worker = self._built(address, settings)
        closing.callback(self.worker.close)
        self._fire_count = 0

    def _built(self, address: str, settings: Settings) -> Worker:
        """Topics that were just made have no leader for a moment: a role waits for that too."""
        until_s = time.monotonic() + WITHIN_S
        log = KafkaLog(address, client_id="worker")
        executors = executors_of(App(), settings, self.clock, {self.ledger}.__contains__)
        while True:
            try:
                return Worker(self.clock, log, self.names, executors, worker="w-1", process="p", generation=_GENERATION)
            except BackendDown:
                assert time.monotonic() < until_s
                time.sleep(0.1)

    def fire(self, executor: Executor, *, at_most_once: bool = False, records: int = 1) -> str:
        """PENDING and its work record, the latter as often as a tear would deliver it. The run id."""
        self._fire_count += 1
        fire_at = self.clock.now()
        job_id = f"default:job-{self._fire_count}"
        run_id = make_run_id(job_id, fire_at)
        pending = Pending(1, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE)
        appender = self.log.appender()
        appender.append(event_message(self.names, RunEvent(EventKind.PENDING, job_id, run_id, fire_at, detail=pending)))
        work = WorkRecord(run_id, fire_at, fire_at, 1, job_id, 1, Tier.HIGH, "default", "", b'{"a":1}')
        work = work._replace(executor=executor_to_json(executor), at_most_once=at_most_once)
        for _ in range(records):
            appender.append(work_message(self.names, work))
        appender.flush(10)
        appender.close()
        return run_id

    def dump(self, topic: str) -> list[Record]:
        place = TopicPartition(topic, 0)
        low, end = self.log.low_watermark(place), self.log.high_watermark(place)
        return list(read_range(self.log, Isolation.COMMITTED, place, low, end, headers=True, idle_polls=20))

    def events(self, run_id: str) -> list[tuple[RunEvent, int]]:
        found = [(decode_event(record.value or b""), record.offset) for record in self.dump(self.names.run_events)]
        return [(event, offset) for event, offset in found if event.run_id == run_id]

    def outcome(self, run_id: str) -> RunEvent | None:
        ended = [event for event, _ in self.events(run_id) if event.kind.value.startswith("ATTEMPT_")]
        return ended[0] if ended else None

    def until(self, condition: Callable[[], object]) -> None:
        until_s, look_at_s = time.monotonic() + WITHIN_S, 0.0
        while True:
            self.worker.step()
            if time.monotonic() < look_at_s:
                continue
            if condition():
                return
            look_at_s = time.monotonic() + 0.2
            assert time.monotonic() < until_s, "it did not come to pass in time"

    def run(self, executor: Executor, *, at_most_once: bool = False) -> tuple[str, RunEvent, Ended]:
        run_id = self.fire(executor, at_most_once=at_most_once)
        self.until(lambda: self.outcome(run_id))
        event = self.outcome(run_id)
        assert event is not None
        assert isinstance(event.detail, Ended)
        return run_id, event, event.detail


@pytest.fixture(scope="module")
def outside(kafka_server: Running, fresh_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with ExitStack() as closing:
        yield Outside(kafka_server.address, fresh_prefix, tmp_path_factory.mktemp("jobs"), closing)


def test_a_callback_carries_the_token_of_its_claim_and_its_answer_is_the_result(outside: Outside) -> None:
    outside.target.answer = lambda _: (200, {"content-type": "application/json"}, b'{"id":7}')
    run_id, event, detail = outside.run(HttpCall(f"http://{outside.target.place}/hook"))
    assert event.kind is EventKind.ATTEMPT_SUCCEEDED
    assert orjson.loads(detail.result or b"") == {"status": 200, "body": {"id": 7}}
    (arrival,) = [each for each in outside.target.arrivals if each.headers["webhook-id"] == run_id]
    ((_, started_at),) = [each for each in outside.events(run_id) if each[0].kind is EventKind.STARTED]
    assert arrival.headers["waterclock-fence"] == str(ordinal(_GENERATION, started_at)) == str(event.token)


def test_a_refused_call_is_a_failed_attempt_in_the_log(outside: Outside) -> None:
    _, event, detail = outside.run(HttpCall("https://169.254.169.254/latest/meta-data/"))
    assert (event.kind, detail.error_class) == (EventKind.ATTEMPT_FAILED, "egress-refused")
    assert "link-local" in detail.error_message


def test_a_grpc_call_carries_key_and_fence(outside: Outside) -> None:
    run_id, event, _ = outside.run(GrpcCall(outside.billing.place, "acme.Billing/Run", tls=False))
    assert event.kind is EventKind.ATTEMPT_SUCCEEDED
    (metadata,) = [each for each in outside.billing.metadata if each["idempotency-key"] == run_id]
    assert metadata["waterclock-fence"] == str(event.token)


def test_a_program_runs_and_its_output_is_the_result(outside: Outside) -> None:
    run_id, event, detail = outside.run(ShellCommand(("/bin/sh", "-c", "cat; echo; echo $WATERCLOCK_RUN_ID")))
    assert event.kind is EventKind.ATTEMPT_SUCCEEDED
    assert orjson.loads(detail.result or b"") == {"stdout": f'{{"a":1}}\n{run_id}\n'}


def test_a_record_leaves_in_the_transaction_of_its_success(outside: Outside) -> None:
    run_id, event, _ = outside.run(KafkaRecord(outside.ledger, "k"))
    assert event.kind is EventKind.ATTEMPT_SUCCEEDED
    (record,) = outside.dump(outside.ledger)
    assert (record.key, record.value) == (b"k", b'{"a":1}')
    assert dict(record.headers)["ce_id"] == f"{run_id}/out/0".encode()


def test_an_at_most_once_call_is_made_once_though_its_work_comes_three_times(outside: Outside) -> None:
    """Beside it an ordinary one, in the same position, is called three times: so the tear was real."""
    url = f"http://{outside.target.place}/once"
    once = outside.fire(HttpCall(url), at_most_once=True, records=3)
    ordinary = outside.fire(HttpCall(url), records=3)

    def calls() -> Counter[str]:
        return Counter(each.headers["webhook-id"] for each in outside.target.arrivals if each.path == "/once")

    outside.until(lambda: calls()[ordinary] == 3 and outside.outcome(once) and outside.outcome(ordinary))
    _, event, _ = outside.run(HttpCall(url), at_most_once=True)
    assert event.kind is EventKind.ATTEMPT_SUCCEEDED, "the slots of what was dropped are free again"
    claims = [each for each, _ in outside.events(once) if each.kind is EventKind.STARTED]
    assert len(claims) == 3
    assert calls()[once] == 1
