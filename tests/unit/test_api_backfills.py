"""Backfills by the API: counted first, asked for once, shown as their owner tells, and turned by their tenant alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import NAMES, bearer, until
from tests.unit.failing_world import API, FailingWorld
from waterclock.model.backfill import parse_backfill_id
from waterclock.model.events import EventKind, Origin, Pending
from waterclock.model.ids import US_PER_S
from waterclock.model.time_text import format_rfc3339
from waterclock.wire import codec

MINUTE_US = 60 * US_PER_S


@pytest.fixture(scope="module")
def world() -> Iterator[FailingWorld]:
    with FailingWorld() as world:
        world.signs_in()
        yield world


def past(world: FailingWorld, minutes: int) -> dict[str, str]:
    """A range of so many whole minutes, which ended an hour ago."""
    end = (world.clock.now() // MINUTE_US - 60) * MINUTE_US
    return {"from": format_rfc3339(end - minutes * MINUTE_US), "to": format_rfc3339(end)}


def define(world: FailingWorld, name: str) -> None:
    body = {"name": name, "cron": "* * * * *", "handler": "demo.ping"}
    answer = world.client.post(f"{API}/jobs", json=body)
    assert answer.status_code == 201, answer.text


def made(world: FailingWorld, backfill_id: str) -> list[str]:
    number = parse_backfill_id(backfill_id)[1]
    events = [codec.decode_event(record.value) for record in world.all_of(NAMES.run_events)]
    return [
        event.run_id
        for event in events
        if event.kind is EventKind.PENDING
        and isinstance(event.detail, Pending)
        and event.detail.origin is Origin.BACKFILL
        and event.detail.backfill == number
    ]


def asked(world: FailingWorld, name: str, minutes: int = 3, **more: Any) -> str:
    define(world, name)
    answer = world.client.post(f"{API}/jobs/{name}/backfills", json=past(world, minutes) | more)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["backfill_id"])


def test_a_backfill_that_was_just_asked_for_is_waited_for(world: FailingWorld) -> None:
    recorder, world.recorder = world.recorder, None
    backfill_id = asked(world, "young")
    later = threading.Timer(0.3, setattr, (world, "recorder", recorder))
    later.start()
    assert world.client.get(f"{API}/backfills/{backfill_id}").status_code == 200
    later.join()


def shown(world: FailingWorld, backfill_id: str) -> Any:
    return until(lambda: _found(world.client.get(f"{API}/backfills/{backfill_id}")))


def _found(answer: Any) -> Any:
    return answer.json() if answer.status_code == 200 else None


def test_the_past_of_a_dag_is_refused_even_to_be_counted(world: FailingWorld) -> None:
    body = {"name": "nodes", "cron": "* * * * *", "dag": {"nodes": [{"name": "a", "handler": "demo.ping"}]}}
    assert world.client.post(f"{API}/jobs", json=body).status_code == 201
    before = world.records(NAMES.commands)
    answer = world.client.post(f"{API}/jobs/nodes/backfills", json=past(world, 5) | {"dry_run": True})
    assert answer.status_code == 422, answer.text
    assert "is a Dag" in answer.text
    assert world.records(NAMES.commands) == before


def test_a_dry_run_counts_and_changes_nothing(world: FailingWorld) -> None:
    define(world, "dry")
    before = world.records(NAMES.commands)
    answer = world.client.post(f"{API}/jobs/dry/backfills", json=past(world, 5) | {"dry_run": True})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "backfill_id": None,
        "job_id": "default:dry",
        "dry_run": True,
        "fires": 5,
        "left_out": 0,
        "blocked": 0,
        "would_run": 5,
    }
    assert world.records(NAMES.commands) == before


def test_what_is_asked_for_runs_and_is_shown_as_it_goes_on(world: FailingWorld) -> None:
    backfill_id = asked(world, "runs", 3, concurrency=2, tier="high", note="lost")
    until(lambda: len(made(world, backfill_id)) == 2)
    running = until(lambda: (found := shown(world, backfill_id)) and found["status"] == "RUNNING" and found)
    assert (running["fires"], running["concurrency"], running["tier"], running["note"]) == (3, 2, "high", "lost")
    for run_id in made(world, backfill_id):
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    until(lambda: len(made(world, backfill_id)) == 3)
    last = made(world, backfill_id)[-1]
    world.ended(EventKind.ATTEMPT_SUCCEEDED, last, world.started(last))
    done = until(lambda: (found := shown(world, backfill_id)) and found["status"] == "DONE" and found)
    assert (done["made"], done["succeeded"], done["remaining"], done["open"]) == (3, 3, 0, 0)
    again = world.client.post(f"{API}/jobs/runs/backfills", json=past(world, 3) | {"dry_run": True}).json()
    assert again["left_out"] >= 2  # the minute may have changed since


def test_the_same_request_again_makes_one(world: FailingWorld) -> None:
    define(world, "once")
    body, key = past(world, 2), {"Idempotency-Key": "backfill-once"}
    first = world.client.post(f"{API}/jobs/once/backfills", json=body, headers=key)
    second = world.client.post(f"{API}/jobs/once/backfills", json=body, headers=key)
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    until(lambda: made(world, first.json()["backfill_id"]))
    listed = world.client.get(f"{API}/jobs/once/backfills").json()["backfills"]
    assert [each["backfill_id"] for each in listed] == [first.json()["backfill_id"]]


def test_a_request_without_an_end_may_be_sent_again(world: FailingWorld) -> None:
    define(world, "endless")
    body, key = {"from": past(world, 2)["from"]}, {"Idempotency-Key": "backfill-endless"}
    path = f"{API}/jobs/endless/backfills"
    # An answer of 202 is not kept: the repeat comes to the owner of the job.
    first = world.client.post(path, json=body, headers=key | {"Prefer": "respond-async"})
    assert first.status_code == 202, first.text
    until(lambda: world.client.get(first.headers["location"]).json()["status"] != "pending")
    second = world.client.post(path, json=body, headers=key)
    assert second.status_code == 201, second.text
    shown(world, second.json()["backfill_id"])
    listed = world.client.get(path).json()["backfills"]
    assert [each["backfill_id"] for each in listed] == [second.json()["backfill_id"]]


def test_an_end_at_the_epoch_is_not_taken_for_none(world: FailingWorld) -> None:
    define(world, "epoch")
    body = past(world, 2) | {"to": "1970-01-01T00:00:00Z"}
    answer = world.client.post(f"{API}/jobs/epoch/backfills", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/to")


def test_it_is_paused_resumed_and_cancelled(world: FailingWorld) -> None:
    backfill_id = asked(world, "turned", 4, concurrency=1)
    until(lambda: made(world, backfill_id))
    for word, status in (("pause", "PAUSED"), ("resume", "RUNNING"), ("cancel", "CANCELLED")):
        answer = world.client.post(f"{API}/backfills/{backfill_id}/{word}", json={"note": "as I say"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["changed"]
        until(lambda status=status: shown(world, backfill_id)["status"] == status)
    assert shown(world, backfill_id)["reason"] == "as I say"
    refused = world.client.post(f"{API}/backfills/{backfill_id}/pause")
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:waterclock:problem:invalid")


def test_the_list_goes_on_page_by_page(world: FailingWorld) -> None:
    mine = {asked(world, f"page{number}", 1) for number in range(3)}
    until(lambda: mine <= {each["backfill_id"] for each in _listed(world)})
    found = _listed(world, limit=1)
    assert len({each["backfill_id"] for each in found}) == len(found)


def _listed(world: FailingWorld, limit: int = 50) -> list[Any]:
    found: list[Any] = []
    cursor = ""
    for _ in range(50):
        page = world.client.get(f"{API}/backfills?limit={limit}" + (f"&cursor={cursor}" if cursor else "")).json()
        found += page["backfills"]
        cursor = page["next_cursor"]
        if not cursor:
            return found
    raise AssertionError("no end")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/from"),
        ({"from": "1970-01-01T00:00:00Z"}, "/from"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2025-01-01T00:00:00Z"}, "/to"),
        ({"from": "2025-01-01T00:00:00Z", "to": "2025-12-01T00:00:00Z"}, "/to"),
        ({"from": "2025-01-01T00:00:00Z", "concurrency": 0}, "/concurrency"),
        ({"from": "2025-01-01T00:00:00Z", "tier": "urgent"}, "/tier"),
        ({"from": "2025-01-01T00:00:00Z", "until": "now"}, "/until"),
    ],
)
def test_what_cannot_be_is_refused_and_says_where(world: FailingWorld, body: dict[str, Any], pointer: str) -> None:
    world.client.post(f"{API}/jobs", json={"name": "bad", "cron": "* * * * *", "handler": "demo.ping"})
    answer = world.client.post(f"{API}/jobs/bad/backfills", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_nobody_sees_or_turns_another_tenants_backfill(world: FailingWorld) -> None:
    backfill_id = asked(world, "private", 1)
    shown(world, backfill_id)
    stranger = bearer(world.key(tenant="other"))
    assert world.client.get(f"{API}/backfills/{backfill_id}", headers=stranger).status_code == 404
    assert world.client.post(f"{API}/backfills/{backfill_id}/cancel", headers=stranger).status_code == 404
    assert world.client.get(f"{API}/backfills", headers=stranger).json()["backfills"] == []
