"""The API's jobs: what a client asks for is what the shard owner does, and what it is told is so."""

from __future__ import annotations

import base64
import concurrent.futures
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.api_world import JOB, ApiWorld, until
from waterclock.log.memory import MemoryLog
from waterclock.model.events import Heartbeat
from waterclock.model.time_text import format_rfc3339
from waterclock.wire import messages
from waterclock.wire.names import Names

JOBS = "/api/v1/jobs"


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld(wait_s=10.0, rate_per_s=100_000, burst=100_000) as world:
        yield world


def problem(answer: Any, status: int, slug: str) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document: dict[str, Any] = answer.json()
    assert (answer.status_code, document["type"], document["status"]) == (
        status,
        f"urn:waterclock:problem:{slug}",
        status,
    ), answer.text
    return document


def test_the_printed_request_is_accepted_as_printed(world: ApiWorld) -> None:
    printed = {
        "name": "printed",
        "cron": "0 9 * * 1-5",
        "callback_url": "https://billing.example/hooks/nightly",
        "priority": "HIGH",
        "payload": {"tenant": 7},
    }
    answer = world.client.post(JOBS, json=printed)

    assert answer.status_code == 201
    job = answer.json()
    assert job["job_id"] == "default:printed"
    assert datetime.fromisoformat(job["next_fire_time"]) > datetime.now(UTC)
    assert (job["tier"], job["http"]["url"], job["payload"]) == ("high", printed["callback_url"], {"tenant": 7})
    assert answer.headers["location"] == "/api/v1/jobs/default:printed"
    assert answer.headers["etag"] == f'"{job["revision"]}"'
    assert world.client.get(answer.headers["location"]).json() == job


def test_a_status_tells_the_last_run_the_next_run_and_the_retries(world: ApiWorld) -> None:
    world.create(name="standing")
    status = world.client.get(f"{JOBS}/standing/status").json()

    assert {"last_run", "next_run", "retry_count"} <= set(status)
    assert (status["last_run"], status["retry_count"]) == (None, 0)
    assert datetime.fromisoformat(status["next_run"]) <= datetime.now(UTC) + timedelta(minutes=10)


def test_the_same_job_again_is_200_and_changes_nothing(world: ApiWorld) -> None:
    first = world.create(name="twice")
    again = world.client.post(JOBS, json={**JOB, "name": "twice"})

    assert (again.status_code, again.headers["etag"]) == (200, first.headers["etag"])


def test_another_job_under_a_name_that_is_taken_is_409_and_names_patch(world: ApiWorld) -> None:
    first = world.create(name="taken")
    other = world.client.post(JOBS, json={**JOB, "name": "taken", "every": "1h"})

    assert "PATCH" in problem(other, 409, "exists")["hint"]
    assert other.headers["etag"] == first.headers["etag"]
    assert world.client.get(f"{JOBS}/taken").json()["every"] == "10m"


def test_of_many_creates_of_one_name_at_once_one_wins(world: ApiWorld) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        bodies = [{**JOB, "name": "contested", "every": f"{minutes}m"} for minutes in range(1, 9)]
        answers = list(pool.map(lambda body: world.client.post(JOBS, json=body), bodies))

    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


def test_a_job_without_a_name_gets_one(world: ApiWorld) -> None:
    made = world.client.post(JOBS, json={"every": "10m", "handler": "demo.ping"})

    assert made.status_code == 201
    assert world.client.get(made.headers["location"]).status_code == 200


def test_a_change_needs_the_etag(world: ApiWorld) -> None:
    world.create(name="guarded")
    refused = world.client.patch(f"{JOBS}/guarded", json={"every": "1h"})

    problem(refused, 428, "precondition-required")
    assert world.client.get(f"{JOBS}/guarded").json()["every"] == "10m"


def test_a_change_with_the_etag_is_made_and_gives_a_new_one(world: ApiWorld) -> None:
    made = world.create(name="changing")
    changed = world.client.patch(
        f"{JOBS}/changing", json={"every": "1h", "tier": "high"}, headers={"If-Match": made.headers["etag"]}
    )

    assert changed.status_code == 200
    assert (changed.json()["every"], changed.json()["tier"]) == ("1h", "high")
    assert changed.headers["etag"] != made.headers["etag"]


