"""The fires of a job within its ends, and when each is due: jitter is computed, never drawn, and keeps the order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from waterclock.dispatcher.edges import begins_after

from waterclock.model import timetable
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant
from waterclock.model.job import Cron, Dates, Every, JobSpec, JobStatus, JobVersion, Once, Schedule
from waterclock.model.job_state import Edge
from waterclock.model.time_text import parse_rfc3339
from waterclock.model.timing import Timing
from waterclock.model.timing_document import timing_from_document

START = 1_795_000_020 * US_PER_S  # a whole minute


def version(schedule: Schedule, timing: Timing, job_id: str = "t:a") -> JobVersion:
    return JobVersion(job_id, 1, JobSpec("h", schedule, timing=timing), JobStatus.ACTIVE, "", START, START)


def test_the_offset_of_a_job_is_golden() -> None:
    """On-disk format: another value would move the fires of every job in the world."""
    minute = 60 * US_PER_S
    assert timetable.offset_of("acme:nightly", minute) == 36_598_548
    assert timetable.offset_of("acme:hourly", minute) == 5_744_927
    assert timetable.offset_of("acme:nightly", minute, START) == 41_601_432
    assert timetable.offset_of("acme:nightly", minute, START + minute) == 36_472_566


def test_every_fire_of_a_job_has_one_offset_unless_each_is_to_have_its_own() -> None:
    def offsets(*, per_fire: bool) -> set[int]:
        known = version(Every(US_PER_MINUTE), Timing(jitter_us=20 * US_PER_S, jitter_per_fire=per_fire))
        fires = range(START, START + 50 * US_PER_MINUTE, US_PER_MINUTE)
        return {timetable.due_of(known, fire) - fire for fire in fires}

    assert len(offsets(per_fire=False)) == 1
    assert len(offsets(per_fire=True)) > 40


def test_fires_that_a_clock_change_brings_closer_than_their_jitter_are_decided_once() -> None:
    """In Berlin 02:01 and 02:31 of 28 March 2027 stand at 03:00, a minute before 03:01; the jitter is 14 minutes."""
    schedule = Cron("1,31 0-23 * * *", "Europe/Berlin")
    jitter = {"window": "15m", "placement": "balanced", "offset": "14m"}
    spread = JobSpec("h", schedule, timing=timing_from_document({"jitter": jitter}, schedule))
    change, minute = parse_rfc3339("2027-03-28T01:00:00Z"), 60 * US_PER_S
    made = JobVersion("t:a", 1, JobSpec("h", schedule), JobStatus.ACTIVE, "", change - 90 * minute, 0)
    edited = made._replace(revision=2, spec=spread, stamp_at=change - 10 * minute)
    edge_at = change + 5 * minute  # applied late: by then the first version has made both runs
    begins_at = begins_after(edited, [made], (Edge(2, edge_at, overtaken=False),))
    assert timetable.next_of(edited, begins_at) == change + 31 * minute


def test_fires_lie_from_one_end_up_to_the_other() -> None:
    ends = Timing(from_at=START + 10 * US_PER_S, until_at=START + 30 * US_PER_S)
    for schedule in (Every(5 * US_PER_S, START), Dates(tuple(START + n * 5 * US_PER_S for n in range(10)))):
        known = version(schedule, ends)
        fires: list[Instant] = []
        after: Instant | None = 0
        while (after := timetable.next_of(known, after or 0)) is not None:
            fires.append(after - START)
        assert fires == [10 * US_PER_S, 15 * US_PER_S, 20 * US_PER_S, 25 * US_PER_S]
        assert timetable.count_of(known, 0, START * 2) == 4
        assert timetable.last_of(known, 0, START * 2) == START + 25 * US_PER_S
        assert timetable.last_of(known, 0, START + 9 * US_PER_S) is None
    assert timetable.next_of(version(Once(START + 30 * US_PER_S), ends), 0) is None
    assert timetable.next_of(version(Once(START + 10 * US_PER_S), ends), 0) == START + 10 * US_PER_S


schedules = st.one_of(
    st.sampled_from([Every(2 * US_PER_S), Every(7 * US_PER_S, START), Cron("* * * * *"), Cron("*/2 * * * *")]),
    st.lists(st.integers(0, 200), min_size=1, max_size=20, unique=True).map(
        lambda seconds: Dates(tuple(START + second * US_PER_S for second in sorted(seconds)))
    ),
)
timings = st.builds(
    Timing,
    from_at=st.sampled_from([0, START + 20 * US_PER_S]),
    until_at=st.sampled_from([0, START + 150 * US_PER_S]),
    jitter_us=st.integers(0, 60).map(lambda seconds: seconds * US_PER_S),
    jitter_per_fire=st.booleans(),
)


@settings(deadline=None)
@given(schedules, timings, st.integers(0, 250_000_000))
def test_a_fire_is_never_due_early_and_never_before_an_older_one_whatever_the_window(
    schedule: Schedule, timing: Timing, edge_us: int
) -> None:
    """Also where the window is wider than the gaps are, which the doors refuse as far as they look."""
    known = version(schedule, timing)
    fires: list[Instant] = []
    after: Instant | None = START - 200 * US_PER_S
    while len(fires) < 250 and (after := timetable.next_of(known, after or START)) is not None:
        fires.append(after)
    dues = [timetable.due_of(known, fire) for fire in fires]
    assert all(fire <= due for fire, due in zip(fires, dues, strict=True))
    assert dues == sorted(set(dues))
    edge_at = START + edge_us
    by_edge = [fire for fire, due in zip(fires, dues, strict=True) if due <= edge_at]
    edge = timetable.fire_edge(known, edge_at)
    assert [fire for fire in fires if fire <= edge] == by_edge
    following = timetable.next_due(known, edge_at)
    assert following == next((fire for fire, due in zip(fires, dues, strict=True) if due > edge_at), following)
