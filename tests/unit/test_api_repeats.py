"""Idempotency-Key: the same request again is done once and gets the same answer."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.api_world import JOB, NAMES, ApiWorld, bearer, until
from waterclock.api import calendars, orders
from waterclock.api.app import build_app
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown
from waterclock.model.job import Command
from waterclock.wire.codec import decode_command

JOBS = "/api/v1/jobs"


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    with ApiWorld(wait_s=10.0) as world:
        yield world


def post(world: ApiWorld, key: str, path: str = JOBS, **more: Any) -> Any:
    return world.client.post(path, headers={"Idempotency-Key": key}, **more)


def test_a_repeat_gets_the_same_answer_and_sends_nothing(world: ApiWorld) -> None:
    first = post(world, "k-1", json=JOB)
    sent = world.records(NAMES.commands)
    again = post(world, "k-1", json=JOB)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert world.records(NAMES.commands) == sent


def test_a_repeated_trigger_makes_one_run(world: ApiWorld) -> None:
    world.create()
    first, again = (post(world, "t-1", f"{JOBS}/nightly/trigger") for _ in range(2))

    assert first.status_code == 201
    assert again.json() == first.json()


def test_a_repeated_trigger_tells_that_its_run_waits_or_was_dropped(world: ApiWorld) -> None:
    """The first answer was never given: of that only the shard's owner knows, and history."""
    world.make_recorder()
    for name, overlap, word in (("drops", "skip", "skipped"), ("waits", "buffer_all", "held")):
        world.create(name=name, overlap=overlap)
        path = f"{JOBS}/{name}/trigger"
        assert world.client.post(path).json()[word] is None
        headers = {"Idempotency-Key": name, "Prefer": "respond-async"}
        assert world.client.post(path, headers=headers).status_code == 202
        assert post(world, name, path).json()[word]


def test_a_job_without_a_name_is_one_job_however_often_it_is_sent(world: ApiWorld) -> None:
    nameless = {"every": "10m", "handler": "demo.ping"}
    first, again = (post(world, "n-1", json=nameless) for _ in range(2))
    assert again.json()["job_id"] == first.json()["job_id"]
    assert post(world, "n-2", json=nameless).json()["job_id"] != first.json()["job_id"]


@pytest.mark.parametrize("other", [{**JOB, "every": "1h"}, {**JOB, "name": "another"}])
def test_another_request_under_a_key_that_was_used_is_422(world: ApiWorld, other: dict[str, Any]) -> None:
    post(world, "k-1", json=JOB)
    refused = post(world, "k-1", json=other)

    assert (refused.status_code, refused.json()["type"]) == (422, "urn:waterclock:problem:key-reused")


def test_a_refusal_is_repeated_as_it_was(world: ApiWorld) -> None:
    world.create()
    other = {**JOB, "every": "1h"}
    assert [post(world, "r-1", json=other).status_code for _ in range(2)] == [409, 409]


def test_the_same_request_while_the_first_is_served_is_409() -> None:
    with ApiWorld(wait_s=2.0) as world:
        world.obeys = False
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(post, world, "k-1", json=JOB)
            until(lambda: world.services.in_flight)
            second = post(world, "k-1", json=JOB)
            world.obeys = True
            assert first.result().status_code == 201

        assert (second.status_code, second.json()["type"]) == (409, "urn:waterclock:problem:in-flight")
        assert "retry-after" in second.headers


def test_keys_of_two_tenants_do_not_meet(world: ApiWorld) -> None:
    for tenant in ("acme", "globex"):
        headers = {**bearer(world.key(tenant=tenant)), "Idempotency-Key": "k-1"}
        assert world.client.post(JOBS, json=JOB, headers=headers).json()["job_id"] == f"{tenant}:nightly"


def test_a_repeat_through_a_process_that_lost_the_answer_is_still_done_once(world: ApiWorld) -> None:
    """The table is not there for it: the shard owner knows the key."""

    def forgetful(client: str, operation: str) -> None:
        if operation == "keep_answer":
            raise BackendDown("cassandra", "no answer")

    world.create()
    world.tables.on_call = forgetful
    first, again = (post(world, "t-9", f"{JOBS}/nightly/trigger") for _ in range(2))

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["run_id"] == first.json()["run_id"]
    made = [post(world, "c-9", json={**JOB, "name": "fresh"}) for _ in range(2)]
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json()["revision"] == made[1].json()["revision"]


