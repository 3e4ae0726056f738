"""What programs that schedule may rely on: the client by Kafka, and the client by HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import waterclock
from waterclock.clients import exchange
from waterclock.clients.client import Client
from waterclock.clients.job_events import JobEvents
from waterclock.clients.kafka import KafkaClient
from waterclock.clients.verbs import NotYetApplied
from waterclock.clock import ManualClock
from waterclock.intake.judge import Judge
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import AccessRefused, BackendDown, Conflict, NotFound, RequestError
from waterclock.model.job import Command, CommandKind, Cron, Every, Tier
from waterclock.wire.names import Names

NAMES = Names()
TOPIC = NAMES.job_events


def test_the_front_door_is_one_import_away() -> None:
    assert waterclock.Client is Client


# By Kafka -------------------------------------------------------------------------------------------------------------


class Broker:
    """job-events in memory, and what the intake makes of what lies there."""

    def __init__(self) -> None:
        clock = ManualClock(1_795_000_000_000_000)
        self.cluster = MemoryCluster(clock)
        self.cluster.create_topic(TOPIC, 2)
        self.log = MemoryLog(self.cluster)
        self.client = KafkaClient(self.log.appender(), TOPIC, "default")
        self._judge = Judge(NAMES, clock, None, None, {TOPIC: "default"})  # type: ignore[arg-type]

    def records(self) -> list[Record]:
        found: list[Record] = []
        for number in range(2):
            place = TopicPartition(TOPIC, number)
            end = self.log.high_watermark(place)
            found += read_range(self.log, Isolation.COMMITTED, place, 0, end, headers=True)
        return found

    def commands(self) -> list[Command]:
        return [self._judge.command(record) for record in self.records()]


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_a_job_is_defined_in_the_words_of_the_job_document(broker: Broker) -> None:
    receipt = broker.client.create(
        "nightly", handler="bill", cron="0 3 * * *", zone="Europe/Berlin", tier="high", payload={"n": 1}, note="mine"
    )
    (command,) = broker.commands()
    assert (command.kind, command.job_id, command.note) == (CommandKind.CREATE, "default:nightly", "mine")
    assert command.command_id == receipt.command_id
    assert command.spec is not None
    assert command.spec.schedule == Cron("0 3 * * *", "Europe/Berlin")
    assert (command.spec.handler, command.spec.tier, command.spec.payload) == ("bill", Tier.HIGH, b'{"n":1}')
    (record,) = broker.records()
    assert (receipt.partition, receipt.offset) == (record.partition, record.offset)


VERBS: list[tuple[CommandKind, Callable[[JobEvents], object]]] = [
    (CommandKind.UPDATE, lambda client: client.update("j", handler="h", every="5s", expected_revision=7)),
    (CommandKind.PAUSE, lambda client: client.pause("j", expected_revision=7)),
    (CommandKind.RESUME, lambda client: client.resume("j", expected_revision=7)),
    (CommandKind.DELETE, lambda client: client.delete("j", expected_revision=7)),
]


@pytest.mark.parametrize(("kind", "say"), VERBS)
def test_every_verb_arrives_as_itself(broker: Broker, kind: CommandKind, say: Callable[[JobEvents], object]) -> None:
    say(broker.client)
    (command,) = broker.commands()
    assert (command.kind, command.job_id, command.expected_revision) == (kind, "default:j", 7)


def test_a_trigger_may_bring_a_payload(broker: Broker) -> None:
    broker.client.trigger("j", payload={"now": True}, idempotency_key="once")
    broker.client.trigger("j", payload=b"\x00raw")
    broker.client.trigger("j")
    commands = broker.commands()
    assert [command.payload for command in commands] == [b'{"now":true}', b"\x00raw", None]
    assert [command.idempotency_key for command in commands] == ["once", "", ""]


def test_an_executor_is_a_keyword_like_any_other(broker: Broker) -> None:
    broker.client.create("call", every="5s", http={"url": "https://shop.example/hook", "headers": {"a": "b"}})
    broker.client.create("record", every="5s", kafka={"topic": "shop.ticks", "key": "k"})
    called, recorded = broker.commands()
    assert called.spec is not None
    assert recorded.spec is not None
    assert type(called.spec.executor).__name__ == "HttpCall"
    assert type(recorded.spec.executor).__name__ == "KafkaRecord"


def test_a_mistake_is_told_before_anything_is_sent(broker: Broker) -> None:
    with pytest.raises(RequestError) as found:
        broker.client.create("nightly", handler="bill", cron="0 3 * *")
    assert found.value.pointer == "/cron"
    with pytest.raises(RequestError):
        broker.client.create("Not A Name", handler="bill", every="5s")
    with pytest.raises(RequestError):
        broker.client.trigger("j", payload="x" * 70_000)
    assert broker.records() == []


@pytest.mark.parametrize(
    ("words", "pointer"),
    [
        ({"idempotency_key": "k" * 201}, "/idempotency_key"),
        ({"idempotency_key": "k\x00"}, "/idempotency_key"),
        ({"idempotency_key": "\ud800"}, "/idempotency_key"),
        ({"note": "n" * 1_001}, "/note"),
        ({"note": "\x1b[2J"}, "/note"),
        ({"expected_revision": -1}, "/expected_revision"),
        ({"expected_revision": 2**63}, "/expected_revision"),
    ],
)
def test_words_beside_the_job_that_the_intake_refuses_are_told_before_anything_is_sent(
    broker: Broker, words: Any, pointer: str
) -> None:
    """In a transaction of the caller's own nothing else would: it would commit, and nothing be scheduled."""
    sent: list[str] = []

    class Producer:
        def produce(self, topic: str, **_: Any) -> None:
            sent.append(topic)

    for client in (broker.client, broker.client.in_transaction(Producer())):
        with pytest.raises(RequestError) as refused:
            client.pause("j", **words)
        assert refused.value.pointer == pointer
    assert (broker.records(), sent) == ([], [])


