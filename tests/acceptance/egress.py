"""No call reaches an address that it must not: over 250 URLs and targets, redirects, and names that flip.

A worker's executors run in a process of their own, with a resolver that says what the check wants. Two witnesses stand
outside: listeners on loopback addresses that nobody may reach, and a ledger under the process (LD_PRELOAD) that notes
every connect and lets none leave the machine. HTTP and gRPC go through the same corpus. So that silence proves
something: the listeners hear an unguarded client, allowed calls arrive, and names whose answer is public do connect.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance.calls import corpus
from tests.acceptance.calls.ledger import Ledger
from tests.acceptance.calls.sinks import Forbidden, GrpcSink, HttpSink
from tests.acceptance.evidence import Evidence

ROOT = Path(__file__).resolve().parents[2]
_KEPT_S = 10.5
"""A little longer than the guard keeps a resolver's answer."""

_CALLER_S = 400.0
_ALLOWED_CALLS = 20
_HERE = {"127.0.0.1", "0.0.0.0", "::1", "::ffff:127.0.0.1"}  # noqa: S104 - nobody binds to it: it is called
_REDIRECTS = (300, 301, 302, 303, 307, 308)
_REFUSED = {"egress-refused"}
_UNREACHED = {"connection-failed", "grpc-unavailable", "timed-out"}
"""Where a public address was tried: the ledger lets nothing out."""


class Size(NamedTuple):
    """How much of it: names that flip, and how often each is called on each path."""

    flips: int
    passes: int


WHOLE = Size(500, 3)
SHORT = Size(40, 2)


class Plan(NamedTuple):
    """The calls, and what each must come to."""

    blocked: list[dict[str, Any]]
    flipping: list[dict[str, Any]]
    redirected: list[dict[str, Any]]
    allowed: list[dict[str, Any]]


def main(short: bool = False) -> None:
    size = SHORT if short else WHOLE
    folder = Path(tempfile.mkdtemp(prefix="egress-"))
    evidence = Evidence("egress", None)
    forbidden = Forbidden()
    http = HttpSink(_leads(forbidden.port))
    grpc = GrpcSink()
    try:
        _hear_the_unguarded(evidence, forbidden)
        ledger = Ledger(folder)
        plan = _plan(size, forbidden, http, grpc)
        listed = [f"{name}:{at}" for name in corpus.listed() for at in (80, 443)]
        outcomes, said = _call(folder, ledger, plan, size, (http.place, grpc.place, *listed))
        _judge_calls(evidence, plan, size, outcomes)
        _judge_resolver(evidence, size, said)
        _judge_witnesses(evidence, forbidden, ledger, {http.place, grpc.place})
        _judge_arrivals(evidence, size, http, grpc)
    finally:
        for sink in (forbidden, http, grpc):
            sink.close()
    evidence.close()
    shutil.rmtree(folder)


def _leads(port: int) -> tuple[str, ...]:
    return (
        f"http://127.0.0.1:{port}/",
        f"http://127.0.0.2:{port}/",
        f"//127.0.0.1:{port}/",
        f"http://[::1]:{port}/",
        f"http://2130706433:{port}/",
        f"https://localhost:{port}/",
    )


