"""Jobs: what a command writes, what a replay and a zombie can do to it, and what lists show."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest

from waterclock.model.ids import US_PER_S
from waterclock.model.job import Cron, Every, Fold, Gap, JobStatus, Once, Pause, Schedule
from waterclock.store import tabular
from waterclock.store.listing import JobListing
from waterclock.store.port import JobChange

from .world import US_PER_DAY, StoreWorld

HOUR_US = 3_600 * US_PER_S


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        (Cron("*/5 * * * *", "Europe/Berlin", gap=Gap.SKIP, fold=Fold.BOTH), "cron"),
        (Cron("*/10 * * * * *", seconds=True), "cron"),
        (Every(2_000_000), "every"),
        (Every(90_000_000, start_at=1_795_000_000_000_000), "every"),
        (Once(1_795_000_000_250_000), "once"),
    ],
    ids=["cron", "seconds", "every", "anchored", "once"],
)
def test_a_change_is_read_back_whole(world: StoreWorld, schedule: Schedule, kind: str) -> None:
    job = world.job(spec=world.spec(schedule), src_partition=3, src_offset=1 << 40, updated_at=world.now + 5)
    version = world.version(spec=job.spec, actor="ann@acme", stamp=world.now)
    due = world.due(slot=world.slot("job"))

    world.store.apply([JobChange(job, version, (due,))])

    assert world.other.job(job.job_id) == job
    assert world.other.version(job.job_id, version.revision) == version
    assert world.other.jobs(world.tenant, 10) == [JobListing(job.job_id, job.created_at, kind, JobStatus.ACTIVE)]
    assert world.bucket(due) == [due]


def test_what_is_not_there_is_none(world: StoreWorld) -> None:
    assert world.store.job(world.job_id()) is None
    assert world.store.version(world.job_id(), 11) is None
    assert world.store.versions([world.job_id()]) == {}
    assert world.store.jobs(world.tenant, 10) == []


def test_a_change_without_a_version_makes_none(world: StoreWorld) -> None:
    world.store.apply([JobChange(world.job(), None)])

    assert world.store.job(world.job_id()) == world.job()
    assert world.store.versions([world.job_id()]) == {}


def test_one_change_deletes_the_rows_of_the_old_revision_and_writes_those_of_the_new(world: StoreWorld) -> None:
    old = [world.due(second=second) for second in (1, 2)]
    new = [row._replace(revision=12, wts=world.now + 10) for row in old]
    world.write_due(*old)
    deletes = tuple(world.delete(row, world.now + 10 + HOUR_US) for row in old)

    world.store.apply([JobChange(world.job(revision=12, stamp=world.now + 10), None, tuple(new), deletes)])

    assert world.bucket(old[0]) == new


def test_a_replay_of_commands_changes_nothing(world: StoreWorld) -> None:
    changes = [world.change(revision=11 + i, stamp=world.now + i, updated_at=world.now + i) for i in range(3)]
    world.store.apply(changes)

    world.store.apply(changes[:2])
    world.other.apply(changes)

    assert world.store.job(world.job_id()) == changes[2].job
    assert world.store.versions([world.job_id()])[world.job_id()] == [
        change.version for change in reversed(changes) if change.version
    ]


def test_changes_of_one_job_settle_in_any_order(world: StoreWorld) -> None:
    for number, order in enumerate(itertools.permutations(range(3))):
        name = f"job-{number}"
        changes = [
            world.change(name, 11 + i, world.now + i, status=status, updated_at=world.now + i)
            for i, status in enumerate((JobStatus.ACTIVE, JobStatus.PAUSED, JobStatus.ACTIVE))
        ]

        for each in order:
            world.store.apply([changes[each]])

        assert world.store.job(world.job_id(name)) == changes[2].job


def test_many_changes_in_one_call_all_land(world: StoreWorld) -> None:
    changes = [world.change(f"n{i:03d}", 11 + i) for i in range(150)]

    world.store.apply(changes)

    assert [world.store.job(change.job.job_id) for change in changes] == [change.job for change in changes]


def test_what_stood_before_a_command_is_the_newest_version_below_it(world: StoreWorld) -> None:
    versions = [world.version(name, revision) for name in ("a", "b") for revision in (10, 20, 1 << 50)]
    world.store.apply([JobChange(world.job(), version) for version in versions])
    a, b = world.job_id("a"), world.job_id("b")

    found = world.store.versions_below([(b, 21), (a, 10), (a, 11), (world.job_id("c"), 99), (a, 1 << 60), (b, 20)])

    assert found == [versions[4], None, versions[0], None, versions[2], versions[3]]


def test_many_questions_are_answered_in_their_order(world: StoreWorld) -> None:
    versions = [world.version(f"n{i}", 10 + i) for i in range(200)]
    world.store.apply([JobChange(world.job(), version) for version in versions])

    found = world.store.versions_below([(version.job_id, version.revision + 1) for version in versions])

    assert found == versions


def test_versions_come_newest_first_and_at_most_a_hundred(world: StoreWorld) -> None:
    versions = [world.version("long", revision) for revision in range(1, 121)]
    short = world.version("short", 7)
    world.store.apply([JobChange(world.job(), version) for version in [*versions, short]])

    found = world.store.versions([world.job_id("long"), world.job_id("none"), world.job_id("short")])

    assert found == {world.job_id("long"): versions[:19:-1], world.job_id("short"): [short]}


@pytest.mark.parametrize("page", [1, 7, tabular.VERSIONS_PAGE])
def test_versions_are_read_back_to_an_instant_however_many_they_are(world: StoreWorld, page: int) -> None:
    long = [world.version("long", revision, world.now + revision) for revision in range(1, 131)]
    short = [world.version("short", revision, world.now + revision) for revision in (6, 7)]
    world.store.apply([JobChange(world.job(), version) for version in [*long, *short]])
    asked = [world.job_id(name) for name in ("long", "none", "short")]

    with mock.patch.object(tabular, "VERSIONS_PAGE", page):
        found = world.other.versions(asked, back_to=world.now + 20)
        whole = world.other.versions(asked, back_to=0)

    newest_first = found.pop(world.job_id("long"))
    assert newest_first == long[: -len(newest_first) - 1 : -1]
    assert 0 <= 20 - newest_first[-1].revision < page
    assert found == {world.job_id("short"): short[: -page - 1 : -1]}
    assert whole == {world.job_id("long"): long[::-1], world.job_id("short"): short[::-1]}


def test_a_deleted_job_is_still_named(world: StoreWorld) -> None:
    world.store.apply([world.change()])
    deleted = world.change(revision=12, stamp=world.now + 1, status=JobStatus.DELETED)

    world.store.apply([deleted])

    assert world.store.job(world.job_id()) == deleted.job
    assert [line.status for line in world.store.jobs(world.tenant, 10)] == [JobStatus.DELETED]


def test_a_deleted_job_leaves_after_its_history_and_what_it_was_does_not_come_back(world: StoreWorld) -> None:
    stamp = world.now - 35 * US_PER_DAY + 2 * US_PER_S
    active = world.change(stamp=stamp - 1)
    world.store.apply([active])
    world.store.apply([world.change(revision=12, stamp=stamp, status=JobStatus.DELETED)])

    world.pass_until(lambda: world.store.job(world.job_id()) is None and not world.store.jobs(world.tenant, 10))

    world.other.apply([active])
    assert world.store.job(world.job_id()) is None
    assert len(world.store.versions([world.job_id()])[world.job_id()]) == 2


def test_a_job_made_again_outlives_the_row_of_its_deletion(world: StoreWorld) -> None:
    stamp = world.now - 35 * US_PER_DAY
    beside = world.change("beside", stamp=stamp, status=JobStatus.DELETED)
    world.store.apply([world.change(stamp=stamp, status=JobStatus.DELETED), beside])
    again = world.change(revision=13, stamp=stamp + 1)
    world.store.apply([again])

    world.pass_until(lambda: world.store.job(beside.job.job_id) is None)

    assert world.store.job(world.job_id()) == again.job


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_on_equal_stamps_the_row_that_expires_wins(world: StoreWorld, order: tuple[int, int]) -> None:
    spec = world.spec(Once(1))
    plain = JobChange(world.job(spec=world.spec(Every(9_000_000)), revision=99), None)
    expiring = JobChange(world.job(spec=spec, status=JobStatus.DELETED, revision=12), None)

    for number in order:
        world.store.apply([(plain, expiring)[number]])

    assert world.store.job(world.job_id()) == expiring.job


def test_pages_of_a_tenants_jobs_are_newest_first_and_miss_nothing(world: StoreWorld) -> None:
    changes = [world.change(f"n{i:02d}", created_at=world.now + i // 3) for i in range(50)]
    world.store.apply(changes)
    expected = sorted(((change.job.created_at, change.job.job_id) for change in changes), reverse=True)
    slots = {world.slot(f"n{i:02d}") % 16 for i in range(50)}
    assert len(slots) > 8

    pages = []
    after = None
    while page := world.store.jobs(world.tenant, 7, after):
        pages.append([(line.created_at, line.job_id) for line in page])
        after = pages[-1][-1]

    assert [len(page) for page in pages] == [7] * 7 + [1]
    assert [line for page in pages for line in page] == expected


def test_a_tenant_sees_its_own_jobs_alone(world: StoreWorld) -> None:
    mine, other = world.job(), world.job()._replace(job_id=f"{world.tenant}x:job")
    world.store.apply([JobChange(mine, None), JobChange(other, None)])

    assert [line.job_id for line in world.store.jobs(world.tenant, 10)] == [mine.job_id]


def test_a_version_tells_who_made_it_with_which_words_and_why_its_job_is_paused(world: StoreWorld) -> None:
    pause = Pause("ann@acme", 'the bank is shut: \u20ac "x"', world.now, world.now + HOUR_US)
    told = {"action": "rollback", "note": "too slow", "from_revision": 7, "pause": pause}
    version = world.version(revision=12, status=JobStatus.PAUSED, **told)
    job = world.job(revision=12, status=JobStatus.PAUSED, pause=pause)
    world.store.apply([JobChange(job, version)])

    assert world.other.version(job.job_id, 12) == version
    assert world.other.job(job.job_id) == job

    later = world.now + 1
    world.store.apply([JobChange(world.job(revision=13, stamp=later), world.version(revision=13, stamp=later))])
    resumed = world.other.job(job.job_id)
    assert resumed is not None
    assert resumed.pause is None, "a pause that is over must not stay in its cell"


def test_a_jobs_history_comes_newest_first_in_pages(world: StoreWorld) -> None:
    versions = [world.version(revision=number, stamp=world.now + number, note=f"n{number}") for number in (3, 5, 9)]
    world.store.apply([JobChange(world.job(), version) for version in versions])

    newest_first = versions[::-1]
    assert world.other.history(world.job_id(), 10) == newest_first
    assert world.other.history(world.job_id(), 2) == newest_first[:2]
    assert world.other.history(world.job_id(), 10, 9) == newest_first[1:]
    assert world.other.history(world.job_id(), 10, 3) == []
    assert world.other.history(world.job_id("nobody"), 10) == []