def test_a_placement_arrives_though_the_avro_record_has_no_field_for_it(broker: Broker) -> None:
    jitter: Any = {"window": "10m", "placement": "balanced", "offset": "3m"}
    more: Any = {"payload": {"n": 1}, "expected_revision": 7, "note": "why", "idempotency_key": "k"}
    broker.client.update("j", handler="bill", cron="0 3 * * *", jitter=jitter, **more)
    (command,) = broker.commands()
    assert command.spec is not None
    timing = command.spec.timing
    assert (timing.balanced, timing.placed_us) == (True, 180_000_000)
    assert (command.kind, command.expected_revision, command.note) == (CommandKind.UPDATE, 7, "why")
    assert (command.idempotency_key, command.spec.payload) == ("k", b'{"n":1}')


def test_a_job_without_a_name_is_one_job_however_often_it_is_sent(broker: Broker) -> None:
    for _ in range(2):
        broker.client.create(handler="bill", every="5s", idempotency_key="order-4711")
    first, second = broker.commands()
    assert first.job_id == second.job_id
    assert first.job_id.startswith("default:job-")
    assert first.command_id != second.command_id


def test_a_batch_waits_once_and_tells_where_each_lies(broker: Broker) -> None:
    flushes = 0

    def count(_: str, operation: str) -> None:
        nonlocal flushes
        flushes += operation == "flush"

    broker.cluster.faults.on_call = count
    with broker.client.batch() as batch:
        for number in range(50):
            batch.create(f"j-{number}", handler="bill", every="5s")
    assert flushes == 1
    assert len(broker.commands()) == 50
    assert sorted(receipt.job_id for receipt in batch.receipts) == sorted(f"default:j-{n}" for n in range(50))
    assert all(receipt.offset >= 0 for receipt in batch.receipts)


def test_an_event_in_a_transaction_is_the_callers_to_commit(broker: Broker) -> None:
    """Given a producer of the caller's own, then nothing but ``produce`` is called on it."""
    sent: list[tuple[str, dict[str, Any]]] = []

    class Producer:
        def produce(self, topic: str, **parts: Any) -> None:
            sent.append((topic, parts))

    within = broker.client.in_transaction(Producer())
    receipt = within.create("order-1", handler="ship", every="1h")
    ((topic, parts),) = sent
    assert topic == TOPIC
    assert broker.records() == []
    assert (receipt.job_id, receipt.offset) == ("default:order-1", -1)
    record = Record(topic, 0, 0, 0, parts["key"], parts["value"], tuple(parts["headers"]))
    command = broker._judge.command(record)
    assert (command.job_id, command.command_id) == ("default:order-1", receipt.command_id)
    assert command.spec is not None
    assert command.spec.schedule == Every(3_600_000_000)


