"""Idempotency-Key: the same request again is done once and gets the same answer."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import JOB, NAMES, ApiWorld, bearer, until
from waterclock.api.app import build_app
from waterclock.model.errors import BackendDown

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
