"""Jobs that others start, through the API: saved, shown, changed; and what a worker hands to whoever does the work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.api_world import ApiWorld
from waterclock.api.views import run_view
from waterclock.app import Context
from waterclock.model.events import Origin, Outcome, RunStatus, WorkRecord
from waterclock.model.job import Tier
from waterclock.store.port import RunRow

JOBS = "/api/v1/jobs"
SOURCE = "acme:load@20261121T090000Z"


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld(wait_s=10.0, rate_per_s=100_000, burst=100_000) as world:
        yield world


def test_a_job_without_a_schedule_is_made_shown_and_changed(world: ApiWorld) -> None:
    on = {"any": [{"job": "load", "ended": "succeeded"}]}
    made = world.client.post(JOBS, json={"name": "report", "handler": "h", "on": {"any": [{"job": "load"}]}})
    assert made.status_code == 201, made.text
    job = made.json()
    assert (job["on"], job["next_fire_time"], "dates" in job) == (on, None, False)
    assert world.client.get(f"{JOBS}/report").json() == job
    assert on in [each.get("on") for each in world.client.get(JOBS).json()["jobs"]]
    tag = {"If-Match": made.headers["etag"]}
    both = world.client.patch(f"{JOBS}/report", json={"cron": "0 9 * * *"}, headers=tag)
    assert both.status_code == 200, both.text
    assert (both.json()["on"], both.json()["cron"]) == (on, "0 9 * * *")
    tag = {"If-Match": both.headers["etag"]}
    alone = world.client.patch(f"{JOBS}/report", json={"cron": None}, headers=tag)
    assert alone.status_code == 200, alone.text
    assert alone.json()["next_fire_time"] is None


def test_a_job_that_would_start_itself_is_refused_at_the_door(world: ApiWorld) -> None:
    document = {"name": "report-2", "handler": "h", "on": {"any": [{"job": "report-2"}]}}
    answer = world.client.post(JOBS, json=document)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/on/any/0/job")


def test_a_handler_is_told_which_end_started_it() -> None:
    work = WorkRecord("acme:r@20261121T100000Z~9", 1, 1, 1, "acme:r", 7, Tier.HIGH, "default", "h", b"")
    assert Context.of(work, 3).triggered_by == ""
    assert Context.of(work._replace(triggered_by=SOURCE), 3).triggered_by == SOURCE


def test_history_tells_what_started_a_run_from_what_it_runs_again() -> None:
    nothing = (0, 0, 0, "", 0, "", None, "", "", "", 0, 0, 0)
    row = RunRow("acme:r", 1, 9, 7, Tier.HIGH, Origin.TRIGGER, RunStatus.PENDING, Outcome.NONE, 0, *nothing)
    started = run_view(row._replace(linked_run=SOURCE))
    assert (started["triggered_by"], started["linked_run"]) == (SOURCE, None)
    again = run_view(row._replace(linked_run=SOURCE, origin=Origin.REDRIVE))
    assert (again["triggered_by"], again["linked_run"]) == (None, SOURCE)
