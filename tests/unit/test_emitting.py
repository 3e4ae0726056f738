"""The rules of ``ctx.emit``, as a handler meets them."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
from waterclock.workers.executors.emitting import RECORD_MAX_BYTES, RUN_RECORDS_MAX, Emissions, Outlet
from waterclock.workers.executors.topic_book import TopicBook

from waterclock.app import Context
from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.model.errors import BackendDown, EmitRefused
from waterclock.model.events import WorkRecord
from waterclock.model.job import Tier

RUN = "acme:bill@20261121T090000Z"
WORK = WorkRecord(RUN, 0, 0, 2, "acme:bill", 7, Tier.HIGH, "default", "bill", b"")


def emissions(exists: Callable[[str], bool] = lambda topic: topic != "gone") -> Emissions:
    return Emissions(Outlet("waterclock", exists), WORK)


def test_an_effect_id_has_the_run_and_a_number_and_no_attempt() -> None:
    made = emissions()
    assert [made.emit("mail", "k", "x") for _ in range(3)] == [f"{RUN}/out/0", f"{RUN}/out/1", f"{RUN}/out/2"]
    assert [dict(record.headers)["ce_id"] for record in made.close()] == [f"{RUN}/out/{n}".encode() for n in range(3)]


def test_a_record_is_a_cloud_event_and_keeps_the_handlers_own_headers() -> None:
    made = emissions()
    made.emit("mail", "k", "x", {"trace": b"\x01", "ce_type": "shop.mail.sent"})
    (record,) = made.close()
    headers = dict(record.headers)
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_source"] == b"/waterclock/jobs/acme:bill"
    assert headers["ce_subject"] == RUN.encode()
    assert (headers["ce_type"], headers["trace"]) == (b"shop.mail.sent", b"\x01")
    assert len(headers) == len(record.headers)


@pytest.mark.parametrize(
    ("value", "sent"),
    [(b"\x00raw", b"\x00raw"), ("é", "é".encode()), (None, None), ({"a": [1]}, b'{"a":[1]}'), (7, b"7")],
)
def test_a_value_is_bytes_text_nothing_or_json(value: object, sent: bytes | None) -> None:
    made = emissions()
    made.emit("mail", b"k", value)
    assert made.close()[0].value == sent


class Lying(str):
    """Says that it is equal to nothing; what a client sends is its text."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, _: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (("gone", "k", "x"), "no topic gone"),
        (("waterclock.run-events", "k", "x"), "belongs to the system"),
        (("__consumer_offsets", "k", "x"), "belongs to the system"),
        (("no such name!", "k", "x"), "no name of a topic"),
        ((None, "k", "x"), "no name of a topic"),
        (("mail", "", "x"), "no key"),
        (("mail", None, "x"), "no key"),
        (("mail", "k", object()), "neither bytes, text nor JSON"),
        (("mail", "k", "x" * RECORD_MAX_BYTES), "over the limit"),
        (("mail\0", "k", "x"), "no name of a topic"),
        (("mail\ud800", "k", "x"), "no name of a topic"),
        (("mail", "\ud800", "x"), "The key is no UTF-8"),
        (("mail", "k", "half \ud800"), r"The value is no UTF-8: '\\ud800' at 5"),
        (("mail", "k", ["\ud800"]), "neither bytes, text nor JSON"),
        (("mail", "k", "x", {"\ud800": "v"}), "The name of a header is no UTF-8"),
        (("mail", "k", "x", {"trace": "\ud800"}), "The header trace is no UTF-8"),
        (("mail", "k", "x", {"ce_id\0": "forged"}), "NUL in its name"),
        (("mail", "k", "x", {Lying("ce_id"): "forged"}), "set by us"),
        (("mail", "k", "x", {"é" * (RECORD_MAX_BYTES // 2): ""}), "over the limit"),
        (("mail", "k", "x", {"ce_id": "mine"}), "set by us"),
        (("mail", "k", "x", [("only-a-name",)]), "no header"),
        (("mail", "k", "x", {"n": 5}), "no header"),
        (("mail", "k", "x", [(f"h{n}", "") for n in range(65)]), "65 headers"),
    ],
)
def test_a_mistake_is_told_where_it_is_made(call: tuple[object, ...], what: str) -> None:
    made = emissions()
    with pytest.raises(EmitRefused, match=what):
        made.emit(*call)  # type: ignore[arg-type]
    assert made.close() == ()


@pytest.mark.parametrize(
    ("value", "sent"), [("a\0b", b"a\0b"), ("\N{SNOWMAN}", "\N{SNOWMAN}".encode()), (b"\xed\xa0\x80", b"\xed\xa0\x80")]
)
def test_what_only_looks_odd_is_sent(value: str | bytes, sent: bytes) -> None:
    made = emissions()
    made.emit("mail", value, value, {"trace": value, "\N{SNOWMAN}": ""})
    (record,) = made.close()
    assert (record.key, record.value, dict(record.headers)["trace"]) == (sent, sent, sent)


class Emitting:
    """Cannot be freed by counting references, and emits when it is collected."""

    def __init__(self, made: Emissions) -> None:
        self.itself, self.made = self, made

    def __del__(self) -> None:
        with contextlib.suppress(EmitRefused):
            self.made.emit("mail", "k", "from a finalizer")


def _within_a_bound(work: Callable[[], object]) -> None:
    """In a thread of its own: a deadlock must not hold up the test."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20.0)
    assert not thread.is_alive(), "emit waits for itself"


def test_a_finalizer_that_emits_while_a_record_is_made_is_refused_and_holds_up_nobody() -> None:
    made = emissions()
    ids: list[str] = []

    def headers() -> Iterator[tuple[str, str]]:
        gc.collect()  # as it may be at any allocation
        yield "trace", "t"

    def work() -> None:
        Emitting(made)
        ids.extend(made.emit("mail", "k", "x", headers()) for _ in range(2))

    gc.disable()  # but for where the test calls it
    try:
        _within_a_bound(work)
    finally:
        gc.enable()
    assert ids == [f"{RUN}/out/0", f"{RUN}/out/1"]
    assert len(made.close()) == 2


def test_a_record_is_not_made_while_another_one_is() -> None:
    made = emissions()

    def headers() -> Iterator[tuple[str, str]]:
        with pytest.raises(EmitRefused, match="one record at a time"):
            made.emit("mail", "k", "inner")
        yield "trace", "t"

    _within_a_bound(lambda: made.emit("mail", "k", "outer", headers()))
    assert [record.value for record in made.close()] == [b"outer"]


def test_a_run_emits_a_bounded_number_of_records() -> None:
    made = emissions()
    for _ in range(RUN_RECORDS_MAX):
        made.emit("mail", "k", "x")
    with pytest.raises(EmitRefused, match="1000 records"):
        made.emit("mail", "k", "x")


def test_a_run_emits_a_bounded_number_of_bytes() -> None:
    made = emissions()
    for _ in range(4):
        made.emit("mail", "k", "x" * 950_000)
    with pytest.raises(EmitRefused, match="bytes in all"):
        made.emit("mail", "k", "x" * 950_000)


@pytest.mark.parametrize("topic", ["acme-jobs", "waterclock.job-events", "waterclock.job-events.acme"])
def test_no_record_makes_jobs_by_a_topic_that_the_intake_reads(topic: str) -> None:
    made = Emissions(Outlet("waterclock", lambda _: True, {"acme-jobs": "acme"}), WORK)
    with pytest.raises(EmitRefused, match="belongs to the system"):
        made.emit(topic, "k", "{}")


def test_nothing_can_be_added_once_the_handler_has_returned() -> None:
    made = emissions()
    made.emit("mail", "k", "x")
    assert len(made.close()) == 1
    with pytest.raises(EmitRefused, match="has returned"):
        made.emit("mail", "k", "late")
    assert len(made.close()) == 1


def test_threads_of_one_handler_may_emit_side_by_side() -> None:
    made = emissions()
    threads = [threading.Thread(target=lambda: [made.emit("mail", "k", str(n)) for n in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = made.close()
    assert [dict(record.headers)["ce_id"] for record in records] == [f"{RUN}/out/{n}".encode() for n in range(800)]


def test_a_context_without_a_worker_says_so() -> None:
    with pytest.raises(EmitRefused, match="belongs to no worker"):
        Context("r", "j", 0, 1, 1).emit("mail", "k", "x")


def test_a_handler_is_tested_with_an_emit_of_ones_own() -> None:
    seen: list[tuple[object, ...]] = []

    def emit(*record: object) -> str:
        seen.append(record)
        return "id"

    ctx = Context("r", "j", 0, 1, 1, emit=emit)
    assert ctx.emit("mail", "k", "x") == "id"
    assert seen == [("mail", "k", "x", ())]


# Which topics there are ---------------------------------------------------------------------------------------------


class Broker:
    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.cluster = MemoryCluster(self.clock)
        self.cluster.create_topic("mail", 1)
        self.asked = 0
        self.is_away = False
        self.cluster.faults.on_call = self._asked
        self.book = TopicBook(lambda: MemoryLog(self.cluster, "book"), self.clock)

    def _asked(self, _client: str, _operation: str) -> None:
        self.asked += 1
        if self.is_away:
            raise BackendDown("kafka", "away")


def test_a_topic_is_asked_for_once_a_minute() -> None:
    broker = Broker()
    assert all(broker.book.exists("mail") for _ in range(100))
    assert broker.asked == 1
    broker.clock.advance(61_000_000)
    assert broker.book.exists("mail")
    assert broker.asked == 2


def test_a_topic_that_was_missing_is_seen_soon_after_it_was_made() -> None:
    broker = Broker()
    assert not broker.book.exists("news")
    broker.cluster.create_topic("news", 1)
    broker.clock.advance(1_100_000)
    assert broker.book.exists("news")


def test_a_known_topic_is_believed_on_while_no_broker_answers() -> None:
    broker = Broker()
    assert broker.book.exists("mail")
    broker.is_away = True
    broker.clock.advance(61_000_000)
    assert broker.book.exists("mail")
    with pytest.raises(BackendDown):
        broker.book.exists("never-seen")


@pytest.mark.parametrize("is_away", [False, True])
def test_threads_that_want_the_same_answer_ask_once(is_away: bool) -> None:
    """Given a broker that takes its time, then a handler waits for one question, however many others wait for it."""
    broker, told = Broker(), []
    broker.is_away = is_away

    def ask() -> None:
        try:
            told.append(broker.book.exists("mail"))
        except BackendDown:
            told.append(None)

    broker.book._lock.acquire()  # nobody is answered before all have asked
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    broker.book._lock.release()
    for thread in threads:
        thread.join(20.0)
    assert told == [None if is_away else True] * 8
    assert broker.asked == 1
    broker.is_away = False
    broker.clock.advance(1_100_000)
    assert broker.book.exists("mail")


def test_a_book_keeps_nothing_of_who_was_told_that_no_broker_answers() -> None:
    broker = Broker()
    broker.is_away = True
    kept = []

    def handle() -> None:
        mine = threading.Event()  # anything of the handler's
        kept.append(weakref.ref(mine))
        broker.book.exists("mail")

    for _ in range(2):  # the second time from memory
        with contextlib.suppress(BackendDown):
            handle()
    gc.collect()
    assert [each() for each in kept] == [None, None]
    assert broker.asked == 1


def test_the_book_is_bounded() -> None:
    broker = Broker()
    for number in range(1_100):
        broker.book.exists(f"none-{number}")
    assert len(broker.book._pages) == 1_000
    broker.book.close()