def test_a_change_on_an_old_etag_is_412_by_the_shard_owners_word(world: ApiWorld) -> None:
    made = world.create(name="raced")
    old = {"If-Match": made.headers["etag"]}
    world.client.patch(f"{JOBS}/raced", json={"every": "1h"}, headers=old)
    late = world.client.patch(f"{JOBS}/raced", json={"every": "2h"}, headers=old)

    problem(late, 412, "stale")
    assert world.client.get(f"{JOBS}/raced").json()["every"] == "1h"


def test_a_change_of_whatever_stands_is_made_on_what_stands_when_it_is_applied() -> None:
    with ApiWorld(wait_s=10.0) as world:
        world.create()
        world.obeys = False
        later = threading.Timer(0.5, setattr, (world, "obeys", True))
        later.start()
        first = {"Prefer": "respond-async"}
        assert world.client.post(f"{JOBS}/nightly/pause", headers=first).status_code == 202
        answer = world.client.patch(f"{JOBS}/nightly", json={"every": "20m"}, headers={"If-Match": "*"})
        later.join()
    assert (answer.status_code, answer.json()["every"], answer.json()["status"]) == (200, "20m", "paused")


def test_a_change_names_another_schedule_and_the_old_one_goes(world: ApiWorld) -> None:
    made = world.client.post(JOBS, json={"name": "kinds", "cron": "0 9 * * *", "zone": "Europe/Berlin", "handler": "a"})
    changed = world.client.patch(f"{JOBS}/kinds", json={"every": "5m"}, headers={"If-Match": made.headers["etag"]})

    assert changed.status_code == 200, changed.text
    assert changed.json()["every"] == "5m"
    assert not {"cron", "zone", "gap"} & set(changed.json())


@pytest.mark.parametrize("etag", ['"abc"', "5", '"1", "2"', ""])
def test_an_if_match_that_is_none_is_told_apart_from_an_old_one(world: ApiWorld, etag: str) -> None:
    world.create(name="etags") if world.client.get(f"{JOBS}/etags").status_code == 404 else None
    problem(world.client.patch(f"{JOBS}/etags", json={}, headers={"If-Match": etag}), 400, "bad-request")


@pytest.mark.parametrize("etag", ['"7"', 'W/"7"', f'"{2**63}"', '"0"'])
def test_an_etag_that_no_job_has_is_412(world: ApiWorld, etag: str) -> None:
    world.create(name="etags2") if world.client.get(f"{JOBS}/etags2").status_code == 404 else None
    answer = world.client.patch(f"{JOBS}/etags2", json={"every": "3h"}, headers={"If-Match": etag})
    problem(answer, 412, "stale")


def test_pause_and_resume_answer_with_the_job(world: ApiWorld) -> None:
    world.create(name="resting")
    paused = world.client.post(f"{JOBS}/resting/pause").json()
    resumed = world.client.post(f"{JOBS}/resting/resume").json()

    assert (paused["status"], paused["next_fire_time"]) == ("paused", None)
    assert (resumed["status"], resumed["next_fire_time"] is None) == ("active", False)


def test_a_job_that_has_made_its_runs_is_ended_and_says_what_to_do(world: ApiWorld) -> None:
    past = format_rfc3339(world.clock.now() - 5_000_000)
    document = {"name": "once", "handler": "demo.ping", "at": past, "max_runs": 1, "pause_after_failures": 3}
    made = world.client.post(JOBS, json=document).json()
    assert (made["max_runs"], made["pause_after_failures"]) == (1, 3)
    for _ in range(500):
        shown = world.client.get(f"{JOBS}/once").json()
        if shown["status"] == "ended":
            break
    assert (shown["status"], shown["next_fire_time"]) == ("ended", None)
    assert [job["status"] for job in world.client.get(JOBS).json()["jobs"] if job["name"] == "once"] == ["ended"]
    refused = world.client.post(f"{JOBS}/once/resume")
    assert refused.status_code == 422
    assert "max_runs" in refused.text
    assert world.client.post(f"{JOBS}/once/trigger").status_code == 201
    raised = world.client.patch(f"{JOBS}/once", json={"max_runs": 2}, headers={"If-Match": "*"}).json()
    assert raised["status"] == "active"


def test_a_delete_answers_deleted_and_the_job_is_gone(world: ApiWorld) -> None:
    world.create(name="going")
    answer = world.client.delete(f"{JOBS}/going")

    assert (answer.status_code, answer.json()["deleted"]) == (200, True)
    problem(world.client.get(f"{JOBS}/going"), 404, "not-found")
    problem(world.client.delete(f"{JOBS}/going"), 404, "not-found")


