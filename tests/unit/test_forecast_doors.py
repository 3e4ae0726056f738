"""The forecast by API and by command line: of the caller's own active jobs, or of all tenants for an operator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.api_world import JOB, ApiWorld, bearer
from tests.unit.in_process import run_command
from waterclock.api import forecast
from waterclock.commands import forecast as command
from waterclock.settings import Settings
from waterclock.store import planned
from waterclock.store.planned import known_tenants, planned_pages

URL = "/api/v1/forecast"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld() as world:
        world.signs_in()
        world.create(name="quarterly", every="15m", tier="high")
        nightly = {"name": "nightly", "cron": "0 3 * * *", "handler": "demo.ping", "tier": "low"}
        assert world.client.post("/api/v1/jobs", json=nightly).status_code == 201
        world.create(name="resting")
        assert world.client.post("/api/v1/jobs/resting/pause").status_code == 200
        world.create(name="gone")
        assert world.client.delete("/api/v1/jobs/gone").status_code == 200
        yield world


@pytest.fixture
def waterclock(world: ApiWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    @contextmanager
    def store(_: Settings) -> Iterator[Any]:
        yield world.services.store

    monkeypatch.setattr(command, "here", lambda: world.settings)
    monkeypatch.setattr(command, "open_store", store)

    def run(*words: str) -> tuple[int, str, str]:
        return run_command(monkeypatch, capsys, "forecast", *words)

    return run


def test_the_api_counts_active_jobs_by_minute_and_tier(world: ApiWorld) -> None:
    told = world.client.get(URL).json()
    tiers = {each["tier"]: each for each in told["tiers"]}
    assert (told["job_count"], told["fire_count"], told["stopped"]) == (2, 97, None)
    assert {word: tier["fire_count"] for word, tier in tiers.items()} == {"high": 96, "medium": 0, "low": 1}
    assert all(len(tier["by_minute"]) == 1_440 for tier in tiers.values())
    assert all(tier["due_by_minute"] == tier["by_minute"] for tier in tiers.values()), "without jitter"
    assert told["due_count"] == told["fire_count"]
    assert len(told["busiest"]) == 10


def test_the_api_begins_where_it_is_asked_to(world: ApiWorld) -> None:
    told = world.client.get(URL, params={"from": "2027-01-01T02:59:30Z", "busiest": 60}).json()
    assert (told["begin_at"], told["end_at"]) == ("2027-01-01T03:00:00Z", "2027-01-02T03:00:00Z")
    nightly = [minute for minute in told["busiest"] if "default:nightly" in str(minute["jobs"])]
    assert [minute["minute_at"] for minute in nightly] == ["2027-01-01T03:00:00Z"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("?from=yesterday", 422), ("?busiest=61", 400), ("?from=2300-01-01T00:00:00Z", 422), ("?form=x", 400)],
)
def test_a_wrong_question_is_refused_with_its_place(world: ApiWorld, query: str, status: int) -> None:
    answer = world.client.get(URL + query)
    assert answer.status_code == status
    assert answer.json()["type"].startswith("urn:waterclock:problem:")


def test_only_an_operator_sees_all_tenants() -> None:
    with ApiWorld() as world:
        world.create(name="quarterly", every="15m")
        reader, admin = bearer(world.key("read", tenant="acme")), bearer(world.key("admin", tenant="acme"))
        writer = bearer(world.key("write", tenant="acme"))
        assert world.client.post("/api/v1/jobs", json=JOB, headers=writer).status_code == 201
        own = world.client.get(URL, headers=reader).json()
        assert (own["tenants"], own["job_count"]) == (["acme"], 1)
        assert world.client.get(URL, params={"all_tenants": True}, headers=reader).status_code == 403
        everything = world.client.get(URL, params={"all_tenants": True}, headers=admin).json()
        assert (everything["tenants"], everything["job_count"]) == (["acme", "default"], 2)


def test_few_forecasts_are_counted_at_once_and_the_rest_wait(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_WAIT_S", 0.05)
    state = world.client.app.state  # type: ignore[attr-defined]
    state.forecasting = asyncio.Semaphore(0)
    answer = world.client.get(URL)
    state.forecasting = asyncio.Semaphore(1)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:waterclock:problem:busy")
    assert [world.client.get(URL).status_code for _ in range(3)] == [200] * 3


def test_all_pages_are_read_and_none_twice(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "PAGE", 1)
    pages = list(planned_pages(world.services.store, ["default", "nobody"]))
    jobs = [job.job_id for page in pages for job in page.jobs]
    assert sorted(jobs) == ["default:nightly", "default:quarterly"]
    assert sum(page.passed_over_count for page in pages) == 2


def test_tenants_are_known_by_settings_and_keys() -> None:
    world = ApiWorld()
    world.key(tenant="zeta")
    assert known_tenants(world.store, ["default", "beta", "beta"]) == ["beta", "default", "zeta"]


def test_the_command_prints_every_minute_as_json(waterclock: Run) -> None:
    code, out, err = waterclock("-o", "json")
    told = json.loads(out)
    assert (code, told["fire_count"], told["tenants"]) == (0, 97, ["default"])
    assert sum(told["tiers"][0]["by_minute"]) == 96
    assert err == ""


def test_the_command_draws_hours_and_names_the_busiest_minutes(waterclock: Run) -> None:
    code, out, err = waterclock("-o", "table", "--from", "2027-01-01T00:00:00Z", "--busiest", "2")
    lines = [line.rstrip() for line in out.splitlines()]
    hours = {line.split()[0]: line for line in lines[1:25]}
    assert (code, len(hours)) == (0, 24)
    assert lines[0].split() == [
        "FROM",
        "FIRES",
        "HIGH",
        "MEDIUM",
        "LOW",
        "BUSIEST",
        "MINUTE",
        "AFTER",
        "JITTER",
        "LOAD",
    ]
    assert hours["2027-01-01T03:00:00Z"].split()[1:5] == ["5", "4", "0", "1"]
    assert hours["2027-01-01T03:00:00Z"].endswith(" " + "█" * 30)
    assert hours["2027-01-01T04:00:00Z"].endswith(" " + "█" * 24)
    assert lines[25].split() == ["MINUTE", "FIRES", "JOBS", "MOST", "OF", "THEM"]
    assert "97 fires of 2 jobs" in err


def test_the_command_says_where_it_stopped(waterclock: Run) -> None:
    code, out, err = waterclock("-o", "json", "--max-jobs", "1")
    assert (code, json.loads(out)["job_count"]) == (0, 1)
    assert "not all jobs: 1 jobs were counted, and there are more; --max-jobs" in err


def test_a_tenant_or_all_and_not_both(waterclock: Run) -> None:
    assert waterclock("--tenant", "a", "--all-tenants")[0] == 2
    assert json.loads(waterclock("-o", "json", "--tenant", "nobody")[1])["job_count"] == 0


def test_anything_at_all_shows_in_a_bar() -> None:
    assert (command.bar(0, 100), command.bar(1, 10_000), command.bar(100, 100)) == ("", "▏", "█" * 30)
