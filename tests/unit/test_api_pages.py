"""Pages of the API: bounded in bytes, too, and none of what they leave out is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api_world import JOB, ApiWorld

JOBS = "/api/v1/jobs"


def test_a_page_of_large_jobs_ends_and_the_next_goes_on_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.api.jobs.PAGE_BYTES", 2_500)
    pages: list[list[str]] = []
    query: dict[str, Any] = {"limit": 500}
    with ApiWorld(wait_s=10.0) as world:
        for number in range(5):
            body = {"name": f"job-{number}", "every": "10m", "shell": {"argv": ["x" * 1_000]}}
            assert world.client.post(JOBS, json=body).status_code == 201
        while query.get("cursor", "") is not None:
            page = world.client.get(JOBS, params=query).json()
            pages.append([job["name"] for job in page["jobs"]])
            query["cursor"] = page["next_cursor"]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(name for page in pages for name in page) == [f"job-{number}" for number in range(5)]


def test_a_page_is_as_long_as_it_was_asked_to_be_however_few_jobs_are_read_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("waterclock.api.jobs._ROWS_AT_ONCE", 2)
    with ApiWorld(wait_s=10.0) as world:
        for number in range(5):
            world.create(name=f"{JOB['name']}-{number}")
        world.client.delete(f"{JOBS}/nightly-2")
        page = world.client.get(JOBS, params={"limit": 3}).json()
        rest = world.client.get(JOBS, params={"limit": 3, "cursor": page["next_cursor"]}).json()
    assert [job["name"] for job in page["jobs"]] == ["nightly-4", "nightly-3", "nightly-1"]
    assert ([job["name"] for job in rest["jobs"]], rest["next_cursor"]) == (["nightly-0"], None)
