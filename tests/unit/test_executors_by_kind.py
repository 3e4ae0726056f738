"""Which executor an attempt goes to, Kafka records, and that what cannot be served here ends and says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from waterclock.workers.executors.building import executors_of

from tests.unit.executor_world import BOUND_S, CLOCK, Bench, attempt_of, bench_of
from waterclock.app import App, Context
from waterclock.model.events import Outcome
from waterclock.model.executor import HttpCall, KafkaRecord, ShellCommand
from waterclock.settings import Settings


@pytest.fixture
def bench() -> Iterator[Bench]:
    allow = ("acme.invoices", "acme.nowhere", "acme-jobs", "waterclock.commands", "__consumer_offsets")
    tenants = {"acme-jobs": "acme"}
    with bench_of(topics=("acme.invoices", "acme-jobs", "payments"), kafka_records={"allow": allow},
                  intake={"tenants": tenants}) as bench:  # fmt: skip
        yield bench


def test_a_record_without_an_executor_goes_to_its_handler(bench: Bench) -> None:
    bench.app.handler("bill")(lambda ctx: ctx.run_id)
    ended = bench.run("", handler="bill")
    assert (ended.outcome, ended.result) == (Outcome.SUCCEEDED, b'"acme:j@20261118T104640Z~1"')


def test_a_handler_that_blocks_holds_up_no_call(bench: Bench) -> None:
    @bench.app.handler("block")
    async def block(ctx: Context) -> None:
        time.sleep(0.5)  # that is the fault which this is about

    bench.executors.submit([attempt_of("", handler="block"), attempt_of(HttpCall("https://127.0.0.1/"), number=1)])
    first, second = bench.ends(1), bench.ends(1)
    assert first[0].error_class == "egress-refused"
    assert second[0].outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    "text", ['{"telnet":{}}', "{", "[]", '{"http":{}}', '{"http":7}', '{"http":{},"grpc":{}}', "7"]
)
def test_an_executor_of_a_later_release_fails_the_attempt_and_nothing_else(bench: Bench, text: str) -> None:
    ended = bench.run(text)
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "executor-unknown")
    assert bench.run(ShellCommand(("/bin/true",))).error_class == "executor-off"


def test_a_kafka_record_rides_with_its_success_under_its_effect_id(bench: Bench) -> None:
    record = KafkaRecord("acme.invoices", "customer-7", (("x-team", "billing"),))
    ended = bench.run(record, b'{"a":1}')
    assert ended.outcome is Outcome.SUCCEEDED
    (message,) = ended.emitted
    assert (message.topic, message.key, message.value) == ("acme.invoices", b"customer-7", b'{"a":1}')
    headers = dict(message.headers)
    assert headers["ce_id"] == b"acme:j@20261118T104640Z~1/out/0"
    assert headers["x-team"] == b"billing"


def test_a_kafka_record_without_a_key_keeps_the_order_of_its_job(bench: Bench) -> None:
    (message,) = bench.run(KafkaRecord("acme.invoices")).emitted
    assert message.key == b"acme:j"


@pytest.mark.parametrize("topic", ["acme.nowhere", "acme-jobs", "waterclock.commands", "__consumer_offsets"])
def test_a_record_that_could_spoil_a_round_never_gets_into_one(bench: Bench, topic: str) -> None:
    ended = bench.run(KafkaRecord(topic))
    assert (ended.outcome, ended.error_class, ended.emitted) == (Outcome.FAILED, "emit-refused", ())


@pytest.mark.parametrize("name", ["ce_id\0", "\0", "x\0y"])
def test_a_record_whose_header_would_arrive_under_another_name_is_refused(bench: Bench, name: str) -> None:
    ended = bench.run(KafkaRecord("acme.invoices", headers=((name, "forged"),)))
    assert (ended.outcome, ended.error_class, ended.emitted) == (Outcome.FAILED, "emit-refused", ())


def test_a_job_writes_to_no_topic_that_the_worker_was_not_told_to_let_it(bench: Bench) -> None:
    ended = bench.run(KafkaRecord("payments"))
    assert (ended.outcome, ended.error_class, ended.emitted) == (Outcome.FAILED, "executor-refused", ())
    assert "kafka_records.allow" in ended.error_message


def test_a_question_to_a_broker_that_is_away_holds_up_no_other_call() -> None:
    answered = threading.Event()
    settings = Settings(kafka_records={"allow": ("payments",)})
    executors = executors_of(App(), settings, CLOCK, lambda _: answered.wait(BOUND_S))
    try:
        executors.submit([attempt_of(KafkaRecord("payments"))])
        executors.submit([attempt_of(HttpCall("https://127.0.0.1/"), number=1)])
        executors.wait(1, BOUND_S)
        (first,) = executors.take_ended()
        answered.set()
        executors.wait(1, BOUND_S)
        (second,) = executors.take_ended()
    finally:
        answered.set()
        executors.stop(4.0)
    assert (first.error_class, second.outcome) == ("egress-refused", Outcome.SUCCEEDED)


def test_jobs_write_no_records_by_a_worker_that_was_told_nothing() -> None:
    with bench_of(topics=("payments",)) as bench:
        ended = bench.run(KafkaRecord("payments"))
    assert (ended.outcome, ended.error_class, ended.emitted) == (Outcome.FAILED, "executor-off", ())
