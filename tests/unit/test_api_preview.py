"""Previews by the API: checked as when it is saved, and nothing is saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import ApiWorld

CRON, JOB = "/api/v1/cron/preview", "/api/v1/jobs/preview"
SPRING = {"from": "2026-03-07T12:00:00Z"}


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld(rate_per_s=100_000, burst=100_000) as world:
        world.signs_in()
        yield world


def test_an_expression_is_told_with_its_marks(world: ApiWorld) -> None:
    asked = SPRING | {"expr": "30 2 * * *", "tz": "America/New_York", "n": 2}
    told = world.client.get(CRON, params=asked).json()
    assert (told["expression"], told["read_as"], told["zone"]) == ("30 2 * * *", "30 2 * * *", "America/New_York")
    assert (told["words"], told["warnings"], told["tzdata"]) == ("At 02:30", [], "2026f")
    assert told["next_fires"][0] == {
        "utc": "2026-03-08T07:00:00Z",
        "due_time": "2026-03-08T07:00:00Z",
        "local": "2026-03-08T03:00:00-04:00",
        "offset_changed": True,
        "marks": [{"mark": "moved", "nominal_from": "2026-03-08T02:30:00", "nominal_to": "2026-03-08T02:30:00",
                   "times": 1}],
        "remark": "moved: stands for 02:30, not on the clock that day; after the clock change to UTC-04:00",
    }  # fmt: skip
    skipped = world.client.get(CRON, params=asked | {"gap": "skip"}).json()["next_fires"][0]
    assert (skipped["utc"], skipped["marks"][0]["mark"]) == ("2026-03-09T06:30:00Z", "skipped")


def test_a_whole_job_is_told_before_it_is_saved_and_needs_no_work_yet(world: ApiWorld) -> None:
    definition = {"name": "nightly", "cron": "H 2 * * *", "zone": "America/New_York", "tier": "low"}
    told = world.client.post(JOB, params=SPRING | {"n": 3}, json=definition).json()
    assert told["schedule"].keys() == {"cron", "zone", "seconds", "gap", "fold"}
    assert told["schedule"]["cron"] == told["read_as"] != "h 2 * * *"
    assert len(told["next_fires"]) == 3
    assert world.client.get("/api/v1/jobs/nightly").status_code == 404
    by_name = world.client.get(CRON, params=SPRING | {"expr": "H 2 * * *", "job": "nightly"}).json()
    assert by_name["read_as"] == told["read_as"]
    every = world.client.post(JOB, params=SPRING, json={"every": "5m", "callback_url": "https://a.example/"}).json()
    assert (every["schedule"], every["read_as"]) == ({"every": "5m"}, None)
    assert every["next_fires"][0]["utc"] == "2026-03-07T12:05:00Z"


def test_a_job_with_ends_and_jitter_is_told_with_both(world: ApiWorld) -> None:
    definition = {"name": "spread", "every": "1h", "jitter": "30s", "active_until": "2026-03-07T13:30:00Z"}
    told = world.client.post(JOB, params=SPRING, json=definition).json()
    assert told["schedule"].keys() == {"every", "jitter", "active_until"}
    (fire,) = told["next_fires"]
    assert fire["utc"] == "2026-03-07T13:00:00Z" < fire["due_time"] < "2026-03-07T13:00:30Z"
    assert fire["due_time"] in fire["remark"]
    del definition["name"]
    nameless = world.client.post(JOB, params=SPRING, json=definition).json()
    assert nameless["next_fires"][0]["due_time"] is None
    assert "name the job" in nameless["warnings"][0]


@pytest.mark.parametrize(
    ("asked", "status", "pointer"),
    [
        ({"expr": "61 2 * * *"}, 422, "/cron"),
        ({"expr": "0 0 * * *", "tz": "Mars/Olympus"}, 422, "/zone"),
        ({"expr": "H 0 * * *"}, 422, "/cron"),
        ({"expr": "0 0 * * *", "from": "yesterday"}, 422, "/from"),
        ({"expr": "0 0 * * *", "from": "2300-01-01T00:00:00Z"}, 422, "/from"),
        ({"expr": "0 0 * * *", "n": 101}, 400, "/n"),
        ({"expr": "0 0 * * *", "gap": "jump"}, 400, "/gap"),
        ({"expr": "0 0 * * *", "zone": "UTC"}, 400, ""),
        ({"expr": "H 0 * * *", "job": "acme:theirs"}, 404, ""),
    ],
)
def test_an_expression_that_cannot_be_is_refused_and_the_place_named(
    world: ApiWorld, asked: dict[str, Any], status: int, pointer: str
) -> None:
    answer = world.client.get(CRON, params=asked)
    assert answer.status_code == status, answer.text
    assert [error["pointer"] for error in answer.json().get("errors", [])] == ([pointer] if pointer else [])


@pytest.mark.parametrize(
    ("definition", "pointer"),
    [
        ({}, ""),
        ({"cron": "0 0 * * *", "every": "5m"}, "/every"),
        ({"every": "5 minutes"}, "/every"),
        ({"cron": "0 0 * * *", "handlr": "a"}, "/handlr"),
        ({"cron": "0 0 * * *", "name": 7}, "/name"),
        ({"cron": "0 0 * * *", "tier": "urgent"}, "/tier"),
        ({"cron": "0 0 * * *", "handler": "not a name!"}, "/handler"),
    ],
)
def test_a_job_that_could_not_be_saved_is_not_previewed(
    world: ApiWorld, definition: dict[str, Any], pointer: str
) -> None:
    answer = world.client.post(JOB, json=definition)
    assert answer.status_code == 422, answer.text
    assert answer.json()["hint"]
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_a_preview_needs_a_key_that_may_read_and_no_more(world: ApiWorld) -> None:
    headers = {"Authorization": f"Bearer {world.key('read', tenant='acme')}"}
    assert world.client.post(JOB, json={"every": "5m"}, headers=headers).status_code == 200
    assert world.client.post(JOB, json={"every": "5m"}, headers={"Authorization": "Bearer wck_no"}).status_code == 401