def test_a_trigger_answers_with_the_run_that_it_made(world: ApiWorld) -> None:
    world.create(name="pulled")
    payload = {"payload_base64": base64.b64encode(b"\x00\x01").decode()}
    for body in ({}, {"payload": [1, None]}, payload):
        answer = world.client.post(f"{JOBS}/pulled/trigger", json=body or None)
        assert answer.status_code == 201, answer.text
        run_id = answer.json()["run_id"]
        assert run_id.startswith("default:pulled@")
        assert "@" not in answer.headers["location"], "a path is percent-encoded"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": "bad", "every": "10m"}, "/handler"),
        ({"name": "bad", "handler": "a", "every": "soon"}, "/every"),
        ({"name": "bad", "handler": "a", "cron": "0 9 30 2 *"}, "/cron"),
        ({"name": "bad", "handler": "a", "cron": "0 9 * * *", "zone": "Mars/Olympus"}, "/zone"),
        ({"name": "bad", "handler": "a", "every": "10m", "prio": "high"}, "/prio"),
        ({"name": "Bad Name", "handler": "a", "every": "10m"}, "/name"),
        ({"name": 7, "handler": "a", "every": "10m"}, "/name"),
        ({"name": "bad", "handler": "a", "every": "10m", "pool": "nowhere"}, "/pool"),
        ({"name": "bad", "callback_url": "javascript:alert(1)", "every": "10m"}, "/callback_url"),
    ],
)
def test_a_document_that_cannot_be_is_422_with_the_place_and_a_hint(
    world: ApiWorld, body: dict[str, Any], pointer: str
) -> None:
    answer = world.client.post(JOBS, json=body)

    document = problem(answer, 422, "invalid")
    assert document["errors"][0]["pointer"] == pointer
    assert document["hint"]


@pytest.mark.parametrize(
    ("content", "status", "slug"),
    [
        (b"{", 400, "bad-request"),
        (b'{"a": NaN}', 400, "bad-request"),
        (b"\xff\xfe", 400, "bad-request"),
        (b'{"name": "a", "name": "b"}', 400, "bad-request"),
        (b"[" * 10_000 + b"]" * 10_000, 400, "bad-request"),
        (b"[1]", 422, "invalid"),
        (b"", 400, "bad-request"),
        (b'{"payload": "' + b"x" * 300_000 + b'"}', 413, "too-large"),
        (b'{"name": "a", "handler": "a", "every": "1m", "payload": "' + b"x" * 70_000 + b'"}', 422, "invalid"),
    ],
)
def test_bytes_that_are_no_request_are_refused_before_they_are_parsed(
    world: ApiWorld, content: bytes, status: int, slug: str
) -> None:
    answer = world.client.post(JOBS, content=content, headers={"Content-Type": "application/json"})

    problem(answer, status, slug)


def test_a_body_that_says_it_is_no_json_is_415(world: ApiWorld) -> None:
    answer = world.client.post(JOBS, content=b"{}", headers={"Content-Type": "text/plain"})

    problem(answer, 415, "media-type")


