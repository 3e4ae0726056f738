"""Two fires that a clock change has brought closer together than their jitter, and an edit that is applied late."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from waterclock.dispatcher.edges import begins_after, check_floor, is_decided

from waterclock.model.errors import Busy
from waterclock.model.ids import US_PER_S as S
from waterclock.model.job import Cron, JobSpec, JobStatus, JobVersion
from waterclock.model.job_state import Edge
from waterclock.model.timetable import next_of
from waterclock.model.timing import Timing

CHANGE = round(datetime(2027, 3, 28, 1, 0, tzinfo=UTC).timestamp()) * S
"""From 02:00 to 03:00 in Berlin: 02:31 comes then, and 03:01 a minute later."""

JITTER = Timing(jitter_us=900 * S, balanced=True, placed_us=600 * S)


def version(revision: int, cron: str, stamp_at: int, timing: Timing = Timing()) -> JobVersion:  # noqa: B008 - a value
    spec = JobSpec("demo.noop", Cron(cron, zone="Europe/Berlin"), timing=timing)
    return JobVersion("t:n", revision, spec, JobStatus.ACTIVE, "", stamp_at, 0, revision, stamp_at)


def test_an_edit_by_which_a_fire_would_be_made_twice_is_refused() -> None:
    old = version(1, "1 3 * * *", CHANGE - 86_400 * S)
    new = version(2, "1,31 1-23 * * *", CHANGE - 5 * S, JITTER)
    first = next_of(new, new.stamp_at)
    second = CHANGE + 60 * S
    assert (first, next_of(new, CHANGE)) == (CHANGE, second)
    edge_at = CHANGE + 65 * S
    edges = (Edge(2, edge_at),)
    assert [is_decided(at, [old], edges, edge_at) for at in (CHANGE, second)] == [False, True]
    assert begins_after(new, [old], edges) < CHANGE
    with pytest.raises(Busy, match="would fire twice at 2027-03-28T01:01:00Z"):
        check_floor(new, [old], edges)


def test_an_edit_that_comes_between_the_two_is_not() -> None:
    old = version(1, "1 3 * * *", CHANGE - 86_400 * S)
    new = version(2, "1,31 1-23 * * *", CHANGE - 5 * S, JITTER)
    check_floor(new, [old], (Edge(2, CHANGE + 30 * S),))
