"""How a job names the way to its work: what is written comes back, and what is wrong is refused where it is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.executor import (
    LABEL_MAX,
    Executor,
    GrpcCall,
    HttpCall,
    KafkaRecord,
    ShellCommand,
    executor_from_json,
    executor_label,
    executor_to_json,
)
from waterclock.model.executor_document import check_executor, executor_from_document, executor_to_document
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, Tier
from waterclock.model.stored_spec import spec_from_json, spec_to_json

URL = "https://billing.example/hooks/nightly"
EVERY = {"every": "5s"}


@pytest.mark.parametrize(
    ("document", "executor"),
    [
        ({"http": {"url": URL}}, HttpCall(URL)),
        ({"callback_url": URL}, HttpCall(URL)),
        (
            {
                "http": {
                    "url": "http://10.0.0.1:8080/a?b=c%20d", "method": "PUT", "headers": {"X-Team": "a, b"},
                    "timeout": "2m", "secret": "billing.v2",
                }
            },
            HttpCall("http://10.0.0.1:8080/a?b=c%20d", "PUT", (("X-Team", "a, b"),), 120.0, "billing.v2"),
        ),
        ({"http": {"url": "https://[2001:db8::1]/"}}, HttpCall("https://[2001:db8::1]/")),
        (
            {"grpc": {"target": "billing.example:443", "method": "billing.v1.Invoices/Send"}},
            GrpcCall("billing.example:443", "billing.v1.Invoices/Send"),
        ),
        (
            {
                "grpc": {
                    "target": "[::1]:50051", "method": "A/B", "metadata": {"x-team": "a"}, "timeout": "5s",
                    "tls": False,
                }
            },
            GrpcCall("[::1]:50051", "A/B", (("x-team", "a"),), 5.0, tls=False),
        ),
        ({"shell": {"argv": ["/srv/backup.sh"]}}, ShellCommand(("/srv/backup.sh",))),
        ({"shell": {"argv": ["a", "", "$(b)"], "timeout": "1h"}}, ShellCommand(("a", "", "$(b)"), 3_600.0)),
        ({"kafka": {"topic": "orders.due"}}, KafkaRecord("orders.due")),
        (
            {"kafka": {"topic": "o", "key": "k", "headers": {"source": "Köln"}}},
            KafkaRecord("o", "k", (("source", "Köln"),)),
        ),
    ],
)  # fmt: skip
def test_a_document_names_its_executor(document: dict[str, object], executor: Executor) -> None:
    spec = spec_from_document({**document, **EVERY})
    assert spec == JobSpec("", Every(5 * US_PER_S), executor=executor)
    assert spec_from_document(orjson.loads(orjson.dumps(spec_to_document(spec)))) == spec
    assert spec_from_json(spec_to_json(spec)) == spec
    check_executor(executor)


@pytest.mark.parametrize("spelled", ["HIGH", "High", "high"])
def test_priority_is_another_word_for_tier_in_any_case(spelled: str) -> None:
    assert spec_from_document({"handler": "h", **EVERY, "priority": spelled}).tier is Tier.HIGH


def test_a_job_may_be_called_once_or_never() -> None:
    spec = spec_from_document({"callback_url": URL, **EVERY, "at_most_once": True})
    assert spec.at_most_once
    assert spec_to_document(spec)["at_most_once"] is True
    assert spec_from_json(spec_to_json(spec)) == spec


@pytest.mark.parametrize(
    ("document", "pointer", "words"),
    [
        ({}, "/handler", "one of http"),
        ({"handler": "h", "http": {"url": URL}}, "/http", "exactly one"),
        ({"http": {"url": URL}, "callback_url": URL}, "/callback_url", "exactly one"),
        ({"shell": {"argv": ["a"]}, "kafka": {"topic": "t"}}, "/kafka", "exactly one"),
        ({"handler": "h", "priority": "urgent"}, "/priority", "high, medium, low"),
        ({"handler": "h", "priority": 1}, "/priority", "high, medium, low"),
        ({"handler": "h", "priority": "low", "tier": "low"}, "/priority", "one of them"),
        ({"handler": "h", "at_most_once": 1}, "/at_most_once", "true or false"),
        ({"handler": "h", "htpp": {}}, "/htpp", "Did you mean http?"),
        ({"callback_url": None}, "/callback_url", "absolute URL"),
        ({"callback_url": "billing.example"}, "/callback_url", "absolute URL"),
        ({"http": None}, "/http", "object"),
        ({"http": {}}, "/http/url", "missing"),
        ({"http": {"url": URL, "body": 1}}, "/http/body", "Known: url"),
        ({"http": {"url": 5}}, "/http/url", "not a URL"),
        ({"http": {"url": "ftp://a.example/"}}, "/http/url", "http or https"),
        ({"http": {"url": "https:///path"}}, "/http/url", "host"),
        ({"http": {"url": "https://a.example:0/"}}, "/http/url", "host"),
        ({"http": {"url": "https://a.example:99999/"}}, "/http/url", "cannot be read"),
        ({"http": {"url": "https://[::1/"}}, "/http/url", "cannot be read"),
        ({"http": {"url": "https://u:p@a.example/"}}, "/http/url", "user or password"),
        ({"http": {"url": "https://a.example/#top"}}, "/http/url", "fragment"),
        ({"http": {"url": "https://a.example/a b"}}, "/http/url", "Percent-encode"),
        ({"http": {"url": "https://a.example/\r\nHost: b"}}, "/http/url", "Percent-encode"),
        ({"http": {"url": "https://a.example\\@b.example/"}}, "/http/url", "Percent-encode"),
        ({"http": {"url": "https://köln.example/"}}, "/http/url", "punycode"),
        ({"http": {"url": "https://a.example/" + "x" * 2_048}}, "/http/url", "At most 2048"),
        ({"http": {"url": URL, "method": "post"}}, "/http/method", "POST, PUT"),
        ({"http": {"url": URL, "method": ["POST"]}}, "/http/method", "POST, PUT"),
        ({"http": {"url": URL, "timeout": 30}}, "/http/timeout", "5s"),
        ({"http": {"url": URL, "timeout": "11m"}}, "/http/timeout", "At most 10m"),
        ({"http": {"url": URL, "headers": []}}, "/http/headers", "object"),
        ({"http": {"url": URL, "headers": {"a b": "c"}}}, "/http/headers/a b", "not a name"),
        ({"http": {"url": URL, "headers": {"a": "b\r\nc: d"}}}, "/http/headers/a", "One line"),
        ({"http": {"url": URL, "headers": {"a": 5}}}, "/http/headers/a", "not a value"),
        ({"http": {"url": URL, "headers": {"a": "1", "A": "2"}}}, "/http/headers/A", "twice"),
        ({"http": {"url": URL, "headers": {"Host": "b"}}}, "/http/headers/Host", "set by Waterclock"),
        ({"http": {"url": URL, "headers": {"Webhook-Id": "b"}}}, "/http/headers/Webhook-Id", "set by Waterclock"),
        ({"http": {"url": URL, "headers": {f"h{n}": "v" for n in range(33)}}}, "/http/headers", "at most 32"),
        ({"http": {"url": URL, "secret": "whsec_ABC="}}, "/http/secret", "name of a signing secret"),
        ({"http": {"url": URL, "headers": {f"h{n}": "v" * 900 for n in range(10)}}}, "/http", "At most 8192"),
        ({"grpc": {"method": "A/B"}}, "/grpc/target", "missing"),
        ({"grpc": {"target": "a.example", "method": "A/B"}}, "/grpc/target", "host:port"),
        ({"grpc": {"target": "unix:/run/x", "method": "A/B"}}, "/grpc/target", "host:port"),
        ({"grpc": {"target": "a:70000", "method": "A/B"}}, "/grpc/target", "65535"),
        ({"grpc": {"target": "a:1", "method": "/A/B"}}, "/grpc/method", "package.Service/Method"),
        ({"grpc": {"target": "a:1", "method": "A/B", "tls": "no"}}, "/grpc/tls", "true or false"),
        ({"grpc": {"target": "a:1", "method": "A/B", "metadata": {"X": "1"}}}, "/grpc/metadata/X", "not a name"),
        ({"grpc": {"target": "a:1", "method": "A/B", "metadata": {"x-bin": "1"}}}, "/grpc/metadata/x-bin", "payload"),
        ({"shell": {"argv": "rm -rf /"}}, "/shell/argv", "list"),
        ({"shell": {"argv": []}}, "/shell/argv", "list"),
        ({"shell": {"argv": [""]}}, "/shell/argv/0", "argument"),
        ({"shell": {"argv": ["a", 5]}}, "/shell/argv/1", "argument"),
        ({"shell": {"argv": ["a", "b\0c"]}}, "/shell/argv/1", "argument"),
        ({"shell": {"argv": ["a"] * 65}}, "/shell/argv", "64"),
        ({"shell": {"argv": ["a", "\ud800"]}}, "/shell", "Unicode"),
        ({"shell": {"argv": ["a"], "env": {}}}, "/shell/env", "Known: argv"),
        ({"kafka": {"topic": "a b"}}, "/kafka/topic", "249"),
        ({"kafka": {"topic": ".."}}, "/kafka/topic", "exists"),
        ({"kafka": {"topic": "t", "key": 5}}, "/kafka/key", "text"),
        ({"kafka": {"topic": "t", "headers": {"ce_id": "1"}}}, "/kafka/headers/ce_id", "set by Waterclock"),
    ],
)
def test_a_fault_is_refused_where_it_is_with_a_hint(document: dict[str, object], pointer: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        spec_from_document({**EVERY, **document})
    assert refused.value.pointer == pointer
    assert refused.value.hint
    assert words in str(refused.value)


def test_the_stored_form_is_what_it_was() -> None:
    """On-disk format: in job rows, due rows and work records."""
    assert executor_to_json(HttpCall(URL)) == f'{{"http":{{"url":"{URL}"}}}}'
    full = HttpCall(URL, "GET", (("a", "b"),), 5.0, "s")
    text = f'{{"http":{{"url":"{URL}","method":"GET","headers":[["a","b"]],"timeout_s":5.0,"secret":"s"}}}}'
    assert executor_to_json(full) == text
    assert executor_to_json(GrpcCall("a:1", "A/B", tls=False)) == '{"grpc":{"target":"a:1","method":"A/B","tls":false}}'
    assert executor_to_json(ShellCommand(("a", "b"))) == '{"shell":{"argv":["a","b"]}}'
    assert executor_to_json(KafkaRecord("t", "k")) == '{"kafka":{"topic":"t","key":"k"}}'
    spec = JobSpec("", Every(US_PER_S), executor=ShellCommand(("a",)), at_most_once=True)
    stored = b'{"handler":"","tier":1,"pool":"default","every":[1000000,null],"executor":{"shell":{"argv":["a"]}},"at_most_once":true}'  # noqa: E501  # on-disk format in one piece
    assert spec_to_json(spec) == stored


def test_a_stored_form_of_a_later_release_is_read_without_what_it_adds() -> None:
    assert executor_from_json('{"shell":{"argv":["a"],"user":"nobody"}}') == ShellCommand(("a",))


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
seconds = st.integers(1, 600).map(float)
executors = st.one_of(
    st.builds(HttpCall, texts, texts, pairs, seconds, texts),
    st.builds(GrpcCall, texts, texts, pairs, seconds, st.booleans()),
    st.builds(ShellCommand, st.lists(texts, min_size=1, max_size=4).map(tuple), seconds),
    st.builds(KafkaRecord, texts, texts, pairs),
)


@given(executors)
def test_the_stored_form_keeps_every_executor(executor: Executor) -> None:
    assert executor_from_json(executor_to_json(executor)) == executor


@given(executors)
def test_an_executor_that_did_not_come_by_a_document_is_checked_as_if_it_had(executor: Executor) -> None:
    try:
        check_executor(executor)
    except RequestError:
        return
    ((word, document),) = executor_to_document(executor).items()
    assert executor_from_document(word, document) == executor


@pytest.mark.parametrize(
    "timeout_s", [1e305, float("inf"), float("nan"), 0, -1, True, None, "a" * 8_000, [30], 10**400]
)
def test_a_time_out_that_is_none_is_refused_before_anybody_calculates_with_it(timeout_s: Any) -> None:
    for executor in (HttpCall(URL), GrpcCall("a:1", "b.C/D"), ShellCommand(("/bin/true",))):
        with pytest.raises(RequestError):
            check_executor(replace(executor, timeout_s=timeout_s))


@given(executors)
def test_a_label_is_short_and_shows_no_query(executor: Executor) -> None:
    assert len(executor_label(executor)) <= LABEL_MAX


@pytest.mark.parametrize(
    ("executor", "label"),
    [
        (HttpCall(URL + "?token=s"), "http POST https://billing.example/hooks/nightly"),
        (GrpcCall("a:1", "b.C/D"), "grpc a:1/b.C/D"),
        (ShellCommand(("/srv/jobs/backup.sh", "--password=s")), "shell backup.sh"),
        (KafkaRecord("orders.due", "k"), "kafka orders.due"),
    ],
)
def test_a_label_says_where_the_work_is(executor: Executor, label: str) -> None:
    assert executor_label(executor) == label