def test_a_list_is_paged_without_a_gap_or_a_repeat(world: ApiWorld) -> None:
    names = {f"page-{number}" for number in range(7)}
    for name in names:
        world.create(name=name)
    world.client.delete(f"{JOBS}/page-3")
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(100):
        page = world.client.get(JOBS, params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [job["name"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert len(seen) == len(set(seen))
    assert {name for name in seen if name.startswith("page-")} == names - {"page-3"}


def test_a_list_leaves_payloads_out_those_of_nodes_too(world: ApiWorld) -> None:
    nodes = [
        {"name": "json", "handler": "h", "payload": "whole"},
        {"name": "bytes", "handler": "h", "payload_base64": base64.b64encode(b"\x00\x01").decode()},
    ]
    document = {"name": "large-nodes", "at": "2099-01-01T00:00:00Z", "dag": {"nodes": nodes}}
    assert world.client.post(JOBS, json=document).status_code == 201
    world.create(name="large", payload="whole")
    listed = {job["name"]: job for job in world.client.get(JOBS, params={"limit": 500}).json()["jobs"]}

    bare = [{"name": "json", "handler": "h"}, {"name": "bytes", "handler": "h"}]
    assert listed["large-nodes"]["dag"] == {"nodes": bare}
    assert "payload" not in listed["large"]
    assert world.client.get(f"{JOBS}/large-nodes").json()["dag"]["nodes"] == nodes


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "cursor=%00", "cursor=MTIz", "cursor=", "tenant=acme", "limit=1&limit=2"],
)
def test_a_query_that_is_not_understood_is_400(world: ApiWorld, query: str) -> None:
    problem(world.client.get(f"{JOBS}?{query}"), 400, "bad-request")


def test_an_unknown_filter_is_refused_with_the_supported_ones(world: ApiWorld) -> None:
    answer = world.client.get(f"{JOBS}?status=paused")

    assert "cursor, limit" in problem(answer, 400, "bad-request")["hint"]


@pytest.mark.parametrize("word", ["nope", "Bad%20Name", "%00", "acme:nightly", "default:", ":x", "a" * 200, "%F0"])
def test_a_job_that_is_not_there_is_404_whatever_its_name(world: ApiWorld, word: str) -> None:
    problem(world.client.get(f"{JOBS}/{word}"), 404, "not-found")
    problem(world.client.delete(f"{JOBS}/{word}"), 404, "not-found")


def test_an_unknown_path_and_a_wrong_method_are_problems_too(world: ApiWorld) -> None:
    problem(world.client.get("/api/v1/nothing"), 404, "not-found")
    problem(world.client.put(f"{JOBS}/x", json={}), 405, "method-not-allowed")


def test_every_answer_keeps_other_sites_out_of_our_page(world: ApiWorld) -> None:
    for path in ("/docs", "/openapi.json", JOBS, "/nothing", "/healthz"):
        answer = world.client.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_command_that_is_not_answered_in_time_is_an_operation_that_tells_later() -> None:
    with ApiWorld(wait_s=0.05) as world:
        world.obeys = False
        answer = world.client.post(JOBS, json=JOB)
        assert answer.status_code == 202
        place = answer.headers["location"]
        pending = world.client.get(place).json()
        assert (pending["status"], pending["job_id"]) == ("pending", "default:nightly")

        world.obeys = True
        done = until(lambda: (now := world.client.get(place).json())["status"] != "pending" and now)
        assert (done["status"], done["revision"] > 0) == ("applied", True)


def test_an_operation_is_found_by_a_process_that_did_not_see_its_answer() -> None:
    with ApiWorld() as world:
        answer = world.client.post(JOBS, json=JOB, headers={"Prefer": "respond-async"})
        assert (answer.status_code, answer.headers["preference-applied"]) == (202, "respond-async")
        place = answer.headers["location"]
        until(lambda: world.client.get(place).json()["status"] == "applied")

        world.services.answers._recent.clear()  # as after a restart
        world.services.answers.pass_unseen()
        assert world.client.get(place).json()["status"] == "applied"


def test_a_command_that_was_refused_late_says_why_in_its_operation() -> None:
    with ApiWorld() as world:
        world.create()
        other = world.client.post(JOBS, json={**JOB, "every": "1h"}, headers={"Prefer": "respond-async"})
        done = until(lambda: (now := world.client.get(other.headers["location"]).json())["status"] != "pending" and now)

        assert done["status"] == "refused"
        assert done["problem"]["type"].endswith((":stale", ":exists"))


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    with ApiWorld(queue_max=1, wait_s=0.05) as world:
        world.sends = False
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(world.client.post, JOBS, json={**JOB, "name": f"n{n}"}) for n in range(3)]
            until(lambda: sum(each.done() for each in asked) == 2)
            refused = [answer.result() for answer in asked if answer.done()]
            world.sends = True
        for answer in refused:
            problem(answer, 503, "busy")
            assert int(answer.headers["retry-after"]) >= 1


def test_a_job_that_nobody_works_for_says_so_when_it_is_made_and_in_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("waterclock.api.crew.KEPT_S", 0.0)
    with ApiWorld() as world:
        alone = world.client.post(JOBS, json={"name": "alone", "handler": "demo.ping", "every": "1h"}).json()
        assert "no worker for pool default" in alone["warnings"][0]
        beat = Heartbeat("w1", 1, world.clock.now(), "id", 0, 0, 8, pool="default", handlers=("demo.ping",))
        with world.lock:
            appender = MemoryLog(world.cluster, "w1").appender()
            appender.append(messages.heartbeat_message(Names(), beat))
            appender.flush(1.0)
        status = world.client.get(f"{JOBS}/alone/status").json()
        assert status["warnings"] == []
        unknown = world.client.post(JOBS, json={"name": "unknown", "handler": "nobody.knows", "every": "1h"}).json()
        assert "no worker of pool default knows the handler 'nobody.knows'" in unknown["warnings"][0]
