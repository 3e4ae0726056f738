"""Calendars as they are kept: versions, names, and the jobs that were saved with one."""

from __future__ import annotations

from waterclock.store.calendar_port import CalendarName, CalendarRow, NotedJob
from waterclock.store.rows import pshard_of

from .world import StoreWorld


def _row(world: StoreWorld, version: int, document: str = '{"exclude":{}}') -> CalendarRow:
    return CalendarRow(world.tenant, "holidays", world.now + version, "ann", document, "AQ==")


def test_the_newest_version_stands_and_the_others_are_kept(world: StoreWorld) -> None:
    rows = [_row(world, number) for number in (1, 2, 3)]
    for row in rows:
        world.store.put_calendar(row, f"version {row.version}")

    assert world.other.calendars(world.tenant, ["holidays", "none"]) == [rows[2], None]
    assert world.other.calendar(world.tenant, "holidays", rows[0].version) == rows[0]
    assert world.other.calendar_versions(world.tenant, "holidays", 2) == [rows[2], rows[1]]
    assert world.other.calendar_versions(world.tenant, "holidays", 9, rows[1].version) == [rows[0]]


def test_names_are_listed_in_their_order_deleted_ones_among_them(world: StoreWorld) -> None:
    for name in ("c", "a", "b"):
        world.store.put_calendar(_row(world, 1)._replace(name=name), f"about {name}")
    world.store.put_calendar(_row(world, 2, "")._replace(name="b"))

    found = world.other.calendar_names(world.tenant, 10)
    assert found[0] == CalendarName("a", world.now + 1, "about a", False)
    assert [(each.name, each.is_deleted) for each in found] == [("a", False), ("b", True), ("c", False)]
    assert [each.name for each in world.other.calendar_names(world.tenant, 1, "a")] == ["b"]
    gone = world.other.calendars(world.tenant, ["b"])[0]
    assert gone is not None
    assert gone.is_deleted


def test_noted_jobs_are_paged_and_none_is_left_out(world: StoreWorld) -> None:
    jobs = [f"{world.tenant}:job-{number}" for number in range(25)]
    for job_id in jobs:
        world.store.note_calendars(job_id, ["holidays", "freeze"], world.now)

    found: list[NotedJob] = []
    while len(page := world.other.noted_jobs(world.tenant, "holidays", 4, found[-1][:2] if found else None)) == 4:
        found += page
    found += page
    assert [(each.pshard, each.job_id) for each in found] == sorted((pshard_of(job), job) for job in jobs)


def test_a_job_that_was_noted_again_is_not_forgotten(world: StoreWorld) -> None:
    stays, goes = f"{world.tenant}:stays", f"{world.tenant}:goes"
    for job_id in (stays, goes):
        world.store.note_calendars(job_id, ["holidays"], world.now)
    noted = world.other.noted_jobs(world.tenant, "holidays", 10)
    world.store.note_calendars(stays, ["holidays"], world.now + 1)
    world.store.forget_noted(world.tenant, "holidays", noted)

    assert [each.job_id for each in world.other.noted_jobs(world.tenant, "holidays", 10)] == [stays]