def test_an_event_that_nobody_acknowledged_is_no_success(broker: Broker) -> None:
    def away(_: str, operation: str) -> None:
        if operation == "flush":
            raise BackendDown("kafka", "away")

    broker.cluster.faults.on_call = away
    with pytest.raises(BackendDown):
        broker.client.pause("j")


# By HTTP --------------------------------------------------------------------------------------------------------------


class Api:
    """A server that gives scripted answers: (status, body, headers), the last one for ever."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.answers: list[tuple[int, Any, dict[str, str]]] = [(200, {}, {})]
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def will_answer(self, *answers: tuple[int, Any] | tuple[int, Any, dict[str, str]]) -> None:
        self.answers = [(each[0], each[1], each[2] if len(each) > 2 else {}) for each in answers]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                named = {name.lower(): value for name, value in self.headers.items()}
                api.asked.append((self.command, self.path, named, body))
                status, document, headers = api.answers.pop(0) if len(api.answers) > 1 else api.answers[0]
                if status == 0:  # the connection is lost before the answer
                    self.close_connection = True
                    return
                data = json.dumps(document).encode()
                kind = "application/problem+json" if status >= 400 else "application/json"
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names that http.server calls

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(exchange, "_PAUSE_S", 0.001)
    monkeypatch.setattr(exchange, "_PAUSE_S_MAX", 0.01)
    api = Api()
    yield api
    api.server.shutdown()
    api.server.server_close()
    api.thread.join()


@pytest.fixture
def client(api: Api) -> Iterator[Any]:
    with Client.http(api.url, "wck_test_secret", timeout_s=2.0) as client:
        yield client


def test_a_definition_is_posted_under_the_key(api: Api, client: Any) -> None:
    api.will_answer((201, {"job_id": "default:nightly", "next_fire_time": "2026-11-22T03:00:00Z"}))
    job = client.create("nightly", handler="bill", cron="0 3 * * *", payload={"n": 1})
    assert job["next_fire_time"] == "2026-11-22T03:00:00Z"
    ((method, path, headers, body),) = api.asked
    assert (method, path) == ("POST", "/api/v1/jobs")
    assert body == {"name": "nightly", "handler": "bill", "cron": "0 3 * * *", "payload": {"n": 1}}
    assert headers["authorization"] == "Bearer wck_test_secret"
    assert headers["idempotency-key"]


@pytest.mark.parametrize(
    "trouble", [(0, None), (503, {}), (429, {}, {"Retry-After": "0"}), (409, {}, {"Retry-After": "0"})]
)
def test_a_change_without_an_answer_is_tried_again_under_the_same_key(api: Api, client: Any, trouble: Any) -> None:
    api.will_answer(trouble, trouble, (201, {"job_id": "default:j", "run_id": "default:j@x"}))
    assert client.trigger("j", payload=[1]).run_id == "default:j@x"
    assert len(api.asked) == 3
    assert len({headers["idempotency-key"] for _, _, headers, _ in api.asked}) == 1
    assert api.asked[-1][3] == {"payload": [1]}


def test_a_trigger_tells_a_run_that_waits_from_one_that_will_never_run(api: Api, client: Any) -> None:
    made = {"job_id": "default:j", "run_id": "default:j@x", "revision": 7, "held": None, "skipped": "overlap"}
    api.will_answer((201, made), (201, {**made, "held": "concurrency", "skipped": None}))
    assert client.trigger("j") == ("default:j", "default:j@x", "", "overlap")
    assert client.trigger("j") == ("default:j", "default:j@x", "concurrency", "")
    waits = {"operation_id": "7", "status": "pending", "job_id": "default:j"}
    api.will_answer((202, waits), (200, {**waits, "status": "applied", "run_id": "default:j@x"}))
    assert client.trigger("j") == ("default:j", "default:j@x", "", "")


def test_tries_have_an_end(api: Api, client: Any) -> None:
    api.will_answer((503, {"detail": "Cassandra does not answer"}))
    with pytest.raises(BackendDown, match="Cassandra does not answer"):
        client.pause("j")
    assert len(api.asked) == exchange.TRIES


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, RequestError),
        (401, AccessRefused),
        (403, AccessRefused),
        (404, NotFound),
        (409, Conflict),
        (412, Conflict),
        (422, RequestError),
        (428, Conflict),
        (301, BackendDown),
        (500, BackendDown),
    ],
)
def test_a_refusal_is_an_error_of_its_kind_and_not_tried_again(
    api: Api, client: Any, status: int, error: type[Exception]
) -> None:
    api.will_answer((status, {"detail": "because", "hint": "do it so", "errors": [{"pointer": "/cron"}]}))
    with pytest.raises(error, match="because") as found:
        client.create("j", handler="h", cron="x")
    assert type(found.value) is error
    assert len(api.asked) == 1
    if isinstance(found.value, RequestError):
        assert (found.value.pointer, found.value.hint) == ("/cron", "do it so")


def test_a_change_names_the_revision_that_it_is_made_on(api: Api, client: Any) -> None:
    api.will_answer((200, {"job_id": "default:j"}))
    client.update("j", revision=281, tier="low")
    client.update("j", tier="low")
    client.delete("j", revision=282)
    client.pause("j")
    assert [headers.get("if-match") for _, _, headers, _ in api.asked] == ['"281"', "*", '"282"', None]
    assert [(method, path) for method, path, _, _ in api.asked][2] == ("DELETE", "/api/v1/jobs/j")


def test_an_accepted_change_is_followed_until_it_is_applied(api: Api, client: Any) -> None:
    waits = {"operation_id": "op/1", "status": "pending", "job_id": "default:j"}
    api.will_answer((202, waits), (200, waits), (200, {**waits, "status": "applied"}), (200, {"job_id": "default:j"}))
    assert client.create("j", handler="h", every="5s") == {"job_id": "default:j"}
    assert [path for _, path, _, _ in api.asked][1:] == ["/api/v1/operations/op%2F1"] * 2 + ["/api/v1/jobs/default:j"]


def test_a_refused_operation_is_a_refusal(api: Api, client: Any) -> None:
    problem = {"type": "urn:waterclock:problem:stale", "detail": "it has changed"}
    waits = {"operation_id": "1", "status": "pending", "job_id": "default:j"}
    api.will_answer((202, waits), (200, {**waits, "status": "refused", "problem": problem}))
    with pytest.raises(Conflict, match="it has changed"):
        client.update("j", revision=5, tier="low")


def test_what_is_not_applied_in_time_is_said_to_be_accepted(api: Api) -> None:
    waits = {"operation_id": "1", "status": "pending", "job_id": "default:j"}
    api.will_answer((202, waits), (200, waits))
    with Client.http(api.url, timeout_s=0.3) as client, pytest.raises(NotYetApplied) as found:
        client.pause("j")
    assert found.value.operation_id == "1"


def test_lists_are_read_page_by_page(api: Api, client: Any) -> None:
    api.will_answer((200, {"runs": [{"run_id": "a"}], "next_cursor": "c/1"}), (200, {"runs": [], "next_cursor": None}))
    assert [run["run_id"] for run in client.runs("j")] == ["a"]
    assert api.asked[1][1] == "/api/v1/jobs/j/runs?limit=200&cursor=c%2F1"


def test_a_cancel_tells_what_is_known_of_the_run(api: Api, client: Any) -> None:
    api.will_answer((200, {"run_id": "t:j@20261121T090000Z", "status": "RUNNING", "cancel_requested": True}))
    assert client.cancel("t:j@20261121T090000Z", note="wrong month")["status"] == "RUNNING"
    ((method, path, headers, body),) = api.asked
    assert (method, path, body) == ("POST", "/api/v1/runs/t%3Aj%4020261121T090000Z/cancel", {"note": "wrong month"})
    assert headers["idempotency-key"]


def test_dead_letters_are_read_by_filter_and_redriven_by_name(api: Api, client: Any) -> None:
    api.will_answer((200, {"letters": [{"run_id": "r"}], "next_cursor": None}))
    assert [letter["run_id"] for letter in client.dead_letters(job="j", since="2h")] == ["r"]
    assert "job=j" in api.asked[-1][1]
    api.will_answer((200, {"done": [{"run_id": "r", "redriven_as": "r~1"}], "left": 0}))
    assert client.redrive(run_ids=["r"], payload={"n": 1})["done"][0]["redriven_as"] == "r~1"
    assert api.asked[-1][3] == {"run_ids": ["r"], "payload": {"n": 1}}


def test_a_run_id_is_one_segment_of_the_path(api: Api, client: Any) -> None:
    client.run("acme:nightly@20261121T090000Z/load")
    assert api.asked[0][1] == "/api/v1/runs/acme%3Anightly%4020261121T090000Z%2Fload"


class Raw:
    """Something at the address that answers these bytes, and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self.asked = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.answer = answer
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                self.asked += 1
                connection.sendall(self.answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):  # what is not read would become a reset
                    pass

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