@pytest.mark.parametrize("key", ["", "has space", "x" * 201, "tab\there"])
def test_a_key_that_cannot_be_one_is_400(world: ApiWorld, key: str) -> None:
    assert post(world, key, json=JOB).status_code == 400


def test_a_request_that_could_not_be_read_uses_no_key_up(world: ApiWorld) -> None:
    assert post(world, "k-1", json={"name": "nightly"}).status_code == 422
    assert post(world, "k-1", json={"name": "nightly"}).status_code == 422
    assert build_app  # the app is the real one


def test_what_was_not_answered_in_time_can_be_asked_again_under_its_key() -> None:
    with ApiWorld(wait_s=0.05) as world:
        world.obeys = False
        assert post(world, "k-1", json=JOB).status_code == 202
        world.obeys = True
        answers = [until(lambda: (a := post(world, "k-1", json=JOB)).status_code != 202 and a) for _ in range(2)]

        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json()["job_id"] == "default:nightly"


# The same request, of which the API makes another command by then -----------------------------------------------------


NIGHTLY = f"{JOBS}/nightly"


def commands(world: ApiWorld) -> list[Command]:
    log, found = MemoryLog(world.cluster, "reader"), []
    with world.lock:
        for number in range(log.partitions(NAMES.commands)):
            place = TopicPartition(NAMES.commands, number)
            found += list(read_range(log, Isolation.COMMITTED, place, 0, log.high_watermark(place)))
    return [decode_command(record.value or b"") for record in found]


def patch(world: ApiWorld, key: str, match: str, change: dict[str, Any], **headers: str) -> Any:
    return world.client.patch(NIGHTLY, json=change, headers={"Idempotency-Key": key, "If-Match": match, **headers})


def change_by_somebody_else(world: ApiWorld) -> None:
    answer = world.client.patch(NIGHTLY, json={"every": "30m"}, headers={"If-Match": "*"})
    assert (answer.status_code, answer.json()["tier"]) == (200, "high")


@pytest.mark.parametrize("match", ["its ETag", "*"])
def test_a_patch_is_known_again_after_somebody_else_has_changed_the_job(world: ApiWorld, match: str) -> None:
    etag = world.create().headers["etag"]
    match = "*" if match == "*" else etag
    first = patch(world, "p-1", match, {"tier": "high"}, Prefer="respond-async")
    until(lambda: world.client.get(NIGHTLY).json()["tier"] == "high")
    change_by_somebody_else(world)
    stands = world.client.get(NIGHTLY)

    at_once = patch(world, "p-1", match, {"tier": "high"}, Prefer="respond-async")
    operation = until(lambda: (o := world.client.get(at_once.headers["location"]).json())["status"] != "pending" and o)
    again = patch(world, "p-1", match, {"tier": "high"})
    replayed = patch(world, "p-1", match, {"tier": "high"})

    assert (first.status_code, at_once.status_code, operation["status"]) == (202, 202, "repeated")
    assert (again.status_code, again.headers["etag"]) == (200, stands.headers["etag"])
    assert again.json()["every"] == "30m"
    assert (replayed.content, replayed.headers["idempotency-replayed"]) == (again.content, "true")
    assert world.client.get(NIGHTLY).headers["etag"] == stands.headers["etag"]


def test_a_patch_that_nobody_acknowledged_and_that_landed_is_known_again(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "_ACKNOWLEDGED_WITHIN_S", 0.2)
    etag = world.create().headers["etag"]
    world.sends = False
    assert patch(world, "p-1", etag, {"tier": "high"}).status_code == 503
    world.sends = True
    until(lambda: world.client.get(NIGHTLY).json()["tier"] == "high")
    monkeypatch.undo()
    change_by_somebody_else(world)

    again = patch(world, "p-1", etag, {"tier": "high"})
    assert (again.status_code, again.json()["every"]) == (200, "30m")


def test_a_create_is_known_again_after_a_calendar_of_it_has_changed(world: ApiWorld) -> None:
    job = {"name": "cj", "cron": "0 9 * * *", "handler": "x", "calendars": ["hol"]}
    days = ["2030-01-01"]
    for answered in (202, 200):
        assert world.client.put("/api/v1/calendars/hol", json={"exclude": {"days": days}}).status_code == 201
        headers = {"Idempotency-Key": "c-1"} | ({"Prefer": "respond-async"} if answered == 202 else {})
        answer = world.client.post(JOBS, json=job, headers=headers)
        assert answer.status_code == answered
        until(lambda: world.client.get(f"{JOBS}/cj").status_code == 200)
        days.append("2030-01-02")
    assert answer.headers["location"] == f"{JOBS}/default:cj"