def _hear_the_unguarded(evidence: Evidence, forbidden: Forbidden) -> None:
    """The same disguises, by a client without a guard: they do reach the listeners."""
    writings = ["127.0.0.1", "localhost", "0.0.0.0", "::1", "::ffff:127.0.0.1", *corpus.disguised("127.0.0.1")]  # noqa: S104
    tried = heard = 0
    for host in writings:
        try:
            found = socket.getaddrinfo(host, forbidden.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            continue  # no address to this machine's resolver
        if not all(str(info[4][0]) in _HERE for info in found):
            continue
        tried += 1
        for info in found:
            try:
                with socket.socket(*info[:3]) as client:
                    client.settimeout(2.0)
                    client.connect(info[4])
                    heard += client.recv(1) == b""
                    break
            except OSError:
                continue
    evidence.figure("disguises that reach a listener without the guard", heard, of=tried)
    evidence.demand(heard >= 8, f"only {heard} unguarded connections were heard: the listeners prove little")
    evidence.demand(sum(forbidden.count.values()) >= heard, "the listeners did not count them")
    forbidden.count.clear()


def _plan(size: Size, forbidden: Forbidden, http: HttpSink, grpc: GrpcSink) -> Plan:
    port = forbidden.port
    hosts = [*corpus.hosts(), *corpus.names()]
    urls = [f"{scheme}://{host}{at}/" for host in hosts for scheme, at in (("http", f":{port}"), ("https", ""))]
    urls += [f"https://{host}:{port}/hook?x=1" for host in hosts] + list(corpus.tricks(port))
    urls += [f"{scheme}://{name}/latest/meta-data" for name in corpus.listed() for scheme in ("http", "https")]
    targets = [f"{host}:{at}" for host in hosts for at in (443, port)] + list(corpus.targets(port))
    targets += [f"{name}:{at}" for name in corpus.listed() for at in (80, 443)]
    blocked = [_http(url) for url in dict.fromkeys(urls)]
    blocked += [_grpc(target, tls=tls) for target in dict.fromkeys(targets) for tls in (True, False)]
    names = corpus.flips(size.flips)
    flipping = [_http(f"https://{name}/") for name in list(names)[::2]]
    flipping += [_grpc(f"{name}:443", tls=True) for name in list(names)[1::2]]
    redirects = [
        _http(f"http://{http.place}/to/{status}/{lead}") for status in _REDIRECTS for lead in range(len(_leads(port)))
    ]
    allowed = [_http(f"http://{http.place}/"), _grpc(grpc.place, tls=False)] * (_ALLOWED_CALLS // 2)
    return Plan(blocked, flipping, redirects, allowed)


def _http(url: str) -> dict[str, Any]:
    return {"http": {"url": url, "timeout_s": 20.0}}


def _grpc(target: str, *, tls: bool) -> dict[str, Any]:
    return {"grpc": {"target": target, "method": "acme.Probe/Call", "timeout_s": 20.0, "tls": tls}}


def _call(
    folder: Path, ledger: Ledger, plan: Plan, size: Size, allow: tuple[str, ...]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All calls in one process; what it wrote down of their ends, and of what the resolver said."""
    once = [*plan.blocked, *plan.redirected, *plan.allowed, *plan.flipping]
    passes = [once, *([*plan.allowed, *plan.flipping] for _ in range(size.passes - 1))]
    answers = corpus.names() | corpus.listed() | corpus.flips(size.flips)
    plan_path, outcomes_path = folder / "plan.json", folder / "outcomes.jsonl"
    plan_path.write_text(json.dumps({"allow": allow, "answers": answers, "passes": passes, "rest_s": _KEPT_S}))
    command = [sys.executable, "-m", "tests.acceptance.calls.caller", str(plan_path), str(outcomes_path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **ledger.env}, check=True, timeout=_CALLER_S)
    lines = [json.loads(line) for line in outcomes_path.read_text().splitlines()]
    return [line for line in lines if "call" in line], [line for line in lines if "said" in line]


def _judge_calls(evidence: Evidence, plan: Plan, size: Size, outcomes: list[dict[str, Any]]) -> None:
    owed = Counter(json.dumps(call) for call in plan.blocked + plan.redirected)
    owed.update({json.dumps(call): size.passes for call in plan.flipping})
    owed.update(json.dumps(call) for call in plan.allowed * size.passes)
    evidence.demand(Counter(json.dumps(line["call"]) for line in outcomes) == owed, "not every call ended once")
    for path in ("http", "grpc"):
        count = sum(path in call for call in plan.blocked)
        evidence.figure(f"{path} places that must not be reached", count)
        evidence.demand(count >= 250, f"only {count} {path} places were tried")
    wanted = [(plan.blocked, _REFUSED), (plan.flipping, _REFUSED | _UNREACHED)]
    wanted += [(plan.redirected, {f"http-{status}" for status in _REDIRECTS}), (plan.allowed, {""})]
    wrong = []
    for calls, classes in wanted:
        known = {json.dumps(call) for call in calls}
        wrong += [line for line in outcomes if json.dumps(line["call"]) in known and line["class"] not in classes]
    evidence.figure("calls", len(outcomes), by_class=Counter(line["class"] or "arrived" for line in outcomes))
    evidence.none_of((json.dumps(line) for line in wrong), "calls that ended otherwise than they must")
    evidence.figure("redirects to forbidden addresses, none followed", len(plan.redirected))


def _judge_resolver(evidence: Evidence, size: Size, said: list[dict[str, Any]]) -> None:
    """The flipping must have happened: both kinds of answers were given for the same names."""
    flipping = [line for line in said if line["said"].startswith("flips-")]
    honest = sum(ip_address(line["addresses"][0]).is_global for line in flipping)
    evidence.figure("answers for names that flip", len(flipping), public=honest, forbidden=len(flipping) - honest)
    evidence.demand(len(flipping) == size.flips * size.passes, "a name was asked for more or less than once a call")
    evidence.demand(honest >= size.flips // 2, "few answers were public: hardly anything flipped")
    evidence.demand(len(flipping) - honest >= size.flips // 2, "few answers were forbidden: hardly anything flipped")


def _judge_witnesses(evidence: Evidence, forbidden: Forbidden, ledger: Ledger, allowed: set[str]) -> None:
    evidence.figure("connections heard on forbidden addresses", sum(forbidden.count.values()), on=forbidden.addresses)
    evidence.none_of(map(str, forbidden.count.items()), "forbidden addresses were reached")
    tried = ledger.read()
    public = [each for each in tried if each.public]
    listed = [each for each in tried if f"{each.address}:{each.port}" in allowed]
    bad = [each for each in tried if each not in public and each not in listed]
    evidence.figure("connections tried, by the ledger", len(tried), public=len(public), listed=len(listed))
    evidence.none_of(map(str, bad), "connections to blocked ranges were tried")
    evidence.none_of(
        (str(each) for each in tried if each.kind != "tcp"), "datagrams: somebody resolved behind our back"
    )
    evidence.demand(len(public) >= 20, "hardly any public address was tried: the ledger or the guard is deaf")


def _judge_arrivals(evidence: Evidence, size: Size, http: HttpSink, grpc: GrpcSink) -> None:
    arrived = {"http": http.paths.count("/"), "grpc": grpc.calls_count}
    evidence.figure("allowed calls that arrived", arrived)
    owed = _ALLOWED_CALLS // 2 * size.passes
    evidence.demand(arrived == {"http": owed, "grpc": owed}, f"{owed} allowed calls were owed on each path")
