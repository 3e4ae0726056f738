"""How rows become requests for a real cluster, and what its errors become: with a stand-in for the session."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import ConsistencyLevel, InvalidRequest, OperationTimedOut, Unavailable, WriteTimeout, WriteType
from cassandra.cluster import NoHostAvailable
from cassandra.policies import RetryPolicy
from cassandra.protocol import (
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    ReadTimeoutErrorMessage,
    ServerError,
    TruncateError,
    UnavailableErrorMessage,
    WriteTimeoutErrorMessage,
)
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement

from waterclock.clock import SystemClock
from waterclock.model.errors import BackendDown, RequestError, WriteUnknown
from waterclock.store import cassandra as driven
from waterclock.store import session as session_module
from waterclock.store.cassandra import CassandraCells
from waterclock.store.cells import Mutation, Put, Remove, Select
from waterclock.store.session import _Bounded, connect, translated
from waterclock.store.statements import delete_text, insert_text, partition_keys_text, select_text
from waterclock.store.tables import DUE, JOBS_BY_TENANT, RUNS_BY_DRAWER


class Future:
    """A request that ends at once, or when the test says so."""

    def __init__(self, error: BaseException | None, held: list[Callable[[], None]] | None) -> None:
        self._error = error
        self._held = held

    def add_callbacks(
        self, callback: Callable[..., None], errback: Callable[..., None], callback_args: Any, errback_args: Any
    ) -> None:
        def end() -> None:
            if self._error is None:
                callback([], *callback_args)
            else:
                errback(self._error, *errback_args)

        if self._held is None:
            end()
        else:
            self._held.append(end)


class Session:
    """Keeps what is sent."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.sent: list[BoundStatement | BatchStatement] = []
        self.held: list[Callable[[], None]] | None = None
        self._error = error

    def prepare(self, text: str) -> PreparedStatement:
        return PreparedStatement([], text.encode(), [], text, None, 4, [], None)

    def execute_async(self, statement: BoundStatement | BatchStatement) -> Future:
        self.sent.append(statement)
        return Future(self._error, self.held)

    def execute(self, _text: str) -> None:
        assert self._error is not None
        raise self._error

    def sizes(self) -> list[int]:
        return [len(sent._statements_and_parameters) if isinstance(sent, BatchStatement) else 1 for sent in self.sent]


def due(slot: int, second: int, env: bytes = b"x" * 100) -> Put:
    return Put(DUE, (slot, 9, second, "a:b", 1, "", 5, 1, 2, "a", env), 77)


def send(session: Session, mutations: list[Mutation]) -> None:
    CassandraCells(session).write("write_due", mutations).wait(1.0)


def test_rows_of_one_partition_go_out_together_and_at_most_a_hundred() -> None:
    session = Session()

    send(session, [due(slot, second) for second in range(250) for slot in (1, 2)])

    assert sorted(session.sizes()) == [50, 50, 100, 100, 100, 100]


def test_few_rows_of_many_partitions_share_requests_of_thirty() -> None:
    session = Session()

    send(session, [due(slot, second) for slot in range(65) for second in range(1)])

    assert session.sizes() == [30, 30, 5]


def test_requests_over_several_partitions_stay_below_what_the_server_refuses() -> None:
    session = Session()

    send(session, [due(slot, 0, b"x" * 15_000) for slot in range(5)] + [due(9, 0, b"x" * 60_000)])

    assert session.sizes() == [2, 2, 1, 1]


def test_no_batch_is_logged() -> None:
    session = Session()

    send(session, [due(slot, 0) for slot in range(40)])

    assert {sent.batch_type for sent in session.sent if isinstance(sent, BatchStatement)} == {BatchType.UNLOGGED}


def test_a_full_window_is_told_and_never_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driven, "ADMISSION_S", 0.01)
    session = Session()
    session.held = []
    cells = CassandraCells(session)
    under_way = [cells.write("record", [due(1, 0)]) for _ in range(driven.WINDOW)]

    with pytest.raises(BackendDown, match="64 requests under way"):
        cells.write("record", [due(1, 0)])

    for end in session.held:
        end()
    for writing in under_way:
        writing.wait(0.0)
    cells.write("record", [due(1, 0)])


