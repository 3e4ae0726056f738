"""HTTP callbacks on a real socket: what a receiver sees, what becomes of its answer, what is never sent."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import string
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from typing import cast

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError
from waterclock.retry_router.decide import Again, decide
from waterclock.retry_router.trail import Trail
from waterclock.workers.executors import grpc_call, http_call

from tests.unit.executor_world import CLOCK, SECRET, Bench, RawTarget, Target, attempt_of, bench_of
from waterclock.clock import ManualClock
from waterclock.egress import http_client
from waterclock.egress.signing import Secrets
from waterclock.model.errors import AttemptError, RequestError
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.executor import GrpcCall, HttpCall
from waterclock.model.executor_document import executor_from_document
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S
from waterclock.model.reduce import RunState

DAY_US = 86_400 * US_PER_S
OTHER = "whsec_" + base64.b64encode(b"another secret of some length 01").decode()


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.close()


@pytest.fixture
def bench(target: Target) -> Iterator[Bench]:
    secrets = {"default": SECRET, "rotating": f"{OTHER} {SECRET}"}
    with bench_of(egress={"allow": (target.place,)}, webhook={"secrets": secrets}) as bench:
        yield bench


def _url(target: Target, path: str = "/hook") -> str:
    return f"http://{target.place}{path}"


def test_a_receiver_gets_the_payload_the_key_the_fence_and_the_attempt(bench: Bench, target: Target) -> None:
    ended = bench.run(HttpCall(_url(target, "/hook?a=b%20c"), headers=(("x-team", "billing"),)), b'{"a":1}')
    assert ended.outcome is Outcome.SUCCEEDED
    (arrival,) = target.arrivals
    assert (arrival.method, arrival.path, arrival.body) == ("POST", "/hook?a=b%20c", b'{"a":1}')
    expected = {
        "host": target.place,
        "x-team": "billing",
        "content-type": "application/json",
        "idempotency-key": "acme:j@20261118T104640Z~1",
        "waterclock-run-id": "acme:j@20261118T104640Z~1",
        "webhook-id": "acme:j@20261118T104640Z~1",
        "waterclock-attempt": "1",
        "waterclock-fence": "281474976710656",
        "waterclock-fire-time": "2026-11-18T10:46:40Z",
    }
    assert {name: arrival.headers.get(name) for name in expected} == expected
    assert arrival.headers["user-agent"].startswith("waterclock/")
    assert "cookie" not in arrival.headers


@pytest.mark.parametrize("payload", [b'{"a": "\xc3\xa9"}', b"", b"plain text", b'{"much":"' + b"x" * 60_000 + b'"}'])
def test_the_schemes_own_verifier_accepts_our_signature(bench: Bench, target: Target, payload: bytes) -> None:
    assert bench.run(HttpCall(_url(target)), payload).outcome is Outcome.SUCCEEDED
    (arrival,) = target.arrivals
    Webhook(SECRET).verify(arrival.body, arrival.headers, json_parse=False)
    assert abs(int(arrival.headers["webhook-timestamp"]) - CLOCK.now() // US_PER_S) < 60


def test_while_a_secret_is_replaced_old_and_new_receivers_accept(bench: Bench, target: Target) -> None:
    bench.run(HttpCall(_url(target), secret="rotating"))  # noqa: S106 - a name
    (arrival,) = target.arrivals
    for secret in (SECRET, OTHER):
        Webhook(secret).verify(arrival.body, arrival.headers)
    assert arrival.headers["webhook-signature"].count("v1,") == 2


@pytest.mark.parametrize("change", ["webhook-id", "webhook-timestamp", "body"])
def test_what_was_changed_on_the_way_is_refused_by_the_verifier(bench: Bench, target: Target, change: str) -> None:
    bench.run(HttpCall(_url(target)), b'{"amount":1}')
    (arrival,) = target.arrivals
    headers, body = dict(arrival.headers), arrival.body
    if change == "body":
        body = b'{"amount":2}'
    else:
        headers[change] = headers[change][:-1] + ("1" if headers[change][-1] != "1" else "2")
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body, headers)


def test_binary_bodies_are_signed_as_bytes() -> None:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    text = "".join(map(chr, range(256)))
    signed = Secrets({"default": [SECRET]}).signature("", "id", 1_795_000_000, text.encode())
    assert signed == "v1," + Webhook(key).sign("id", datetime.fromtimestamp(1_795_000_000, UTC), text).removeprefix(
        "v1,"
    )


def test_a_body_that_could_pass_for_another_timestamp_is_not_sent(bench: Bench, target: Target) -> None:
    ended = bench.run(HttpCall(_url(target)), b"1795000000.5")
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "body-refused")
    assert target.arrivals == []


def test_a_secret_that_this_worker_lacks_fails_the_attempt_before_anything_is_sent(
    bench: Bench, target: Target
) -> None:
    ended = bench.run(HttpCall(_url(target), secret="nowhere"))  # noqa: S106 - a name
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "secret-missing")
    assert "webhook.secrets.nowhere" in ended.error_message
    assert target.arrivals == []


def test_without_a_default_secret_a_job_that_names_none_goes_unsigned(target: Target) -> None:
    with bench_of(egress={"allow": (target.place,)}) as bench:
        assert bench.run(HttpCall(_url(target))).outcome is Outcome.SUCCEEDED
    assert "webhook-signature" not in target.arrivals[0].headers


@pytest.mark.parametrize("text", ["", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_????", f"{SECRET} {OTHER} {SECRET}"])
def test_a_bad_secret_stops_the_start_and_is_never_shown(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        Secrets({"billing": text.split()})
    assert refused.value.pointer == "/webhook/secrets/billing"
    told = f"{refused.value}"
    assert not any(len(part) > 8 and part in told for part in (*text.split(), text.removeprefix("whsec_")))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_is_not_followed(bench: Bench, target: Target, status: int) -> None:
    target.answer = lambda _: (status, {"location": f"http://{target.place}/elsewhere"}, b"")
    ended = bench.run(HttpCall(_url(target)))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, f"http-{status}")
    assert [arrival.path for arrival in target.arrivals] == ["/hook"]


@pytest.mark.parametrize(
    ("status", "header", "error_class", "asked_s"),
    [
        (429, "30", "throttled", 30),
        (503, "", "throttled", 0),
        (503, "259200", "throttled", 3 * 86_400),
        (503, "99999999", "throttled", 28 * 86_400),
        (503, "9" * 60, "throttled", 28 * 86_400),
        (503, "soon", "throttled", 0),
        (502, "-1", "throttled", 0),
        (410, "", "gone", 0),
        (500, "30", "http-500", 0),
        (404, "", "http-404", 0),
    ],
)
def test_a_status_becomes_a_class_and_keeps_what_a_retry_needs(
    bench: Bench, target: Target, status: int, header: str, error_class: str, asked_s: int
) -> None:
    target.answer = lambda _: (status, {"retry-after": header} if header else {}, b"no more today")
    ended = bench.run(HttpCall(_url(target, "/hook?token=hush")))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, error_class)
    assert f"answered {status}" in ended.error_message
    assert ended.retry_after_us == asked_s * US_PER_S
    assert "hush" not in ended.error_message
    assert ended.error_trace == "no more today"


def test_retry_after_may_be_a_date(bench: Bench, target: Target) -> None:
    target.answer = lambda _: (503, {"retry-after": formatdate(CLOCK.now() / US_PER_S + 90, usegmt=True)}, b"")
    assert 80 * US_PER_S <= bench.run(HttpCall(_url(target))).retry_after_us <= 95 * US_PER_S


class Busy:
    """A client whose receiver names the instant from which it may be called again."""

    def __init__(self, until_s: int) -> None:
        self._until = formatdate(until_s, usegmt=True)

    async def send(self, _: http_client.HttpRequest) -> http_client.HttpAnswer:
        return http_client.HttpAnswer(503, "", "", self._until, b"", 0, whole=True)


@pytest.mark.parametrize("into_us", [0, 1, 400_000, 600_000, 999_999])
def test_nobody_is_called_again_before_the_instant_that_it_named(into_us: int) -> None:
    clock = ManualClock()
    until_s = clock.now() // US_PER_S + 90
    clock.advance(into_us)
    calls = http_call.HttpCalls(cast("http_client.HttpClient", Busy(until_s)), Secrets({}), clock)
    call = HttpCall("http://billing.example/")
    with pytest.raises(AttemptError) as failed:
        asyncio.run(calls.serve(attempt_of(call), call))
    assert until_s * US_PER_S <= clock.now() + failed.value.retry_after_us < (until_s + 1) * US_PER_S


def test_a_receiver_that_asks_for_days_is_left_alone_as_far_as_the_job_allows(bench: Bench, target: Target) -> None:
    target.answer = lambda _: (503, {"retry-after": "259200"}, b"")
    ended = bench.run(HttpCall(_url(target)))
    work, state = ended.attempt.work, RunState(RunStatus.RUNNING, 1, Outcome.FAILED)
    trail = Trail(error_class=ended.error_class, retry_after_us=ended.retry_after_us, counted=1)
    for allowed_d, waited_d in ((7, 3), (2, 2)):
        policy = policy_to_json(FailurePolicy(max_delay_us=allowed_d * DAY_US))
        assert decide(work._replace(policy=policy), state, trail, 0) == Again(waited_d * DAY_US, waited_d * DAY_US)


@pytest.mark.parametrize(
    ("kind", "body", "kept"),
    [
        ("application/json", b'{"id": 7}', {"status": 200, "body": {"id": 7}}),
        ("text/plain", b"done", {"status": 200, "body": "done"}),
        ("application/json", b"{broken", {"status": 200, "body": "{broken"}),
        ("application/octet-stream", b"\xff\xfe", {"status": 200, "body": "\ufffd\ufffd"}),
        ("text/plain", b"", {"status": 200}),
    ],
)
def test_what_is_kept_of_an_answer(bench: Bench, target: Target, kind: str, body: bytes, kept: object) -> None:
    target.answer = lambda _: (200, {"content-type": kind}, body)
    assert orjson.loads(bench.run(HttpCall(_url(target))).result or b"") == kept


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
@pytest.mark.parametrize("size", [9_000, 65_536, 65_537, 5_000_000])
def test_a_long_answer_is_a_success_of_which_little_is_kept(bench: Bench, target: Target, size: int, kind: str) -> None:
    target.answer = lambda _: (200, {"content-type": kind}, b"\x01" * size)
    ended = bench.run(HttpCall(_url(target)))
    assert ended.outcome is Outcome.SUCCEEDED
    assert 0 < len(ended.result or b"") <= 8_192
    assert bench.run(HttpCall(_url(target))).outcome is Outcome.SUCCEEDED


def test_a_compressed_answer_is_not_unpacked(bench: Bench, target: Target) -> None:
    target.answer = lambda _: (200, {"content-type": "text/plain", "content-encoding": "gzip"}, b"\x1f\x8bnot really")
    ended = bench.run(HttpCall(_url(target)))
    assert ended.outcome is Outcome.SUCCEEDED
    assert b"not really" in (ended.result or b"")


def test_connections_are_used_again(bench: Bench, target: Target) -> None:
    for _ in range(5):
        bench.run(HttpCall(_url(target)))
    assert len({arrival.connection for arrival in target.arrivals}) == 1


def test_a_silent_receiver_is_given_up_after_the_jobs_own_time(bench: Bench, target: Target) -> None:
    def silent(_: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {"content-length": "5"}, b"half"

    target.answer = silent
    ended = bench.run(HttpCall(_url(target), timeout_s=0.3))
    assert (ended.outcome, ended.error_class) == (Outcome.TIMED_OUT, "timed-out")
    assert "0.3 s" in ended.error_message


def test_nobody_listening_is_told_apart_from_a_lost_answer(bench: Bench, target: Target) -> None:
    target.close()
    ended = bench.run(HttpCall(_url(target)))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "connection-failed")


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        (b"", "connection-lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf", "answer-broken"),
        (b"NONSENSE\r\n\r\n", "answer-broken"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "answer-broken"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", "answer-broken"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n", "answer-broken"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", "answer-broken"),
        (b"HTTP/1.1 200 OK\r\nX\x00: /hook?token=hunter2\r\n\r\n", "answer-broken"),
    ],
)
def test_a_broken_answer_fails_the_attempt_and_is_asked_for_once(method: str, answer: bytes, error_class: str) -> None:
    raw = RawTarget(answer)
    try:
        with bench_of(egress={"allow": (raw.place,)}) as bench:
            ended = bench.run(HttpCall(f"http://{raw.place}/hook?token=hunter2", method=method))
        assert (ended.outcome, ended.error_class) == (Outcome.FAILED, error_class)
        assert raw.place in ended.error_message
        assert "hunter2" not in ended.error_message + ended.error_trace, "a query may hold a token"
        assert raw.requests_count == 1
    finally:
        raw.close()


def test_a_short_query_is_cut_and_words_stay_whole() -> None:
    error = aiohttp.ClientPayloadError("at http://192.0.2.1/hook?a lay a payload")
    assert http_client._said(error, "/hook?a") == "at http://192.0.2.1/hook... lay a payload"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-a", "b\r\nx-injected: yes"),
        ("x-a\r\nx-injected", "yes"),
        ("x-a", "b\x00"),
        ("x a", "b"),
        ("", "b"),
        ("host", "elsewhere"),
        ("Idempotency-Key", "mine"),
        ("WATERCLOCK-fence", "999999999999"),
        ("webhook-signature", "v1,forged"),
        ("content-length", "0"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("proxy-authorization", "x"),
    ],
)
def test_a_header_that_injects_or_replaces_is_never_sent(bench: Bench, target: Target, name: str, value: str) -> None:
    ended = bench.run(HttpCall(_url(target), headers=((name, value),)))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "executor-refused")
    assert target.arrivals == []


def test_what_the_guard_refuses_is_a_failed_attempt_that_says_what_to_do(bench: Bench) -> None:
    ended = bench.run(HttpCall("https://127.0.0.1/"))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "egress-refused")
    assert "egress.allow" in ended.error_message
    assert ended.error_trace == ""


def test_proxies_of_the_environment_are_not_asked(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with bench_of(egress={"allow": (target.place,)}) as bench:
        assert bench.run(HttpCall(_url(target))).outcome is Outcome.SUCCEEDED


def test_many_calls_at_once_all_end_once_with_a_small_pool(target: Target) -> None:
    with bench_of(egress={"allow": (target.place,), "connections": 8}) as bench:
        bench.executors.submit([attempt_of(HttpCall(_url(target)), number=number) for number in range(200)])
        ended = bench.ends(200)
    assert {end.outcome for end in ended} == {Outcome.SUCCEEDED}
    assert len({end.attempt.work.run_id for end in ended}) == 200
    assert len({arrival.connection for arrival in target.arrivals}) <= 8


def test_a_lease_that_ran_out_stops_calls_by_itself(target: Target) -> None:
    target.answer = lambda _: (200, {"content-length": "5"}, b"half")
    with bench_of(egress={"allow": (target.place,)}) as bench:
        bench.executors.submit([attempt_of(HttpCall(_url(target), timeout_s=600.0))])
        while not target.arrivals:
            bench.executors.wait(1, 0.01)
        bench.executors.allow_until(CLOCK.monotonic_s() - 1)
        bench.executors.submit([attempt_of(HttpCall("https://127.0.0.1/"), number=1)])
        (ended,) = bench.ends(1)
        assert ended.error_class == "egress-refused"


def test_signing_needs_the_secret_by_name() -> None:
    with pytest.raises(AttemptError):
        Secrets({}).signature("billing", "id", 1, b"")
    assert Secrets({}).signature("", "id", 1, b"") == ""


_NAMES = st.one_of(
    st.text(string.ascii_letters + string.digits + "-_.!", min_size=1, max_size=12),
    st.sampled_from(
        [
            "User-Agent",
            "Cookie",
            "Accept-Encoding",
            "TE",
            "Expect",
            "Upgrade",
            "Keep-Alive",
            "Trailer",
            "traceparent",
            "Host",
            "Connection",
            "ce_id",
            "Content-Type",
            "Authorization",
            "idempotency-key",
            "webhook-id",
            "waterclock-fence",
            "proxy-authorization",
            "X-Team",
        ]
    ),
)
_OPTIONAL = st.dictionaries(_NAMES, st.text(string.printable[:95], max_size=8), max_size=3)


@given(_OPTIONAL)
def test_whatever_headers_the_door_takes_the_worker_takes(headers: dict[str, str]) -> None:
    calls = {"http": {"url": "https://a.example", "headers": headers}}
    calls["grpc"] = {"target": "a.example:443", "method": "a.B/C", "metadata": headers}
    for word, document in calls.items():
        try:
            call = executor_from_document(word, document)
        except RequestError:
            continue
        if isinstance(call, HttpCall):
            http_call._checked(call.headers)
        elif isinstance(call, GrpcCall):
            grpc_call._checked(call.metadata)


@pytest.mark.parametrize("name", ["User-Agent", "cookie", "TE", "Upgrade", "Expect", "Keep-Alive", "Trailer"])
def test_a_header_that_every_call_would_be_refused_for_is_refused_at_the_door(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        executor_from_document("http", {"url": "https://a.example", "headers": {name: "x"}})
    assert refused.value.pointer == f"/http/headers/{name}"


class TwoAddresses:
    """The first one takes no connection, the second one is the target's."""

    async def resolve(self, host: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]


def test_an_address_that_is_silent_leaves_time_for_the_next_one(target: Target) -> None:
    with contextlib.ExitStack() as held:
        deaf = held.enter_context(socket.socket())
        deaf.bind(("127.0.0.2", target.port))
        deaf.listen(0)
        for _ in range(3):  # the queue of connections is full now: whoever comes next gets no answer at all
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.2", target.port))
        allow = (f"two.example:{target.port}", target.place, f"127.0.0.2:{target.port}")
        bench = held.enter_context(bench_of(TwoAddresses(), egress={"allow": allow, "connect_timeout_s": 0.3}))
        ended = bench.run(HttpCall(f"http://two.example:{target.port}/", timeout_s=15.0))
    assert (ended.outcome, ended.error_message) == (Outcome.SUCCEEDED, "")
    assert len(target.arrivals) == 1