CUT = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"job_id": "default:j"}'
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
PORTAL = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\n<login>"


@pytest.mark.parametrize(
    ("answer", "tries", "why"),
    [(CUT, exchange.TRIES, "IncompleteRead"), (PORTAL, 1, "text/html"), (EMPTY, 1, "status 204")],
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.job("j"),
        lambda client: client.create("j", handler="h", every="5s"),
        lambda client: client.delete("j"),
        lambda client: list(client.jobs()),
    ],
)
def test_an_answer_that_is_cut_off_or_none_of_the_api_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, ask: Any, answer: bytes, tries: int, why: str
) -> None:
    monkeypatch.setattr(exchange, "_PAUSE_S", 0.001)
    raw = Raw(answer)
    try:
        with Client.http(raw.url) as client, pytest.raises(BackendDown, match=why):
            ask(client)
        assert raw.asked == tries
    finally:
        raw.close()


def test_a_redirect_is_told_with_its_address(api: Api, client: Any) -> None:
    api.will_answer((301, {}, {"Location": "https://new.example/api/v1/jobs/j"}))
    with pytest.raises(BackendDown, match=r"redirect to https://new\.example"):
        client.job("j")


@pytest.mark.parametrize("answer", [(404, {"detail": "no such operation"}), (503, {"detail": "away"})])
def test_an_accepted_change_that_cannot_be_followed_is_said_to_be_accepted(api: Api, client: Any, answer: Any) -> None:
    api.will_answer((202, {"operation_id": "1", "status": "pending", "job_id": "default:j"}), answer)
    with pytest.raises(NotYetApplied) as found:
        client.pause("j")
    assert found.value.operation_id == "1"