def test_a_wait_that_runs_out_says_that_the_write_is_unknown() -> None:
    session = Session()
    session.held = []

    with pytest.raises(WriteUnknown, match=r"not acknowledged within 0\.01 s"):
        CassandraCells(session).write("record", [due(1, 0)]).wait(0.01)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (WriteTimeout("slow", write_type=WriteType.SIMPLE), WriteUnknown),
        (OperationTimedOut(), WriteUnknown),
        (NoHostAvailable("nobody", {}), BackendDown),
        (Unavailable("too few"), BackendDown),
        (ConnectionResetError(), BackendDown),
        (OverloadedErrorMessage(0x1001, "Too many in flight hints", None), BackendDown),
        (IsBootstrappingErrorMessage(0x1002, "Cannot read from a bootstrapping node", None), BackendDown),
        (TruncateError(0x1003, "Cannot achieve consistency level", None), BackendDown),
        (ServerError(0x0000, "java.lang.RuntimeException", None), BackendDown),
        (InvalidRequest("Batch too large"), InvalidRequest),
    ],
)
def test_an_error_of_the_driver_reaches_the_caller_as_one_of_ours(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected) as caught:
        send(Session(error), [due(1, 0), due(2, 0)])

    assert caught.type is expected


@pytest.mark.parametrize("error", [OverloadedErrorMessage(0x1001, "busy", None), ServerError(0, "odd", None)])
def test_a_read_that_every_node_refuses_waits_for_them(error: Exception) -> None:
    with pytest.raises(BackendDown, match=r"busy|odd"):
        CassandraCells(Session(error)).release()


def test_a_read_that_times_out_is_no_unknown_write() -> None:
    assert type(translated("job", OperationTimedOut(), writing=False)) is BackendDown


READ_OR_WRITE = b"\x00\x06" + (1).to_bytes(4, "big") + (2).to_bytes(4, "big")
"""LOCAL_QUORUM, one answer, two wanted: as a server's error says it."""


@pytest.mark.parametrize(
    ("message", "body", "how"),
    [
        (WriteTimeoutErrorMessage, READ_OR_WRITE + b"\x00\x06SIMPLE", RetryPolicy.RETRY),
        (ReadTimeoutErrorMessage, READ_OR_WRITE + b"\x00", RetryPolicy.RETRY),
        (UnavailableErrorMessage, READ_OR_WRITE, RetryPolicy.RETRY_NEXT_HOST),
        (None, b"", RetryPolicy.RETRY_NEXT_HOST),
    ],
    ids=["write time-out", "read time-out", "unavailable", "request error"],
)
def test_a_request_is_repeated_twice_with_the_same_consistency_and_no_more(message: Any, body: bytes, how: int) -> None:
    policy = _Bounded()
    ask: dict[Any, Callable[..., tuple[int, int | None]]] = {
        WriteTimeoutErrorMessage: policy.on_write_timeout,
        ReadTimeoutErrorMessage: policy.on_read_timeout,
        UnavailableErrorMessage: policy.on_unavailable,
        None: policy.on_request_error,
    }

    def decide(tried: int) -> tuple[int, int | None]:
        if message is None:
            return ask[None](None, ConsistencyLevel.LOCAL_QUORUM, error=OSError(), retry_num=tried)
        return ask[message](None, retry_num=tried, **message.recv_error_info(BytesIO(body), 4))

    assert [decide(tried) for tried in range(3)] == [
        (how, ConsistencyLevel.LOCAL_QUORUM),
        (how, ConsistencyLevel.LOCAL_QUORUM),
        (RetryPolicy.RETHROW, None),
    ]


