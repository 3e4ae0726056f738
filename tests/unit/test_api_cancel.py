"""Cancelling by the API: what is asked is what the log gets, and what is told is what the log decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.unit.api_world import NAMES, bearer, until
from tests.unit.failing_world import API, FailingWorld
from tests.unit.test_api_jobs import problem
from waterclock.model.events import EventKind, RunStatus
from waterclock.store.open_runs import OPEN, open_runs
from waterclock.wire import codec


@pytest.fixture(scope="module")
def world() -> Iterator[FailingWorld]:
    with FailingWorld() as world:
        world.signs_in()
        yield world


def cancels(world: FailingWorld, run_id: str) -> int:
    events = [codec.decode_event(record.value) for record in world.all_of(NAMES.run_events)]
    return sum(event.kind is EventKind.CANCEL_REQUESTED and event.run_id == run_id for event in events)


def test_a_run_that_waits_is_cancelled_at_once(world: FailingWorld) -> None:
    world.create(name="waiting")
    run_id = world.triggered("waiting")
    answer = world.client.post(f"{API}/runs/{run_id}/cancel", json={"note": "not needed"})

    assert answer.status_code == 200, answer.text
    assert answer.json() == {"run_id": run_id, "status": "CANCELLED", "cancel_requested": True}
    shown = world.client.get(f"{API}/runs/{run_id}").json()
    assert (shown["status"], shown["reason"]) == ("CANCELLED", "not needed")


def test_a_run_that_runs_is_asked_to_stop_and_says_so(world: FailingWorld) -> None:
    world.create(name="running")
    run_id = world.triggered("running")
    token = world.started(run_id)
    until(lambda: world.status_of(run_id) == "RUNNING")

    answer = world.client.post(f"{API}/runs/{run_id}/cancel")
    assert answer.json() == {"run_id": run_id, "status": "RUNNING", "cancel_requested": True}
    world.ended(EventKind.ATTEMPT_CANCELLED, run_id, token)
    until(lambda: world.status_of(run_id) == "CANCELLED")


def test_a_run_that_has_ended_stays_as_it_is(world: FailingWorld) -> None:
    world.create(name="ended")
    run_id = world.given_up("ended")
    answer = world.client.post(f"{API}/runs/{run_id}/cancel")

    assert (answer.status_code, answer.json()["status"], answer.json()["cancel_requested"]) == (200, "FAILED", False)
    assert cancels(world, run_id) == 0


def test_the_same_cancel_again_gets_the_same_answer_and_one_event(world: FailingWorld) -> None:
    world.create(name="again")
    run_id = world.triggered("again")
    key = {"Idempotency-Key": "cancel-again"}
    first = world.client.post(f"{API}/runs/{run_id}/cancel", headers=key)
    second = world.client.post(f"{API}/runs/{run_id}/cancel", headers=key)

    assert (second.status_code, second.json()) == (first.status_code, first.json())
    assert cancels(world, run_id) == 1


def test_nobody_cancels_another_tenants_run(world: FailingWorld) -> None:
    world.create(name="mine")
    run_id = world.triggered("mine")
    stranger = bearer(world.key(tenant="other"))

    problem(world.client.post(f"{API}/runs/{run_id}/cancel", headers=stranger), 404, "not-found")
    body = {"run_ids": [run_id]}
    problem(world.client.post(f"{API}/runs/cancel", json=body, headers=stranger), 404, "not-found")
    assert cancels(world, run_id) == 0


def test_a_key_that_may_only_read_cancels_nothing(world: FailingWorld) -> None:
    world.create(name="guarded-run")
    run_id = world.triggered("guarded-run")
    reader = bearer(world.key("read"))

    problem(world.client.post(f"{API}/runs/{run_id}/cancel", headers=reader), 403, "forbidden")
    problem(world.client.post(f"{API}/runs/cancel", json={"job": "guarded-run"}, headers=reader), 403, "forbidden")


def test_a_dry_run_counts_and_cancels_nothing(world: FailingWorld) -> None:
    world.create(name="counted")
    run_ids = [world.triggered("counted") for _ in range(3)]
    until(lambda: all(world.client.get(f"{API}/runs/{run_id}").status_code == 200 for run_id in run_ids))
    told = world.client.post(f"{API}/runs/cancel", json={"job": "counted", "dry_run": True}).json()

    assert (told["matched"], told["by_status"], told["requested"]) == (3, {"PENDING": 3}, 0)
    assert not any(cancels(world, run_id) for run_id in run_ids)


def test_a_filter_cancels_what_it_means_and_nothing_else(world: FailingWorld) -> None:
    world.create(name="bulk")
    waiting = [world.triggered("bulk") for _ in range(5)]
    running = world.triggered("bulk")
    world.started(running)
    until(lambda: world.status_of(running) == "RUNNING")
    told = world.client.post(f"{API}/runs/cancel", json={"job": "bulk", "status": ["pending"]}).json()

    assert (told["requested"], told["refused"], told["left"], told["is_whole"]) == (5, 0, 0, True)
    assert sorted(told["run_ids"]) == sorted(waiting)
    until(lambda: all(world.status_of(run_id) == "CANCELLED" for run_id in waiting))
    assert cancels(world, running) == 0


def test_a_bulk_cancel_stops_at_its_cap_and_says_so(world: FailingWorld) -> None:
    world.create(name="capped")
    for _ in range(4):
        run_id = world.triggered("capped")
    until(lambda: world.client.get(f"{API}/runs/{run_id}").status_code == 200)
    told = world.client.post(f"{API}/runs/cancel", json={"job": "capped", "cap": 3}).json()

    assert (told["matched"], told["requested"], told["is_whole"]) == (3, 3, False)


def test_a_bulk_cancel_beyond_its_cap_goes_on_by_its_cursor(world: FailingWorld) -> None:
    world.create(name="by-cursor")
    made = [world.triggered("by-cursor") for _ in range(5)]
    until(lambda: all(world.status_of(run_id) == "PENDING" for run_id in made))
    body: dict[str, object] = {"job": "by-cursor", "cap": 2, "dry_run": True}
    seen: list[str] = []
    told = {"next_cursor": ""}
    while told["next_cursor"] is not None:
        told = world.client.post(f"{API}/runs/cancel", json={**body, "cursor": told["next_cursor"]}).json()
        seen += told["run_ids"]
    assert sorted(seen) == sorted(made)


def test_the_same_bulk_cancel_again_goes_on_with_those_it_did_not_reach(world: FailingWorld) -> None:
    world.create(name="stubborn")
    made = [world.triggered("stubborn") for _ in range(3)]
    for run_id in made:
        world.started(run_id)
    until(lambda: all(world.status_of(run_id) == "RUNNING" for run_id in made))
    for left in (2, 1, 0):
        told = world.client.post(f"{API}/runs/cancel", json={"job": "stubborn", "rate_per_s": 0.1}).json()
        assert (told["matched"], told["requested"], told["left"]) == (3, 1, left)
        until(lambda left=left: sum(map(_is_asked_to_end(world), made)) == 3 - left)


def _is_asked_to_end(world: FailingWorld) -> Callable[[str], bool]:
    return lambda run_id: bool(world.client.get(f"{API}/runs/{run_id}").json()["cancel_requested"])


@pytest.mark.parametrize("cursor", ["x", "0|other:job||0", "0|default:another||0", "9|default:by|" + "9" * 30 + "|0"])
def test_a_cursor_reaches_no_other_tenants_runs_and_no_other_jobs(world: FailingWorld, cursor: str) -> None:
    answer = world.client.post(f"{API}/runs/cancel", json={"job": "by", "cursor": cursor})
    assert problem(answer, 422, "invalid")["errors"][0]["pointer"] == "/cursor"
    if "default" not in cursor:
        answer = world.client.post(f"{API}/runs/cancel", json={"status": ["pending"], "cursor": cursor})
        problem(answer, 422, "invalid")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"dry_run": True}, ""),
        ({"jobb": "x"}, "/jobb"),
        ({"status": ["failed"]}, "/status"),
        ({"status": "pending"}, "/status"),
        ({"older_than": "soon"}, "/older_than"),
        ({"job": "bulk", "cap": 0}, "/cap"),
        ({"job": "bulk", "rate_per_s": "fast"}, "/rate_per_s"),
        ({"job": "bulk", "dry_run": "yes"}, "/dry_run"),
    ],
)
def test_an_unclear_bulk_cancel_is_refused_with_the_place(
    world: FailingWorld, body: dict[str, object], pointer: str
) -> None:
    document = problem(world.client.post(f"{API}/runs/cancel", json=body), 422, "invalid")
    assert document["errors"][0]["pointer"] == pointer


def test_open_runs_of_all_jobs_are_found_by_age(world: FailingWorld) -> None:
    world.create(name="aged")
    run_id = world.triggered("aged")
    until(lambda: world.status_of(run_id) == "PENDING")
    with world.lock:
        now = world.clock.now()
        young = open_runs(world.store, "default", "", frozenset(OPEN), now - 3_600_000_000, 100)
        every = open_runs(world.store, "default", "", frozenset([RunStatus.PENDING]), now + 60_000_000, 100)
    assert young.rows == []
    assert "default:aged" in {row.job_id for row in every.rows}