def test_a_repeat_brings_the_calendars_that_the_first_time_did_not_come_to_bring(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given: a job whose calendar changed while it was made, and a process that died before it saw to that."""
    job = {"name": "cj", "cron": "0 9 * * *", "handler": "x", "calendars": ["hol"]}
    world.client.put("/api/v1/calendars/hol", json={"exclude": {"days": ["2030-01-01"]}})
    headers = {"Idempotency-Key": "c-1", "Prefer": "respond-async"}
    assert world.client.post(JOBS, json=job, headers=headers).status_code == 202
    until(lambda: world.client.get(f"{JOBS}/cj").status_code == 200)
    with monkeypatch.context() as patched:
        patched.setattr(calendars, "bring", lambda *_: [])
        newer = world.client.put("/api/v1/calendars/hol", json={"exclude": {"days": ["2030-01-02"]}}).json()

    assert post(world, "c-1", json=job).status_code == 200
    behind = world.client.get("/api/v1/calendars/hol/jobs").json()
    assert [each["version"] for each in behind["jobs"]] == [newer["version"]]


def test_a_repeat_is_not_told_of_a_second_that_was_picked_for_nothing(world: ApiWorld) -> None:
    jitter = {"window": "10s", "placement": "balanced"}
    job = {"name": "placed", "cron": "0 9 * * *", "handler": "x", "jitter": jitter}
    headers = {"Idempotency-Key": "c-1", "Prefer": "respond-async"}
    assert world.client.post(JOBS, json=job, headers=headers).status_code == 202
    until(lambda: world.client.get(f"{JOBS}/placed").status_code == 200)
    moved = world.client.patch(f"{JOBS}/placed", json={"cron": "0 10 * * *"}, headers={"If-Match": "*"})
    assert "placement" in moved.json()

    again = post(world, "c-1", json=job)
    assert (again.status_code, again.json()["cron"]) == (200, "0 10 * * *")
    assert "placement" not in again.json()


def test_another_body_under_the_key_of_a_request_without_a_kept_answer_is_422_and_does_not_lock_that_out(
    world: ApiWorld,
) -> None:
    etag = world.create().headers["etag"]
    assert patch(world, "p-1", etag, {"tier": "high"}, Prefer="respond-async").status_code == 202
    until(lambda: world.client.get(NIGHTLY).json()["tier"] == "high")

    for _ in range(2):
        refused = patch(world, "p-1", etag, {"tier": "low"})
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:waterclock:problem:key-reused")
    assert world.client.get(NIGHTLY).json()["tier"] == "high"
    assert patch(world, "p-1", etag, {"tier": "high"}).status_code == 200
    assert patch(world, "p-1", etag, {"tier": "low"}).status_code == 422


def test_every_command_under_a_key_carries_the_hash_of_its_request(world: ApiWorld) -> None:
    world.make_recorder()
    revision = int(world.create().json()["revision"])
    run = f"/api/v1/runs/{quote(world.client.post(f'{NIGHTLY}/trigger').json()['run_id'], safe='')}"
    until(lambda: world.client.get(run).status_code == 200)
    asked: list[tuple[str, str, Any]] = [
        ("POST", JOBS, {**JOB, "name": "fresh"}),
        ("POST", f"{NIGHTLY}/rollback", {"to_revision": revision}),
        ("PATCH", NIGHTLY, {"cron": "0 * * * *"}),
        ("POST", f"{NIGHTLY}/pause", None),
        ("POST", f"{NIGHTLY}/resume", {"note": "go on"}),
        ("POST", f"{NIGHTLY}/trigger", {"payload": 1}),
        ("POST", f"{NIGHTLY}/backfills", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}),
        ("POST", f"{JOBS}/bulk", {"action": "pause", "prefix": "nightly", "dry_run": False}),
        ("POST", f"{run}/cancel", None),
        ("DELETE", NIGHTLY, None),
    ]
    for number, (method, path, body) in enumerate(asked):
        headers = {"Idempotency-Key": f"h-{number}", "If-Match": "*"}
        answer = world.client.request(method, path, json=body, headers=headers)
        assert answer.status_code < 300, (path, answer.text)

    sent = [each for each in commands(world) if each.idempotency_key]
    assert {each.idempotency_key for each in sent} == {f"h-{number}" for number in range(len(asked))}
    assert {len(each.request_hash) for each in sent} == {16}
    assert len({each.request_hash for each in sent}) == len(asked)
    assert {each.request_hash for each in commands(world) if not each.idempotency_key} == {b""}
