"""Calendars at the API: made, versioned, brought to jobs, deleted; and jobs that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import JOB, ApiWorld
from waterclock.clock import ManualClock
from waterclock.model.ids import US_PER_S
from waterclock.store import placing
from waterclock.store.calendar_port import CalendarRow
from waterclock.store.calendar_use import put_calendar
from waterclock.store.memory import MemoryStore

CALENDARS = "/api/v1/calendars"
HOLIDAYS = {
    "description": "Bank holidays",
    "exclude": {"days": ["2026-12-25", {"from": "2027-01-01", "to": "2027-01-03"}]},
}
FRIDAYS = {"exclude": {"weekdays": ["fri"]}}
ICS = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART;VALUE=DATE:20261225\r\n"
    "RRULE:FREQ=YEARLY\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    with ApiWorld(wait_s=10.0, rate_per_s=100_000, burst=100_000) as world:
        yield world


def put(world: ApiWorld, name: str, document: dict[str, Any], **headers: str) -> Any:
    return world.client.put(f"{CALENDARS}/{name}", json=document, headers=headers)


def daily(**parts: Any) -> dict[str, Any]:
    return {"handler": "demo.ping", "cron": "0 9 * * *", "calendars": ["holidays"], **parts}


def test_a_calendar_is_made_looked_at_and_listed(world: ApiWorld) -> None:
    made = put(world, "holidays", HOLIDAYS)
    assert made.status_code == 201, made.text
    told = made.json()
    assert told["changed"]
    assert (told["calendar_id"], told["day_count"]) == ("default:holidays", 4)
    assert made.headers["etag"] == f'"{told["version"]}"'
    shown = world.client.get(f"{CALENDARS}/holidays").json()
    assert shown["definition"] == HOLIDAYS
    listed = world.client.get(CALENDARS).json()
    assert [line["name"] for line in listed["calendars"]] == ["holidays"]


def test_the_same_content_again_makes_no_version(world: ApiWorld) -> None:
    first = put(world, "holidays", HOLIDAYS).json()
    again = put(world, "holidays", HOLIDAYS)
    assert (again.status_code, again.json()["changed"], again.json()["version"]) == (200, False, first["version"])
    newer = put(world, "holidays", FRIDAYS).json()
    assert newer["version"] > first["version"]
    versions = world.client.get(f"{CALENDARS}/holidays/versions").json()["versions"]
    assert [each["version"] for each in versions] == [newer["version"], first["version"]]
    old = world.client.get(f"{CALENDARS}/holidays", params={"version": first["version"]}).json()
    assert old["definition"] == HOLIDAYS


def test_a_change_of_what_is_stale_is_refused(world: ApiWorld) -> None:
    first = put(world, "holidays", HOLIDAYS)
    put(world, "holidays", FRIDAYS)
    refused = put(world, "holidays", HOLIDAYS, **{"If-Match": first.headers["etag"]})
    assert refused.status_code == 412
    assert world.client.get(f"{CALENDARS}/holidays").json()["definition"] == FRIDAYS


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({}, ""),
        ({"exclude": {"days": ["2026-02-30"]}}, "/exclude/days/0"),
        ({"exclude": {"weekdays": ["someday"]}}, "/exclude/weekdays/0"),
        ({"exclude": {"periods": [{"from": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}]}},
         "/exclude/periods/0/until"),
        ({"exclude": {"dayz": []}}, "/exclude/dayz"),
        ({"include": {"days": []}, "exclude": {"days": ["2026-12-25"]}}, "/include"),
        ({"exclude": {"days": ["1990-01-01", "2150-01-01"]}}, "/exclude"),
    ],
)  # fmt: skip
def test_what_is_no_calendar_is_refused_with_its_place(world: ApiWorld, document: Any, pointer: str) -> None:
    refused = put(world, "holidays", document)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == pointer
    assert refused.json()["hint"]


def test_a_job_names_a_calendar_and_its_version_is_told(world: ApiWorld) -> None:
    version = put(world, "holidays", HOLIDAYS).json()["version"]
    made = world.client.post("/api/v1/jobs", json=daily(name="nightly"))
    assert made.status_code == 201, made.text
    assert made.json()["calendars"] == ["holidays"]
    assert made.json()["calendar_versions"] == {"holidays": version}
    again = world.client.post("/api/v1/jobs", json=daily(name="nightly"))
    assert again.status_code == 200
    assert again.json()["revision"] == made.json()["revision"]


def test_an_unknown_calendar_is_refused_with_what_to_do(world: ApiWorld) -> None:
    refused = world.client.post("/api/v1/jobs", json=daily())
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/calendars/0"
    assert "waterclock calendar put" in refused.json()["hint"]


def test_a_new_version_reaches_the_jobs_that_use_it_and_no_other(world: ApiWorld) -> None:
    put(world, "holidays", HOLIDAYS)
    put(world, "others", FRIDAYS)
    revisions = {}
    for name, calendars in (("a", ["holidays"]), ("b", ["others", "holidays"]), ("c", ["others"])):
        made = world.client.post("/api/v1/jobs", json=daily(name=name, calendars=calendars)).json()
        revisions[name] = made["revision"]
    told = put(world, "holidays", FRIDAYS).json()
    assert told["jobs"] == {
        "using": 2, "behind": 2, "applied": 2, "unchanged": 0, "refused": 0, "refusals": [], "unanswered": 0,
        "is_whole": True, "next_cursor": None,
    }  # fmt: skip
    for name, is_newer in (("a", True), ("b", True), ("c", False)):
        job = world.client.get(f"/api/v1/jobs/{name}").json()
        assert (job["revision"] > revisions[name]) is is_newer
        if is_newer:
            assert job["calendar_versions"]["holidays"] == told["version"]
    versions = world.client.get("/api/v1/jobs/a/versions").json()["versions"]
    assert versions[0]["action"] == "calendar"
    users = world.client.get(f"{CALENDARS}/holidays/jobs").json()["jobs"]
    assert {user["job_id"]: user["is_behind"] for user in users} == {"default:a": False, "default:b": False}
    once_more = world.client.post(f"{CALENDARS}/holidays/apply").json()
    assert (once_more["using"], once_more["behind"]) == (2, 0)


def test_an_interval_keeps_its_cadence_when_its_calendar_changes(world: ApiWorld) -> None:
    put(world, "holidays", HOLIDAYS)
    made = world.client.post(
        "/api/v1/jobs", json={**JOB, "every": "7h", "name": "slow", "calendars": ["holidays"]}
    ).json()
    put(world, "holidays", {"exclude": {"days": ["2026-12-24"]}})
    now = world.client.get("/api/v1/jobs/slow").json()
    assert now["revision"] > made["revision"]
    assert now["next_fire_time"] == made["next_fire_time"]


def test_a_calendar_in_use_is_not_deleted_and_its_jobs_are_named(world: ApiWorld) -> None:
    put(world, "holidays", HOLIDAYS)
    world.client.post("/api/v1/jobs", json=daily(name="nightly"))
    refused = world.client.delete(f"{CALENDARS}/holidays")
    assert refused.status_code == 409
    assert refused.json()["type"].endswith(":in-use")
    assert "default:nightly" in refused.json()["detail"]
    world.client.patch("/api/v1/jobs/nightly", json={"calendars": None}, headers={"If-Match": "*"})
    assert world.client.delete(f"{CALENDARS}/holidays").status_code == 200
    assert world.client.get(f"{CALENDARS}/holidays").status_code == 404
    assert world.client.get(CALENDARS).json()["calendars"] == []
    assert put(world, "holidays", FRIDAYS).status_code == 201


def test_more_than_ten_using_jobs_are_not_all_named(world: ApiWorld) -> None:
    put(world, "holidays", HOLIDAYS)
    for number in range(12):
        world.client.post("/api/v1/jobs", json=daily(name=f"job-{number}"))
    detail = world.client.delete(f"{CALENDARS}/holidays").json()["detail"]
    assert detail.count("default:job-") == 10
    assert detail.endswith("and others")


def test_another_tenants_calendar_is_none(world: ApiWorld) -> None:
    put(world, "holidays", HOLIDAYS)
    headers = {"Authorization": f"Bearer {world.key(tenant='acme')}"}
    assert world.client.get(f"{CALENDARS}/holidays", headers=headers).status_code == 404
    assert world.client.get(CALENDARS, headers=headers).json()["calendars"] == []
    assert world.client.post("/api/v1/jobs", json=daily(), headers=headers).status_code == 422
    own = world.client.put(f"{CALENDARS}/holidays", json=FRIDAYS, headers=headers)
    assert (own.status_code, own.json()["calendar_id"]) == (201, "acme:holidays")
    assert world.client.get(f"{CALENDARS}/holidays").json()["definition"] == HOLIDAYS


def test_who_may_only_read_changes_no_calendar(world: ApiWorld) -> None:
    headers = {"Authorization": f"Bearer {world.key('read')}"}
    assert put(world, "holidays", HOLIDAYS, **headers).status_code == 403
    assert world.client.delete(f"{CALENDARS}/holidays", headers=headers).status_code == 403


def test_a_preview_tells_what_a_calendar_skips_and_moves(world: ApiWorld) -> None:
    put(world, "holidays", HOLIDAYS)
    asked = {"n": 2, "from": "2026-12-24T09:00:00Z"}
    skipped = world.client.post("/api/v1/jobs/preview", params=asked, json=daily()).json()["next_fires"]
    assert [fire["utc"] for fire in skipped] == ["2026-12-26T09:00:00Z", "2026-12-27T09:00:00Z"]
    assert skipped[0]["marks"][0]["mark"] == "calendar_skipped"
    assert skipped[0]["remark"] == "calendar: skipped (holidays, 2026-12-25 09:00)"
    weekly = daily(cron="0 9 * * 5", on_calendar="next_allowed", name="weekly")
    moved = world.client.post("/api/v1/jobs/preview", params=asked, json=weekly).json()["next_fires"]
    assert [fire["utc"] for fire in moved] == ["2026-12-26T09:00:00Z", "2027-01-04T09:00:00Z"]
    assert moved[0]["remark"] == "calendar: moved from 2026-12-25 09:00 (default:holidays)"


def test_a_calendar_file_becomes_a_calendar(world: ApiWorld) -> None:
    headers = {"Content-Type": "text/calendar"}
    made = world.client.post(f"{CALENDARS}/holidays/import", content=ICS, headers=headers)
    assert made.status_code == 201, made.text
    assert made.json()["occurrences"] >= 10
    assert "2026-12-25" in made.json()["definition"]["exclude"]["days"]
    refused = world.client.post(f"{CALENDARS}/holidays/import", content="no such thing", headers=headers)
    assert refused.status_code == 422
    assert world.client.post(f"{CALENDARS}/x/import", json={}).status_code == 415
    assert world.client.post(f"{CALENDARS}/x/import", content="x" * 300_000, headers=headers).status_code == 413


def test_a_balanced_job_takes_a_free_second_and_says_why(world: ApiWorld) -> None:
    soon = world.clock.now() // US_PER_S + 7_200
    at = f"{soon % 86_400 // 3_600:02}:{soon % 3_600 // 60:02}:00"
    cron = f"{soon % 3_600 // 60} {soon % 86_400 // 3_600} * * *"
    for number in range(5):
        world.client.post("/api/v1/jobs", json={"handler": "demo.ping", "name": f"herd-{number}", "cron": cron})
    made = world.client.post("/api/v1/jobs", json={
        "handler": "demo.ping", "name": "placed", "cron": cron, "jitter": {"window": "10s", "placement": "balanced"},
    })  # fmt: skip
    assert made.status_code == 201, made.text
    told = made.json()["placement"]
    assert (told["due_at_fire_time"], told["due_at_offset"]) == (5, 0)
    assert told["words"].startswith(f"{at} has 5 due; ")
    assert made.json()["jitter"]["offset"] == told["offset"] != "0s"
    renamed = world.client.patch("/api/v1/jobs/placed", json={"tier": "low"}, headers={"If-Match": "*"}).json()
    assert renamed["jitter"]["offset"] == told["offset"]
    assert "placement" not in renamed


def test_defining_a_balanced_job_again_keeps_its_second_whatever_the_load_became(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "KEPT_S", 0.0)
    jitter = {"window": "10s", "placement": "balanced"}
    job = {"handler": "demo.ping", "name": "placed", "cron": "0 9 * * *", "jitter": jitter}
    made = world.client.post("/api/v1/jobs", json=job).json()
    second = made["jitter"]["offset"]
    world.client.post("/api/v1/jobs", json={"handler": "demo.ping", "name": "herd", "cron": "0 9 * * *"})
    again = world.client.post("/api/v1/jobs", json=job)
    assert again.status_code == 200, again.text
    assert (again.json()["jitter"]["offset"], again.json()["revision"]) == (second, made["revision"])
    moved = {"jitter": {"window": "20s", "placement": "balanced"}}
    changed = world.client.patch("/api/v1/jobs/placed", json=moved, headers={"If-Match": "*"})
    assert changed.json()["placement"]["due_at_fire_time"] == 1


def test_two_who_put_under_a_clock_that_is_behind_name_two_versions() -> None:
    """Both see the version before them, and would both name the next number: two contents in one version."""
    now = 1_795_000_000 * US_PER_S

    def following(document: dict[str, Any]) -> int:
        store = MemoryStore(ManualClock(now))
        store.put_calendar(CalendarRow("t", "holidays", now + US_PER_S, "a", "{}", ""))
        return put_calendar(store, "t", "holidays", document, actor="a", now=now)[0].version

    one, other = following(HOLIDAYS), following(FRIDAYS)
    assert one != other
    assert now + US_PER_S < min(one, other) <= max(one, other) < now + 2 * US_PER_S
    assert following(FRIDAYS) == other
