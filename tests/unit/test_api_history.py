"""What the API tells of a job's past, how an old version comes back, and what a pause says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.api_world import ApiWorld, bearer, until

JOBS = "/api/v1/jobs"
ANY = {"If-Match": "*"}


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld(wait_s=10.0, rate_per_s=100_000, burst=100_000) as world:
        world.signs_in()
        yield world


def edited(world: ApiWorld, name: str) -> list[int]:
    """The revisions of a job that was changed twice, oldest first."""
    first = world.create(name=name).json()["revision"]
    second = world.client.patch(f"{JOBS}/{name}", json={"every": "20m", "tier": "high"}, headers=ANY).json()["revision"]
    third = world.client.post(f"{JOBS}/{name}/pause", json={"note": "the bank is shut"}).json()["revision"]
    return [first, second, third]


def refused(answer: Any, status: int, pointer: str = "") -> None:
    assert answer.status_code == status, answer.text
    assert not pointer or answer.json()["errors"][0]["pointer"] == pointer, answer.text


def test_the_versions_say_who_changed_the_job_when_and_why(world: ApiWorld) -> None:
    revisions = edited(world, "told")
    document = world.client.get(f"{JOBS}/told/versions").json()

    assert [version["revision"] for version in document["versions"]] == revisions[::-1]
    assert [version["action"] for version in document["versions"]] == ["pause", "update", "create"]
    newest = document["versions"][0]
    assert (newest["note"], newest["status"], newest["pause"]["note"]) == (
        "the bank is shut",
        "paused",
        "the bank is shut",
    )
    assert all(version["actor"] and version["at"] for version in document["versions"])
    assert document["next_cursor"] is None


def test_versions_come_in_pages(world: ApiWorld) -> None:
    revisions = edited(world, "paged")
    seen: list[int] = []
    cursor = ""
    for _ in range(3):
        page = world.client.get(f"{JOBS}/paged/versions?limit=1{cursor}").json()
        seen += [version["revision"] for version in page["versions"]]
        cursor = f"&cursor={page['next_cursor']}"

    assert seen == revisions[::-1]
    assert page["next_cursor"] is None


def test_one_version_has_its_definition_as_it_was(world: ApiWorld) -> None:
    first, second, _ = edited(world, "single")

    old = world.client.get(f"{JOBS}/single/versions/{first}").json()
    assert (old["definition"]["every"], old["action"]) == ("10m", "create")
    assert world.client.get(f"{JOBS}/single/versions/{second}").json()["definition"]["every"] == "20m"
    refused(world.client.get(f"{JOBS}/single/versions/{first + 1000}"), 404)


@pytest.mark.parametrize("revision", ["none", "0", "-1", "1.5", "²", "9" * 19, "9" * 5_000])
def test_a_revision_that_cannot_be_names_nothing_and_is_no_cursor(world: ApiWorld, revision: str) -> None:
    """As a name that no job can have is a 404, and a cursor that is none of ours a 400 (docs/api.md)."""
    if not world.client.get(f"{JOBS}/odd").is_success:
        world.create(name="odd")
    refused(world.client.get(f"{JOBS}/odd/versions/{revision}"), 404)
    answer = world.client.get(f"{JOBS}/odd/versions", params={"cursor": revision})
    refused(answer, 400)
    described = world.client.get("/openapi.json").json()["paths"]["/api/v1/jobs/{job_id}/versions"]["get"]
    assert str(answer.status_code) in described["responses"]


def test_a_diff_names_what_differs(world: ApiWorld) -> None:
    first, second, third = edited(world, "differs")
    diff = world.client.get(f"{JOBS}/differs/diff?from_revision={first}&to_revision={second}").json()

    assert [(change["field"], change["before"], change["after"]) for change in diff["changes"]] == [
        ("/every", "10m", "20m"),
        ("/tier", "medium", "high"),
    ]
    newest = world.client.get(f"{JOBS}/differs/diff").json()
    assert (newest["from_revision"], newest["to_revision"], newest["changes"]) == (second, third, [])
    assert newest["status"] == ["active", "paused"]
    refused(world.client.get(f"{JOBS}/differs/diff?to_revision={first}"), 404)


def test_a_rollback_brings_the_definition_back_and_keeps_the_pause(world: ApiWorld) -> None:
    first, _, third = edited(world, "back")
    body = {"to_revision": first, "note": "too slow"}
    answer = world.client.post(f"{JOBS}/back/rollback", json=body, headers={"If-Match": f'"{third}"'})

    assert answer.status_code == 200, answer.text
    job = answer.json()
    assert (job["every"], job["tier"], job["status"], job["pause"]["note"]) == (
        "10m",
        "medium",
        "paused",
        "the bank is shut",
    )
    assert job["revision"] > third
    newest = world.client.get(f"{JOBS}/back/versions?limit=1").json()["versions"][0]
    assert (newest["action"], newest["note"], newest["from_revision"]) == ("rollback", "too slow", first)


def test_a_rollback_honours_what_it_expects(world: ApiWorld) -> None:
    first, second, _ = edited(world, "stale")
    path = f"{JOBS}/stale/rollback"

    refused(world.client.post(path, json={"to_revision": first}), 428)
    refused(world.client.post(path, json={"to_revision": first}, headers={"If-Match": f'"{second}"'}), 412)
    refused(world.client.post(path, json={"to_revision": second + 999}, headers=ANY), 404)
    for body, pointer in (({}, "/to_revision"), ({"to_revision": "1"}, "/to_revision"), ({"too": 1}, "/too")):
        refused(world.client.post(path, json=body, headers=ANY), 422, pointer)


def test_the_past_of_another_tenants_job_is_not_there(world: ApiWorld) -> None:
    first, _, _ = edited(world, "mine")
    other = bearer(world.key(tenant="acme"))

    for path in ("versions", f"versions/{first}", "diff"):
        refused(world.client.get(f"{JOBS}/default:mine/{path}", headers=other), 404)
    refused(
        world.client.post(f"{JOBS}/default:mine/rollback", json={"to_revision": first}, headers=other | ANY),
        404,
    )


def test_the_past_of_a_deleted_job_is_still_told(world: ApiWorld) -> None:
    edited(world, "gone")
    world.client.request("DELETE", f"{JOBS}/gone", json={"note": "no longer needed"})

    newest = world.client.get(f"{JOBS}/gone/versions").json()["versions"][0]
    assert (newest["action"], newest["note"], newest["pause"]) == ("delete", "no longer needed", None)
    refused(world.client.get(f"{JOBS}/never-was/versions"), 404)


def test_a_pause_may_end_by_itself(world: ApiWorld) -> None:
    world.create(name="naps", every="1s")
    until_at = datetime.now(UTC) + timedelta(seconds=2)
    answer = world.client.post(f"{JOBS}/naps/pause", json={"resume_at": until_at.isoformat(), "note": "a nap"})

    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] in ("paused", "active")  # its end is asked for at once
    until(lambda: world.client.get(f"{JOBS}/naps").json()["status"] == "active")
    assert [each["action"] for each in world.client.get(f"{JOBS}/naps/versions").json()["versions"]] == [
        "resume",
        "pause",
        "create",
    ]


def test_a_pause_that_cannot_be_is_refused_with_its_place(world: ApiWorld) -> None:
    world.create(name="awake")
    path = f"{JOBS}/awake/pause"

    refused(world.client.post(path, json={"resume_at": "2020-01-01T00:00:00Z"}), 422, "/resume_at")
    refused(world.client.post(path, json={"resume_at": "tomorrow"}), 422, "/resume_at")
    refused(world.client.post(path, json={"note": "x" * 501}), 422, "/note")
    refused(world.client.post(path, json={"until": "tomorrow"}), 422, "/until")
    assert world.client.get(f"{JOBS}/awake").json()["pause"] is None
