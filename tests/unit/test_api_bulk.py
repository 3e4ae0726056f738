"""Many jobs by one request: it only counts unless it is told to act, says how far it came, and goes on from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import ApiWorld, bearer
from waterclock.api import bulk, pacing
from waterclock.store.memory import MemoryStore

JOBS = "/api/v1/jobs"
BULK = f"{JOBS}/bulk"


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld(wait_s=10.0, rate_per_s=100_000, burst=100_000) as world:
        world.signs_in()
        yield world


def some(world: ApiWorld, prefix: str, count: int = 4) -> list[str]:
    """Jobs of one prefix, oldest first: every second of tier low."""
    names = [f"{prefix}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        world.create(name=name, tier="low" if number % 2 else "high")
    return [f"default:{name}" for name in names]


def asked(world: ApiWorld, **body: Any) -> dict[str, Any]:
    answer = world.client.post(BULK, json=body, headers=body.pop("headers", {}))
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def status(world: ApiWorld, job_id: str) -> str:
    return str(world.client.get(f"{JOBS}/{job_id}").json()["status"])  # a problem has one, too: 404


def test_without_a_word_it_only_counts(world: ApiWorld) -> None:
    jobs = some(world, "counted")
    told = asked(world, action="delete", prefix="counted")

    assert (told["dry_run"], told["matched"], told["sample"]) == (True, 4, jobs[::-1])
    assert (told["by_status"], told["applied"], told["left"]) == ({"active": 4}, 0, 0)
    assert [status(world, job) for job in jobs] == ["active"] * 4


def test_it_changes_what_the_filter_means_and_nothing_else(world: ApiWorld) -> None:
    jobs = some(world, "paused")
    told = asked(world, action="pause", prefix="paused", tier="low", dry_run=False, note="the bank is shut")

    assert (told["matched"], told["applied"], told["is_whole"], told["next_cursor"]) == (2, 2, True, None)
    assert [status(world, job) for job in jobs] == ["active", "paused"] * 2
    assert world.client.get(f"{JOBS}/{jobs[1]}").json()["pause"]["note"] == "the bank is shut"
    again = asked(world, action="pause", prefix="paused", tier="low", dry_run=False)
    assert again["matched"] == 0, "a pause means those that are active"
    assert asked(world, action="resume", prefix="paused", dry_run=False)["applied"] == 2


def test_a_cap_ends_it_and_the_cursor_goes_on_behind(world: ApiWorld) -> None:
    jobs = some(world, "capped", 5)
    reached: list[str] = []
    cursor = ""
    for _ in range(5):
        told = asked(world, action="trigger", prefix="capped", dry_run=False, cap=2, cursor=cursor)
        reached += told["sample"]
        if told["is_whole"]:
            break
        cursor = told["next_cursor"]

    assert reached == jobs[::-1]


def test_what_the_time_ends_is_told_and_no_job_is_triggered_twice(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = some(world, "slow", 6)
    monkeypatch.setattr(pacing, "WITHIN_S", 0.3)
    triggered: list[str] = []
    cursor = ""
    for _ in range(12):
        told = asked(world, action="trigger", prefix="slow", dry_run=False, rate_per_s=8, cursor=cursor)
        triggered += told["sample"][: told["applied"]]
        assert told["applied"] + told["left"] == told["matched"]
        if told["is_whole"]:
            break
        cursor = told["next_cursor"]

    assert triggered == jobs[::-1]


def test_the_same_request_under_one_key_is_done_once(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    some(world, "keyed", 3)
    headers = {"Idempotency-Key": "bulk-1"}
    body = {"action": "trigger", "prefix": "keyed", "dry_run": False}
    first = world.client.post(BULK, json=body, headers=headers)
    assert (first.json()["applied"], first.json()["unchanged"]) == (3, 0)
    assert world.client.post(BULK, json=body, headers=headers).json() == first.json()
    assert world.client.post(BULK, json={**body, "cap": 1}, headers=headers).status_code == 422

    monkeypatch.setattr(MemoryStore, "kept_answer", lambda *_: None)
    again = world.client.post(BULK, json=body, headers=headers).json()
    assert (again["applied"], again["unchanged"]) == (0, 3)


def test_a_job_that_was_changed_meanwhile_is_refused_and_told(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    (job, other) = some(world, "raced", 2)
    found = bulk.jobs_meant

    def changed_since(*words: Any) -> Any:
        rows = found(*words)
        return rows._replace(rows=[row._replace(revision=7) if row.job_id == job else row for row in rows.rows])

    monkeypatch.setattr(bulk, "jobs_meant", changed_since)
    told = asked(world, action="delete", prefix="raced", dry_run=False)

    assert (told["applied"], told["refused"]) == (1, 1)
    assert told["refusals"][0]["job_id"] == job
    assert (status(world, job), status(world, other)) == ("active", "404")


def test_nobody_reaches_another_tenants_jobs(world: ApiWorld) -> None:
    jobs = some(world, "others", 2)
    headers = bearer(world.key(tenant="acme"))
    told = world.client.post(BULK, json={"action": "delete", "prefix": "others", "dry_run": False}, headers=headers)

    assert told.json()["matched"] == 0
    assert [status(world, job) for job in jobs] == ["active"] * 2


def test_whoever_only_reads_changes_nothing(world: ApiWorld) -> None:
    headers = bearer(world.key(scopes="read"))
    assert world.client.post(BULK, json={"action": "pause", "prefix": "x"}, headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/action"),
        ({"action": "explode", "prefix": "x"}, "/action"),
        ({"action": "pause"}, ""),
        ({"action": "pause", "tier": ["urgent"]}, "/tier"),
        ({"action": "pause", "status": "deleted"}, "/status"),
        ({"action": "pause", "prefix": 7}, "/prefix"),
        ({"action": "pause", "prefix": "x", "cap": 0}, "/cap"),
        ({"action": "pause", "prefix": "x", "cap": 10_001}, "/cap"),
        ({"action": "pause", "prefix": "x", "dry_run": "no"}, "/dry_run"),
        ({"action": "pause", "prefix": "x", "resume_at": "soon"}, "/resume_at"),
        ({"action": "resume", "prefix": "x", "resume_at": "2030-01-01T00:00:00Z"}, "/resume_at"),
        ({"action": "pause", "prefx": "x"}, "/prefx"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(world: ApiWorld, body: dict[str, Any], pointer: str) -> None:
    answer = world.client.post(BULK, json=body)

    assert answer.status_code == 422, answer.text
    if pointer:
        assert answer.json()["errors"][0]["pointer"] == pointer
