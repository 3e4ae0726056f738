"""Jobs whose schedule does not compile any more: how the API, the command line, forecasts and expectations see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.api_world import ApiWorld
from tests.unit.in_process import run_command
from tests.unit.lost_zone import ZONE, know, zone_in
from tests.unit.test_overdue import NOW, WITHIN_US, Desk
from waterclock.commands import job as command
from waterclock.model.job import Cron, JobSpec
from waterclock.model.timing import Timing
from waterclock.settings import Settings

JOBS = "/api/v1/jobs"
ODD = {"name": "odd", "cron": "0 9 * * *", "zone": ZONE, "handler": "demo.ping"}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    with zone_in(tmp_path), ApiWorld(wait_s=10.0) as world:
        assert world.client.post(JOBS, json=ODD).status_code == 201
        world.create(name="good")
        know()
        yield world


@pytest.fixture
def waterclock(world: ApiWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    @contextmanager
    def opened(_: Settings, port: Any) -> Iterator[Any]:
        yield port

    monkeypatch.setattr(command, "here", lambda: world.settings)
    monkeypatch.setattr(command, "open_store", lambda settings: opened(settings, world.services.store))
    monkeypatch.setattr(command, "open_log", lambda settings: opened(settings, world.services.log))

    def run(*words: str) -> tuple[int, str, str]:
        return run_command(monkeypatch, capsys, "job", *words)

    return run


def test_the_api_shows_it_and_says_what_to_do(world: ApiWorld) -> None:
    one = world.client.get(f"{JOBS}/odd")
    assert one.status_code == 200
    assert "'Mars/Base' is not a time zone" in one.json()["schedule_error"]
    assert "Save it with another schedule, or delete it" in one.json()["schedule_error"]
    assert one.json()["next_fire_time"] is None
    assert world.client.get(f"{JOBS}/odd/status").status_code == 200
    listed = {each["name"]: each for each in world.client.get(JOBS).json()["jobs"]}
    assert listed["odd"]["schedule_error"] == one.json()["schedule_error"]
    assert listed["good"]["schedule_error"] is None
    assert listed["good"]["next_fire_time"]


def test_the_api_pauses_replaces_and_resumes_it(world: ApiWorld) -> None:
    paused = world.client.post(f"{JOBS}/odd/pause")
    assert (paused.status_code, paused.json()["status"]) == (200, "paused")
    replaced = world.client.patch(f"{JOBS}/odd", json={"zone": "Europe/Berlin"}, headers={"If-Match": "*"})
    assert (replaced.status_code, replaced.json()["schedule_error"]) == (200, None)
    resumed = world.client.post(f"{JOBS}/odd/resume")
    assert resumed.json()["next_fire_time"]


def test_the_api_deletes_it(world: ApiWorld) -> None:
    assert world.client.delete(f"{JOBS}/odd").status_code == 200
    assert world.client.get(f"{JOBS}/odd").status_code == 404


def test_the_forecast_leaves_it_out(world: ApiWorld) -> None:
    told = world.client.get("/api/v1/forecast")
    assert (told.status_code, told.json()["job_count"]) == (200, 1)


def test_the_command_line_shows_it_and_says_what_to_do(waterclock: Run) -> None:
    code, shown, said = waterclock("list")
    assert code == 0
    assert "default:odd" in shown
    assert "default:good" in shown
    assert "default:odd: It does not fire" in said
    code, shown, _ = waterclock("show", "odd")
    assert code == 0
    assert "is not a time zone" in shown


def test_it_is_overdue_where_somebody_waits_for_it(tmp_path: Path) -> None:
    desk = Desk()
    with zone_in(tmp_path):
        timing = Timing(expect_within_us=WITHIN_US)
        row = desk.put(JobSpec("demo.noop", Cron("0 * * * *", ZONE), timing=timing), at=NOW - 2 * WITHIN_US)
        know()
        found = desk.asked(row)
    assert found is not None
    assert found.is_overdue
