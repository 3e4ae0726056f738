"""No generated request gets a 5xx from any route of the API, and no route answers whoever has no right to it.

schemathesis makes the requests from the API's own description, valid and broken ones alike, against the real server on
the real stack: >= 5,000 cases, each judged by status, media type and shape of the answer. Half of the job ids are those
of jobs that exist. Then every route is asked without a key, with an expired, a revoked and a wrong one, and with
another tenant's: each time refused. The description itself is the committed one.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup

from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.real_stack import RealStack
from tests.free_ports import free_port
from waterclock.api import keys
from waterclock.clock import SystemClock
from waterclock.model.ids import US_PER_S
from waterclock.store.cassandra import CassandraStore

CASES_MIN = 5_000
JOBS = ("steady", "paused", "once")
CALENDAR = "days-off"
DAG = "graph"
_COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
_THREADS = 4
_CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
_OPEN = ("/healthz", "/readyz")
_MAKES = ("PUT /api/v1/calendars/{name}", "POST /api/v1/calendars/{name}/import")
"""They make what is not there, for the tenant of the key: its own calendar of that name, and nobody else's."""
_WITHIN_S = 30


class Size(NamedTuple):
    """How many cases, over all routes."""

    cases: int


WHOLE = Size(6_000)
SHORT = Size(220)


def main(*, short: bool, start: int | None = None) -> None:
    """The short form asks every route too, less often."""
    size = SHORT if short else WHOLE
    start = time.time_ns() % 1_000_000 if start is None else start
    with on_stage("api-contract") as (stack, evidence):
        evidence.figure("seed", start)
        server = _start(stack)
        with server:
            _judge_description(server, evidence)
            asked = _Asked(server)
            _ask_everything(asked, size.cases, start)
            _judge_answers(asked, evidence, size)
            _judge_strangers(server, evidence)
            evidence.demand(server.alive(), "the API process has ended")
            evidence.figure("ready at the end", requests.get(f"{server.url}/readyz", timeout=_WITHIN_S).status_code)


class Server:
    """The API under test, and keys for it."""

    def __init__(self, stack: RealStack, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._role = stack.roles["api-1"]
        self._store = CassandraStore(["127.0.0.1"], stack.cassandra.port, "waterclock", SystemClock())
        self.key = self.new_key("default")
        self.headers = {"Authorization": f"Bearer {self.key}"}
        self.description: dict[str, Any] = requests.get(f"{self.url}/openapi.json", timeout=_WITHIN_S).json()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def alive(self) -> bool:
        return self._role.process is not None and self._role.process.poll() is None

    def new_key(self, tenant: str, *, life_s: int = 3_600, revoked: bool = False) -> str:
        now = SystemClock().now()
        token, kept = keys.new_key(tenant, "admin", now - 10 * US_PER_S, expires_at=now + life_s * US_PER_S)
        self._store.put_key(kept)
        if revoked:
            self._store.put_key(kept._replace(revoked_at=now))
        return token

    def make_jobs(self) -> None:
        """The jobs and the calendar that are always there; a case may have deleted or changed them."""
        put = self.send("PUT", f"/api/v1/calendars/{CALENDAR}", json={"exclude": {"weekdays": ["sat", "sun"]}})
        assert put.status_code in (200, 201, 202), put.text
        for name in JOBS:
            schedule = {"at": "2199-01-01T00:00:00Z"} if name == "once" else {"every": "1h"}
            answer = self.send("POST", "/api/v1/jobs", json={"name": name, "handler": "demo.ping", **schedule})
            assert answer.status_code in (200, 201, 202, 409), answer.text
        self.send("POST", "/api/v1/jobs/paused/pause")
        dag = {"name": DAG, "every": "1h", "dag": {"nodes": [{"name": "a", "handler": "demo.ping"}]}}
        assert self.send("POST", "/api/v1/jobs", json=dag).status_code in (200, 201, 202, 409)

    def make_known(self) -> dict[str, list[str]]:
        """Values of all path parameters under which there is something; the first ones belong together."""
        self.make_jobs()
        run_id = self.send("POST", "/api/v1/jobs/steady/trigger").json()["run_id"]
        dag_run_id = self.send("POST", f"/api/v1/jobs/{DAG}/trigger").json()["run_id"]
        later = self.send("POST", "/api/v1/jobs/steady/trigger", headers={"Prefer": "respond-async"})
        revision = self.send("GET", "/api/v1/jobs/steady").json()["revision"]
        return {
            "job_id": list(JOBS),
            "name": [CALENDAR],
            "run_id": [run_id],
            "dag_run_id": [dag_run_id],
            "operation_id": [later.json()["operation_id"]],
            "revision": [str(revision)],
            "backfill_id": [self._backfill()],
        }

    def _backfill(self) -> str:
        """Of a job that has past fires; it makes one run at a time."""
        job = {"name": "past", "handler": "demo.ping", "cron": "*/20 * * * *"}
        assert self.send("POST", "/api/v1/jobs", json=job).status_code in (200, 201)
        asked = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "concurrency": 1}
        answer = self.send("POST", "/api/v1/jobs/past/backfills", json=asked)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["backfill_id"])

    def send(self, method: str, path: str, **more: Any) -> requests.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        return requests.request(method, self.url + path, headers=headers, timeout=_WITHIN_S, **more)