@pytest.mark.parametrize("ask", ["job", "delete", "run", "cancel"])
@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_empty_name_asks_for_nothing_else(api: Api, client: Any, ask: str, name: str) -> None:
    with pytest.raises(RequestError, match="names nothing"):
        getattr(client, ask)(name)
    assert not api.asked


def test_a_key_is_taken_as_it_is_read_from_a_file_and_stands_in_no_message(api: Api) -> None:
    with Client.http(api.url, "wck_test_secret\n") as client:
        client.job("j")
    assert api.asked[0][2]["authorization"] == "Bearer wck_test_secret"
    for key in ("wck_te\nst", "wck_teśt", "wck te"):
        with pytest.raises(RequestError) as refused:
            Client.http(api.url, key)
        assert "wck" not in str(refused.value)
    with Client.http(api.url) as client, pytest.raises(RequestError, match="Idempotency-Key"):
        client.pause("j", idempotency_key="zwölf\n")


def test_the_address_may_be_given_with_its_path(api: Api) -> None:
    with Client.http(f"{api.url}/api/v1/") as client:
        client.job("j")
    assert api.asked[0][1] == "/api/v1/jobs/j"


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://x", "waterclock", "https://user:secret@host", "http://"),
        *("http://api..example", f"http://{'a' * 64}.example", "http://bücher..example"),
        *("http://x:99999", "http://x:y", "http://[::1", "http://x?a=b", "http://x/a b", "http://x/ü", "http://a b"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(RequestError):
        Client.http(url)


def test_a_key_does_not_travel_in_the_open() -> None:
    with pytest.raises(RequestError, match="plain HTTP"):
        Client.http("http://waterclock.example", "wck_x")
    Client.http("http://waterclock.example", "wck_x", allow_plain_http=True).close()
    Client.http("https://waterclock.example", "wck_x").close()


RUN = "default:etl@20261121T050000Z"
STANDS = {"run_id": RUN, "status": "RUNNING", "paused": True, "cancel_requested": False}


def test_dag_runs_are_asked_for_by_the_names_of_the_command_line(api: Api, client: Any) -> None:
    api.will_answer((200, {"dag_runs": [STANDS], "next_cursor": "c"}), (200, {"dag_runs": [], "next_cursor": None}))
    assert [each["run_id"] for each in client.dag.runs("etl")] == [RUN]
    api.will_answer((200, {"stuck": [], "next_cursor": None}))
    assert list(client.dag.stuck("etl")) == []
    api.will_answer((200, STANDS))
    assert client.dag.show(RUN)["paused"] is True
    paths = [path for _, path, _, _ in api.asked]
    assert paths == [
        "/api/v1/jobs/etl/dag-runs?limit=200",
        "/api/v1/jobs/etl/dag-runs?limit=200&cursor=c",
        "/api/v1/dag-runs/stuck?job=etl&limit=100",
        "/api/v1/dag-runs/default%3Aetl%4020261121T050000Z",
    ]


@pytest.mark.parametrize("act", ["cancel", "pause", "resume"])
def test_an_act_on_a_dag_run_tells_how_it_stands(api: Api, client: Any, act: str) -> None:
    api.will_answer((200, STANDS))
    assert getattr(client.dag, act)(RUN, note="why") == STANDS
    waits = {"operation_id": "7", "status": "pending", "job_id": "default:etl"}
    api.will_answer((202, waits), (200, {**waits, "status": "applied"}), (200, {**STANDS, "nodes": []}))
    assert getattr(client.dag, act)(RUN) == STANDS
    assert api.asked[0][1].endswith(f"/{act}")
    assert (api.asked[0][3], api.asked[1][3]) == ({"note": "why"}, None)


def test_a_rerun_names_the_new_dag_run_and_a_plan_does_nothing(api: Api, client: Any) -> None:
    made = {"job_id": "default:etl", "run_id": f"{RUN}~9", "linked_run": RUN, "held": None, "skipped": None}
    api.will_answer((201, made))
    assert client.dag.rerun(RUN, ["load"], payload={"day": 1}) == (f"{RUN}~9", RUN, "", "")
    api.will_answer((200, {"dry_run": True, "run_id": RUN, "runs": ["load"]}))
    assert client.dag.plan(RUN, "rerun", failed=True)["runs"] == ["load"]
    assert [body for _, _, _, body in api.asked] == [
        {"from": ["load"], "payload": {"day": 1}},
        {"dry_run": True, "failed": True},
    ]


def test_a_backfill_is_counted_asked_for_and_turned(api: Api, client: Any) -> None:
    told = {"backfill_id": None, "job_id": "default:j", "dry_run": True, "fires": 7}
    told |= {"left_out": 2, "blocked": 1, "would_run": 4}
    api.will_answer((200, told))
    assert client.backfills.count("j", "2026-11-01T00:00:00Z")["would_run"] == 4
    waits = {"operation_id": "7", "status": "pending", "job_id": "default:j"}
    applied = {**waits, "status": "applied", "run_id": "default:j~9"}
    stands = {"backfill_id": "default:j~9", "fires": 7, "left_out": 2, "blocked": 1}
    api.will_answer((202, waits), (200, applied), (200, stands))
    asked = client.backfills.create("j", "2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z", concurrency=3)
    assert (asked["backfill_id"], asked["would_run"]) == ("default:j~9", 4)
    api.will_answer((200, {"backfill_id": "default:j~9", "job_id": "default:j", "changed": True}))
    client.backfills.pause("default:j~9")
    assert [(method, path) for method, path, _, _ in api.asked] == [
        ("POST", "/api/v1/jobs/j/backfills"),
        ("POST", "/api/v1/jobs/j/backfills"),
        ("GET", "/api/v1/operations/7"),
        ("GET", "/api/v1/backfills/default:j~9"),
        ("POST", "/api/v1/backfills/default:j~9/pause"),
    ]
    assert api.asked[1][3] == {"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "concurrency": 3}


def test_a_backfill_that_outlasted_its_request_is_not_told_as_none_while_history_lags(api: Api, client: Any) -> None:
    applied = {"operation_id": "7", "status": "applied", "job_id": "default:j", "run_id": "default:j~9"}
    stands = {"backfill_id": "default:j~9", "fires": 7, "left_out": 2, "blocked": 1}
    api.will_answer((202, applied), (404, {"detail": "History knows no backfill"}), (200, stands))
    assert client.backfills.create("j", "2026-11-01T00:00:00Z")["backfill_id"] == "default:j~9"
    api.will_answer((202, applied), (404, {"detail": "History knows no backfill"}))
    with pytest.raises(NotYetApplied):
        client.backfills.create("j", "2026-11-01T00:00:00Z")
