"""Who may do what: keys, tenants, scopes, rates; and nobody by a browser's hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import JOB, ApiWorld, bearer, until
from waterclock.api import keyring, keys
from waterclock.api.rates import Rates
from waterclock.api.serving import check_may_listen, is_loopback
from waterclock.clock import ManualClock, SystemClock
from waterclock.model.errors import BackendDown, RequestError
from waterclock.model.ids import US_PER_S
from waterclock.settings import ApiSettings, Settings
from waterclock.store.memory import MemoryStore

JOBS = "/api/v1/jobs"
OPEN_PATHS = {"/healthz", "/readyz"}


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld(require_key=True, wait_s=10.0, rate_per_s=100_000, burst=100_000) as world:
        yield world


def routes(world: ApiWorld) -> list[tuple[str, str]]:
    described = world.client.get("/openapi.json").json()["paths"]
    return [(method, path) for path, methods in described.items() for method in methods if path not in OPEN_PATHS]


def call(world: ApiWorld, method: str, path: str, **headers: str) -> Any:
    run_id = "default:x@20261121T090000Z"
    filled = path.format(
        job_id="x", run_id=run_id, dag_run_id=run_id, operation_id="o", backfill_id="default:x~7", revision=7, name="x"
    )
    if path.endswith("/stream"):
        headers["Last-Event-ID"] = "none of ours"  # else an accepted one would never end
    return world.client.request(method.upper(), filled, headers=headers)


def wrong_keys(world: ApiWorld) -> dict[str, str]:
    now = world.clock.now()
    good = world.key()
    revoked = world.key()
    token = keys.read_token(revoked)
    assert token is not None
    with world.lock:
        kept = world.store.key(token.prefix)
        assert kept is not None
        world.store.put_key(kept._replace(revoked_at=now + 1))
    return {
        "none": "",
        "expired": f"Bearer {world.key(expires_at=now - US_PER_S)}",
        "revoked": f"Bearer {revoked}",
        "another secret": f"Bearer {good[:-4]}AAAA",
        "unknown prefix": f"Bearer wck_aaaaaaaaaa_{good.rpartition('_')[2]}",
        "no bearer": good,
        "basic": f"Basic {good}",
        "garbage": "Bearer \x7f",
        "empty": "Bearer ",
        "huge": "Bearer " + "x" * 10_000,
    }


def test_every_route_refuses_whoever_has_no_valid_key(world: ApiWorld) -> None:
    found = routes(world)
    assert len(found) >= 14
    for why, value in wrong_keys(world).items():
        for method, path in found:
            answer = call(world, method, path, **({"Authorization": value} if value else {}))
            assert answer.status_code == 401, f"{why}: {method} {path} answered {answer.status_code}"
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert value[7:60] not in answer.text or len(value) < 8, "a key is never quoted"


def test_a_key_that_may_read_may_not_change_anything(world: ApiWorld) -> None:
    reader = f"Bearer {world.key('read')}"
    for method, path in routes(world):
        answer = call(world, method, path, Authorization=reader)
        changes = method != "get" and path != f"{JOBS}/preview"  # a document to look at does not fit into a URL
        expected = changes or path == "/metrics"
        assert (answer.status_code == 403) == expected, f"{method} {path}: {answer.status_code}"


def test_another_tenants_jobs_are_not_there(world: ApiWorld) -> None:
    mine, other = bearer(world.key(tenant="acme")), bearer(world.key(tenant="globex"))
    assert world.client.post(JOBS, json=JOB, headers=mine).status_code == 201

    for word in ("nightly", "acme:nightly"):
        for method, suffix in (("get", ""), ("get", "/status"), ("get", "/runs"), ("delete", ""), ("post", "/pause"),
                               ("post", "/trigger"), ("patch", "")):  # fmt: skip
            more = {"If-Match": "*"} if method == "patch" else {}
            content = {"json": {"every": "1h"}} if method == "patch" else {}
            answer = world.client.request(method, f"{JOBS}/{word}{suffix}", headers={**other, **more}, **content)
            assert answer.status_code == 404, f"{method} {word}{suffix}: {answer.status_code}"
    assert world.client.get(JOBS, headers=other).json()["jobs"] == []
    assert [job["job_id"] for job in world.client.get(JOBS, headers=mine).json()["jobs"]] == ["acme:nightly"]


def test_another_tenants_operation_and_run_are_not_there(world: ApiWorld) -> None:
    mine, other = bearer(world.key(tenant="acme")), bearer(world.key(tenant="globex"))
    answer = world.client.post(JOBS, json={**JOB, "name": "op"}, headers={**mine, "Prefer": "respond-async"})
    place = answer.headers["location"]

    assert world.client.get(place, headers=mine).status_code == 200
    assert world.client.get(place, headers=other).status_code == 404
    assert world.client.get("/api/v1/runs/acme:op@20261121T090000Z", headers=other).status_code == 404


def test_a_tenant_cannot_be_named_by_the_request(world: ApiWorld) -> None:
    mine = bearer(world.key(tenant="acme"))
    document = world.client.post(JOBS, json={**JOB, "name": "globex:steal"}, headers=mine)
    assert document.status_code == 422
    assert world.client.get(f"{JOBS}?tenant=globex", headers=mine).status_code == 400


def test_without_any_key_this_machine_is_let_in_and_with_the_first_key_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyring, "KEPT_S", 0.2)
    with ApiWorld() as world:
        assert world.client.get(JOBS).status_code == 200
        token = world.key("read")
        until(lambda: world.client.get(JOBS).status_code == 401)
        assert world.client.get(JOBS, headers=bearer(token)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8080"},
        {"Host": "[::1].evil.example"},
        {"Host": "[evil"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_without_a_key_no_other_sites_page_can_act_through_a_browser(headers: dict[str, str]) -> None:
    with ApiWorld() as world:
        for method, path in (("get", JOBS), ("post", f"{JOBS}/x/trigger"), ("delete", f"{JOBS}/x")):
            assert world.client.request(method, path, headers=headers).status_code == 403


def test_without_a_key_our_own_page_can_act() -> None:
    with ApiWorld() as world:
        headers = {"Host": "localhost:8080", "Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-origin"}
        assert world.client.get(JOBS, headers=headers).status_code == 200


def test_a_key_that_asks_too_often_is_told_when_to_come_back() -> None:
    with ApiWorld(rate_per_s=0.5, burst=3) as world:
        busy, calm = bearer(world.key("read")), bearer(world.key("read"))
        answers = [world.client.get(JOBS, headers=busy) for _ in range(4)]

        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert int(answers[3].headers["retry-after"]) in (1, 2)
        assert world.client.get(JOBS, headers=calm).status_code == 200


def test_a_rate_is_that_of_its_key_and_recovers_with_time() -> None:
    clock = ManualClock()
    rates = Rates(clock, rate_per_s=10, burst=2)
    assert [rates.take("a") for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]
    assert rates.take("b") == 0.0
    clock.advance(US_PER_S // 10)
    assert [rates.take("a"), rates.take("a") > 0] == [0.0, True]


def test_a_key_is_random_and_only_its_digest_is_kept() -> None:
    token, kept = keys.new_key("acme", "read,write", 5, name="ci")
    other, _ = keys.new_key("acme", "read", 5)
    read = keys.read_token(token)

    assert read is not None
    assert other != token
    assert kept.digest == keys.digest_of(read.secret)
    assert read.secret.encode() not in b"".join(str(part).encode() for part in kept)
    assert len(read.secret) == 43, "256 bits"
    assert kept.scopes == "read write"


@pytest.mark.parametrize("scopes", ["", "root", "read,root"])
def test_a_scope_that_is_none_is_refused(scopes: str) -> None:
    with pytest.raises(RequestError):
        keys.new_key("acme", scopes, 5)


def test_elsewhere_than_on_loopback_it_does_not_start_without_a_usable_key() -> None:
    clock = SystemClock()
    store = MemoryStore(clock)
    settings = Settings(api=ApiSettings(host="0.0.0.0"))  # noqa: S104 - that is what is refused
    with pytest.raises(RequestError, match="without a key"):
        check_may_listen(settings, store, clock)
    _, expired = keys.new_key("acme", "admin", clock.now(), expires_at=clock.now() - 1)
    store.put_key(expired)
    with pytest.raises(RequestError, match="without a key"):
        check_may_listen(settings, store, clock)
    _, good = keys.new_key("acme", "admin", clock.now())
    store.put_key(good)

    assert check_may_listen(settings, store, clock).api.require_key


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - a case
        ("::", False),
        ("10.0.0.1", False),
        ("myhost", False),
    ],
)
def test_what_is_loopback(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_while_the_store_is_away_nobody_is_let_in_by_mistake() -> None:
    with ApiWorld() as world:
        token = world.key()

        def away(client: str, operation: str) -> None:
            if client == "api" and operation in ("key", "keys"):
                raise BackendDown("cassandra", "no answer")

        world.tables.on_call = away
        answers = [world.client.get(JOBS), world.client.get(JOBS, headers=bearer(token))]
        assert [answer.status_code for answer in answers] == [503, 503]
        assert all("retry-after" in answer.headers for answer in answers)


def guess(world: ApiWorld, number: int) -> int:
    token = f"wck_guess{number:05d}_{'x' * 43}"
    status = world.client.get(JOBS, headers=bearer(token)).status_code
    assert isinstance(status, int)
    return status


def test_guessing_costs_the_store_little_and_shuts_nobody_out_who_has_a_key() -> None:
    """Also one that no process has seen yet is let in while strangers try theirs, and one in use is asked of anew."""
    with ApiWorld() as world:
        known, fresh = bearer(world.key()), bearer(world.key())
        assert world.client.get(JOBS, headers=known).status_code == 200
        asked: list[str] = []
        world.tables.on_call = lambda _, operation: asked.append(operation) if operation in ("key", "keys") else None
        assert {guess(world, number) for number in range(150)} == {401}
        assert world.client.get(JOBS, headers=fresh).status_code == 200
        assert world.client.get(JOBS, headers=known).status_code == 200
        assert len(asked) < 100
        assert len(world.services.keyring._unknown) < 100
        world.tables.on_call = None


def test_where_not_all_keys_can_be_read_together_a_good_one_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyring, "_TOGETHER_MAX", 1)
    monkeypatch.setattr(keyring, "_STRANGERS_AT_ONCE", 1)
    monkeypatch.setattr(keyring, "_STRANGERS_PER_S", 1.0)
    with ApiWorld() as world:
        tokens = [bearer(world.key()) for _ in range(2)]
        assert guess(world, 1) == 401
        answers = [world.client.get(JOBS, headers=token) for token in tokens]
        assert sorted(answer.status_code for answer in answers) == [200, 503]
        busy = next(token for token, answer in zip(tokens, answers, strict=True) if answer.status_code == 503)
        until(lambda: world.client.get(JOBS, headers=busy).status_code == 200)


def test_a_key_that_was_revoked_is_not_believed_for_having_been_read_with_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyring, "KEPT_S", 0.3)
    monkeypatch.setattr(keyring, "_STRANGERS_AT_ONCE", 0)
    with ApiWorld() as world:
        token = world.key()
        assert world.client.get(JOBS, headers=bearer(token)).status_code == 200
        read = keys.read_token(token)
        assert read is not None
        with world.lock:
            kept = world.store.key(read.prefix)
            assert kept is not None
            world.store.put_key(kept._replace(revoked_at=world.clock.now()))
        until(lambda: world.client.get(JOBS, headers=bearer(token)).status_code == 401)