def _start(stack: RealStack) -> Server:
    port = free_port()
    more = {"WATERCLOCK_API__PORT": str(port), "WATERCLOCK_API__REQUIRE_KEY": "true"}
    generous = {"WATERCLOCK_API__RATE_PER_S": "100000", "WATERCLOCK_API__BURST": "100000"}
    roles = [
        stack.role("dispatcher", "dispatcher-1"),
        stack.role("workers", "worker-1"),
        stack.role("recorder", "recorder-1"),
        stack.role("api", "api-1", **more, **generous),
    ]
    for role in roles:
        role.wait_ready()
    return Server(stack, port)


# -- generated requests


class _Asked:
    """What was asked and answered so far; threads share it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.statuses: dict[str, Counter[int]] = {}
        self.complaints: list[str] = []
        self.slowest_s = 0.0
        self._lock = threading.Lock()

    def note(self, route: str, status: int, took_s: float, complaint: str = "") -> None:
        with self._lock:
            self.statuses.setdefault(route, Counter())[status] += 1
            self.slowest_s = max(self.slowest_s, took_s)
            if complaint:
                self.complaints.append(complaint)

    @property
    def count(self) -> int:
        return sum(sum(counts.values()) for counts in self.statuses.values())


def _ask_everything(asked: _Asked, cases: int, start: int) -> None:
    load_all_checks()
    known = asked.server.make_known()
    schema = schemathesis.openapi.from_dict(asked.server.description)
    operations = [result.ok() for result in schema.get_all_operations()]
    share = -(-cases // len(operations))
    with ThreadPoolExecutor(_THREADS) as pool:
        for operation in operations:
            _ask_one(asked, pool, operation, known, share, start)


def _ask_one(
    asked: _Asked, pool: ThreadPoolExecutor, operation: Any, known: dict[str, list[str]], share: int, start: int
) -> None:
    """``share`` cases of one route, in as many rounds as it takes: hypothesis stops where it sees no more news."""
    positive, negative = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    strategies = [operation.as_strategy(generation_mode=positive)]
    names = {parameter.name for parameter in operation.iter_parameters()}
    for name in sorted(names & set(known)):
        there = [{name: value} for value in known[name]]
        strategies += [operation.as_strategy(generation_mode=positive, path_parameters=each) for each in there]
    if len(names & set(known)) > 1:
        there_is = {name: known[name][0] for name in sorted(names & set(known))}
        strategies.append(operation.as_strategy(generation_mode=positive, path_parameters=there_is))
    if "expr" in names:
        strategies.append(operation.as_strategy(generation_mode=positive, query={"expr": "*/7 9-17 * * 1-5"}))
    if operation.label == "POST /api/v1/jobs":
        plain = operation.as_strategy(generation_mode=positive, headers={}, query={})
        asked.server.make_jobs()
        # First one that is made: among the few cases of a short form there need be none.
        for sent in _round(asked, pool, st.tuples(plain, _documents()).map(_with_body), 1, start):
            sent.result()
        strategies.append(st.tuples(operation.as_strategy(generation_mode=positive), _documents()).map(_with_body))
    if operation.label == "POST /api/v1/jobs/bulk":
        strategies.append(st.tuples(operation.as_strategy(generation_mode=positive), _bulks()).map(_with_body))
    if operation.label == "POST /api/v1/jobs/{job_id}/rollback":
        steady = operation.as_strategy(generation_mode=positive, path_parameters={"job_id": known["job_id"][0]})
        back = st.just({"to_revision": int(known["revision"][0])})
        strategies.append(st.tuples(steady, back).map(_with_body))
    if names or operation.body:
        strategies.append(operation.as_strategy(generation_mode=negative))
    for number in range(20):  # bounded: a route without any input has one case
        left = share - sum(asked.statuses.get(operation.label, Counter()).values())
        if left <= 0:
            return
        asked.server.make_jobs()
        for sent in _round(asked, pool, st.one_of(*strategies), left, start + number):
            sent.result()


def _documents() -> Any:
    """Jobs that can be, which a shape alone does not make: one schedule, one way to the work."""
    schedules = st.sampled_from([
        {"every": "1h"}, {"every": "2d", "start_at": "2199-01-01T00:00:00Z"}, {"at": "2199-01-01T00:00:00+01:00"},
        {"cron": "0 9 * * 1-5", "zone": "Europe/Berlin"}, {"cron": "H H * * *"}, {"cron": "0 0 1 1 *", "fold": "both"},
    ])  # fmt: skip
    works = st.sampled_from([
        {"handler": "demo.ping"}, {"callback_url": "https://a.example/x"}, {"kafka": {"topic": "t", "key": "k"}},
        {"http": {"url": "https://a.example", "method": "PUT", "headers": {"x-a": "b"}, "timeout": "5s"}},
        {"grpc": {"target": "a.example:443", "method": "a.B/C"}}, {"shell": {"argv": ["/bin/true"]}},
    ])  # fmt: skip
    json = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9), st.lists, max_leaves=9)
    rest = st.fixed_dictionaries(
        {},
        optional={
            "name": st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
            "payload": json,
            "priority": st.sampled_from(["HIGH", "low", "Medium"]),
            "at_most_once": st.booleans(),
        },
    )
    return st.tuples(schedules, works, rest).map(lambda parts: {**parts[0], **parts[1], **parts[2]})


def _bulks() -> Any:
    """Changes of many jobs that can be: an action, and at least one word of a filter."""
    return st.fixed_dictionaries(
        {
            "action": st.sampled_from(["pause", "resume", "trigger", "delete"]),
            "prefix": st.sampled_from(["steady", "once", "nobody-has-this-"]),
        },
        optional={
            "tier": st.lists(st.sampled_from(["high", "medium", "low"]), min_size=1, max_size=2, unique=True),
            "note": st.text(st.characters(codec="ascii", categories=["L"]), max_size=9),
            "dry_run": st.booleans(),
            "cap": st.integers(1, 10),
        },
    )


def _with_body(pair: tuple[Any, dict[str, Any]]) -> Any:
    case, document = pair
    case.body = document
    return case


def _round(asked: _Asked, pool: ThreadPoolExecutor, strategy: Any, left: int, start: int) -> list[Future[None]]:
    """Cases are made in one thread, because their maker knows one, and sent by several."""
    sent: list[Future[None]] = []
    quiet = settings(
        max_examples=left,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )

    @seed(start)
    @quiet
    @given(strategy)
    def ask(case: Any) -> None:
        sent.append(pool.submit(_ask, asked, case))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hypothesis about strategies that are not ours
        ask()
    return sent


def _ask(asked: _Asked, case: Any) -> None:
    route = case.operation.label
    headers = dict(asked.server.headers)
    if "If-Match" not in (case.headers or {}) and case.path_parameters.get("job_id") in JOBS:
        headers["If-Match"] = "*"
    began_s = time.monotonic()
    if case.path.endswith("/stream"):
        _ask_for_a_stream(asked, case, headers, began_s)
        return
    response = case.call(base_url=asked.server.url, headers=headers, timeout=_WITHIN_S)
    took_s = time.monotonic() - began_s
    complaint = ""
    try:
        case.validate_response(response, checks=[CHECKS.get_one(name) for name in _CHECKS], headers=headers)
    except (FailureGroup, AssertionError) as failure:
        found = failure.exceptions if isinstance(failure, FailureGroup) else [failure]
        told = "; ".join(f"{type(each).__name__}: {str(each)[:300]}" for each in found)
        complaint = f"{route} -> {response.status_code}: {told} | {case.as_curl_command()[:400]}"
    asked.note(route, response.status_code, took_s, complaint)


def _ask_for_a_stream(asked: _Asked, case: Any, headers: dict[str, str], began_s: float) -> None:
    """It has no end: its head is the answer."""
    given = case.as_transport_kwargs(base_url=asked.server.url, headers=headers)
    with requests.request(**given, stream=True, timeout=_WITHIN_S) as response:
        status, kind = response.status_code, response.headers["content-type"]
    expected = "text/event-stream" if status == 200 else "application/problem+json"
    wrong = (status >= 500 and status != 503) or not kind.startswith(expected)
    asked.note(case.operation.label, status, time.monotonic() - began_s, f"stream: {status} {kind}" if wrong else "")


# -- judging


def _judge_description(server: Server, evidence: Evidence) -> None:
    committed = json.loads(_COMMITTED.read_text(encoding="utf-8"))
    evidence.demand(server.description == committed, "the server describes itself otherwise than docs/openapi.json")
    routes = [f"{method.upper()} {path}" for path, methods in committed["paths"].items() for method in methods]
    evidence.figure("routes", len(routes))


def _judge_answers(asked: _Asked, evidence: Evidence, size: Size) -> None:
    for route, counts in sorted(asked.statuses.items()):
        evidence.figure(route, dict(sorted(counts.items())))
    fives = sum(count for counts in asked.statuses.values() for status, count in counts.items() if status >= 500)
    evidence.figure("cases", asked.count)
    evidence.figure("answers of 5xx", fives)
    evidence.figure("slowest answer, s", round(asked.slowest_s, 2))
    evidence.demand(asked.count >= min(size.cases, CASES_MIN), f"only {asked.count} cases were asked")
    evidence.demand(not fives, f"{fives} answers of 5xx")
    evidence.none_of(asked.complaints, "answers that are not as described")
    reached = {status for counts in asked.statuses.values() for status in counts}
    evidence.demand({200, 201, 400, 404, 422} <= reached, f"the cases never reached past the door: {sorted(reached)}")


def _judge_strangers(server: Server, evidence: Evidence) -> None:
    """Every route, by whoever has no right to it."""
    other = server.new_key("globex")
    forged = server.key[:-5] + ("AAAAA" if not server.key.endswith("AAAAA") else "BBBBB")
    refused = {
        "without a key": ({}, {401}),
        "with an expired key": (_bearer(server.new_key("default", life_s=-1)), {401}),
        "with a revoked key": (_bearer(server.new_key("default", revoked=True)), {401}),
        "with a forged key": (_bearer(forged), {401}),
        "with no key of ours": (_bearer("eyJhbGciOiJub25lIn0.e30."), {401}),
        "with another tenant's key": (_bearer(other), {404}),
    }
    known = {name: values[0] for name, values in server.make_known().items()}
    known |= {"job_id": "default:steady"}
    known |= {name: known[name].replace("@", "%40") for name in ("run_id", "dag_run_id")}
    for who, (headers, statuses) in refused.items():
        asked = 0
        wrong: list[str] = []
        for path, methods in server.description["paths"].items():
            owned = "{" in path
            if path in _OPEN or (who.startswith("with another") and not owned):
                continue
            filled = path.format(**known)
            for method in methods:
                if who.startswith("with another") and f"{method.upper()} {path}" in _MAKES:
                    continue
                asked += 1
                answer = requests.request(method, server.url + filled, headers=headers, json=_body(method, path),
                                          timeout=_WITHIN_S, stream=True)  # fmt: skip
                if answer.status_code not in statuses:
                    wrong.append(f"{method.upper()} {path} answered {answer.status_code} {who}")
                answer.close()
        evidence.figure(f"routes asked {who}, refused", asked - len(wrong), of=asked)
        evidence.none_of(wrong, f"routes that answered {who}")
    evidence.demand(server.send("GET", "/api/v1/jobs/steady").status_code == 200, "the owner is refused as well")


def _body(method: str, path: str) -> object:
    if method == "patch":
        return {"every": "2h"}
    return {"name": "x", "handler": "a", "every": "1h"} if (method, path) == ("post", "/api/v1/jobs") else None


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "If-Match": "*"}
