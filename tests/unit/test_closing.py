"""Ends that wait to be applied cost a step nothing, however many they are, and of a herd so many a round are asked."""

from __future__ import annotations

from unittest import mock

import pytest
from waterclock.dispatcher import closing
from waterclock.dispatcher.closing import ask_to_close
from waterclock.dispatcher.emit import Emitter, Templates
from waterclock.dispatcher.holding import know_job
from waterclock.dispatcher.look_times import LookTimes
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.resuming import AGAIN_US
from waterclock.dispatcher.shard import Shard
from waterclock.dispatcher.starts import WAITS_US

from tests.unit.dispatcher_world import NAMES, START
from tests.unit.test_max_runs import spec
from waterclock.model.ids import ordinal
from waterclock.model.job import JobStatus, JobVersion


class Jobs(dict):  # type: ignore[type-arg]
    """Counts the looks at single jobs."""

    looks = 0

    def get(self, key, default=None):  # type: ignore[no-untyped-def]
        self.looks += 1
        return super().get(key, default)


def version(number: int, most: int = 1, revision: int = 0, status: JobStatus = JobStatus.ACTIVE) -> JobVersion:
    return JobVersion(f"t:j{number:03}", revision or ordinal(1, number), spec(most), status, "", START, START)


def due(count: int) -> tuple[Shard, Emitter]:
    """A shard in which the jobs of this number have made all their runs."""
    shard, out = Shard(0, 1, 1, Position(START), 0), Emitter(Templates(NAMES))
    shard.flow.jobs = Jobs()
    for number in range(count):
        job = know_job(shard, out, version(number))
        job.count.note_made(job.revision)
        shard.flow.note_count(job)
    return shard, out


def asked(shard: Shard, now: int) -> tuple[int, bool]:
    """How many were asked for in one round, and whether more wait."""
    out = Emitter(Templates(NAMES))
    busy = ask_to_close(shard, out, now)
    return len(out.messages), busy


def test_of_a_herd_so_many_a_round_are_asked_for() -> None:
    shard, _ = due(5)
    with mock.patch.object(closing, "_ASKED_MAX", 2):
        assert [asked(shard, START) for _ in range(4)] == [(2, True), (2, True), (1, False), (0, False)]


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("is_store_away", [False, True])
def test_what_was_asked_for_is_not_looked_at_again_in_every_step(count: int, *, is_store_away: bool) -> None:
    shard, _ = due(count)
    while asked(shard, START)[1]:
        pass
    if is_store_away:
        shard.inbox.append(mock.sentinel.command)
    before = shard.flow.jobs.looks  # type: ignore[attr-defined]
    for now in range(START, START + AGAIN_US, AGAIN_US // 10):
        assert asked(shard, now) == (0, False)
    if is_store_away:  # all are due again, and one time is put off for all
        for now in range(START + AGAIN_US, START + 3 * AGAIN_US, AGAIN_US // 10):
            assert asked(shard, now) == (0, False)
    assert shard.flow.jobs.looks == before  # type: ignore[attr-defined]


def test_what_came_to_nothing_is_asked_for_again_once_no_command_waits() -> None:
    shard, _ = due(1)
    assert asked(shard, START) == (1, False)
    shard.inbox.append(mock.sentinel.command)
    later = START + AGAIN_US
    assert asked(shard, later) == (0, False)
    shard.inbox.clear()
    assert asked(shard, later) == (0, False)
    assert asked(shard, later + WAITS_US) == (1, False)


def test_who_is_due_while_commands_wait_is_asked_for_the_first_time() -> None:
    shard, out = due(1)
    asked(shard, START)
    shard.inbox.append(mock.sentinel.command)
    late = know_job(shard, out, version(7))
    late.count.note_made(late.revision)
    shard.flow.note_count(late)
    assert asked(shard, START + AGAIN_US) == (1, False)
    assert asked(shard, START + AGAIN_US) == (0, False)


def test_an_end_is_asked_for_at_once_though_the_one_before_was_just_now() -> None:
    shard, out = due(1)
    asked(shard, START)
    know_job(shard, out, version(0, 1, ordinal(1, 5), JobStatus.ENDED))
    job = know_job(shard, out, version(0, 2, ordinal(1, 6)))
    assert asked(shard, START) == (0, False)
    job.count.note_made(job.revision)
    shard.flow.note_count(job)
    assert asked(shard, START) == (1, False)


def test_of_each_job_one_time_counts() -> None:
    times = LookTimes()
    times.put("a", 9)
    times.put("b", 5)
    times.put("a", 3)
    times.put_new("b")
    assert (times.next_at(), times.pop()) == (3, "a")
    times.forget("b")
    assert times.next_at() is None
    assert len(times) == 0


def test_of_times_that_are_put_off_again_and_again_few_are_kept() -> None:
    times = LookTimes()
    for at in range(1, 10_000):
        times.put("a", at)
        times.put("b", 20_000 - at)
    assert len(times._heap) < 1_100
    assert (times.next_at(), times.pop()) == (9_999, "a")
    assert (times.next_at(), times.pop()) == (10_001, "b")
    assert times.next_at() is None