class Pages(Session):
    """Answers each request with one page of three, and keeps what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, bytes | None]] = []

    def execute_async(self, statement: Any, paging_state: bytes | None = None) -> Any:
        self.asked.append((statement, paging_state))
        page = len(self.asked)
        rest = None if page == 3 else b"%d" % page
        future = SimpleNamespace(query=statement, _timer=object())
        future.result = lambda: SimpleNamespace(current_rows=[(page,)], has_more_pages=bool(rest), paging_state=rest)
        return future


def test_each_page_of_an_answer_is_a_request_with_a_time_out_of_its_own() -> None:
    session = Pages()

    keys = CassandraCells(session).partition_keys("shelves", JOBS_BY_TENANT)

    text = partition_keys_text(JOBS_BY_TENANT)
    assert keys == [(1,), (2,), (3,)]
    assert session.asked == [(text, None), (text, b"1"), (text, b"2")]


def test_nobody_at_the_address_is_told_with_the_address() -> None:
    with pytest.raises(BackendDown, match=r"127\.0\.0\.1 port 1, keyspace k in 0 s"):
        connect(["127.0.0.1"], 1, SystemClock(), keyspace="k", deadline_s=0.0)


@pytest.mark.parametrize("options", [{"conect_timeout": 5}, {"executor_threads": "2"}, {"executor_threads": 0}])
def test_what_the_driver_cannot_be_told_is_refused_with_the_setting(options: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"cassandra\.client cannot be used: .*(conect_timeout|str|max_workers)"):
        connect(["127.0.0.1"], 1, SystemClock(), deadline_s=0.0, options=options)


class Elsewhere:
    """A cluster whose nodes answer, and of which the driver asks none: they are in other datacenters."""

    def __init__(self, *datacenters: str | None) -> None:
        hosts = [SimpleNamespace(datacenter=each) for each in datacenters]
        self.metadata = SimpleNamespace(all_hosts=lambda: hosts)

    def connect(self, _keyspace: str | None) -> None:
        raise NoHostAvailable("Unable to connect to any servers", ["127.0.0.1"])

    def shutdown(self) -> None: ...


def test_a_datacenter_that_no_node_is_in_is_told_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_cluster", lambda *_: Elsewhere("oslo", "berlin", None))

    with pytest.raises(RequestError, match=r"in the datacenter 'datacenter1', but in berlin, oslo"):
        connect(["127.0.0.1"], 1, SystemClock(), deadline_s=60.0)


@pytest.mark.parametrize("known", [(None,), ("datacenter1", "oslo")], ids=["nobody answered", "ours is among them"])
def test_nodes_that_are_down_are_not_called_elsewhere(known: tuple[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_cluster", lambda *_: Elsewhere(*known))

    with pytest.raises(BackendDown, match="no answer"):
        connect(["127.0.0.1"], 1, SystemClock(), deadline_s=0.0)


def test_every_mutation_carries_its_stamp_and_only_rows_of_their_own_life_a_ttl() -> None:
    assert insert_text(RUNS_BY_DRAWER).endswith(" USING TIMESTAMP ?")
    assert insert_text(DUE).endswith(" USING TIMESTAMP ? AND TTL ?")
    assert delete_text(DUE, 2) == "DELETE FROM due USING TIMESTAMP ? WHERE slot = ? AND minute = ?"


def test_every_selection_names_a_whole_partition() -> None:
    assert select_text(Select(DUE)) == (
        "SELECT due_at, job_id, revision, entry, fire_at, attempt, tier, tenant, env, WRITETIME(env) FROM due "
        "WHERE slot = ? AND minute = ?"
    )
    assert select_text(Select(JOBS_BY_TENANT, below=2, limited=True)).endswith(
        "WHERE tenant = ? AND pshard = ? AND (created_at, job_id) < (?, ?) LIMIT ?"
    )


def test_a_delete_is_sent_with_its_stamp_first() -> None:
    session = Session()

    CassandraCells(session).write("dispose_due", [Remove(DUE, (1, 9), 3_600)]).wait(1.0)

    (sent,) = session.sent
    assert sent.values == [(3_600).to_bytes(8, "big"), b"\x00\x01", b"\x00\x00\x00\x09"]
