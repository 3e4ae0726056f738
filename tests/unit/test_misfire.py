"""What becomes of missed fires: each policy as it is documented, held against the judge's own."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waterclock.dispatcher.misfire import CALENDAR, decide, decide_one, decide_together
from waterclock.dispatcher.owed import stretches

from tests.oracle import owed, policies
from waterclock.model.calendar import Calendar, side_of
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, JobStatus, JobVersion, Once
from waterclock.model.timetable import due_of
from waterclock.model.timing import CalendarUse, CatchUpOrder, Misfire, Timing, timing_to_json

S = US_PER_S
START = 1_795_000_020 * S
GRACE = 60 * S


def every(seconds: int, timing: Timing, *, revision: int = 1, stamp_at: int = START) -> JobVersion:
    spec = JobSpec("h", Every(seconds * S, START), timing=timing)
    return JobVersion("t:a", revision, spec, JobStatus.ACTIVE, "", stamp_at, START)


def decided(versions: list[JobVersion], at: int, *, edge_at: int = START) -> tuple[list[int], dict[str, list[int]]]:
    """(fires that run, in the order in which they go out; fires skipped by reason), in seconds."""
    decision = decide(stretches(versions, edge_at, at), at, GRACE)
    skipped: dict[str, list[int]] = {}
    for fires, reason in decision.skipped:
        spec = {
            "every": {"every_us": fires.version.spec.schedule.every_us, "start_at": START},
            "dates": None,
            "delay_us": None,
        }  # type: ignore[union-attr]
        found = owed.fires({**spec, "timing": ""}, START, fires.from_at - 1, fires.to_at)
        assert len(found) == fires.fire_count
        skipped.setdefault(reason, []).extend((fire - START) // S for fire in found)
    return [(run.fire_at - START) // S for run in decision.runs], skipped


@pytest.mark.parametrize(
    ("timing", "runs", "skipped"),
    [
        (Timing(), [300], {"coalesced": [30, 60, 90, 120, 150, 180, 210, 240, 270]}),
        (Timing(misfire=Misfire.SKIP), [240, 270, 300], {"misfire": [30, 60, 90, 120, 150, 180, 210]}),
        (Timing(misfire=Misfire.ALL), [30, 60, 90, 120, 150, 180, 210, 240, 270, 300], {}),
        (Timing(misfire=Misfire.ALL, catch_up_max=2), [270, 300], {"cap": [30, 60, 90, 120, 150, 180, 210, 240]}),
        (
            Timing(misfire=Misfire.ALL, catch_up_max=2, catch_up_order=CatchUpOrder.NEWEST),
            [300, 270],
            {"cap": [30, 60, 90, 120, 150, 180, 210, 240]},
        ),
        (
            Timing(misfire=Misfire.ALL, catch_up_window_us=120 * S),
            [180, 210, 240, 270, 300],
            {"expired": [30, 60, 90, 120, 150]},
        ),
        (
            Timing(catch_up_window_us=120 * S),
            [300],
            {"expired": [30, 60, 90, 120, 150], "coalesced": [180, 210, 240, 270]},
        ),
        # A window within the grace: what is older than that expires all the same, once there is a misfire.
        (Timing(misfire=Misfire.SKIP, catch_up_window_us=10 * S), [300], {"expired": list(range(30, 300, 30))}),
    ],
)
def test_each_policy_does_what_it_says(timing: Timing, runs: list[int], skipped: dict[str, list[int]]) -> None:
    assert decided([every(30, timing)], START + 300 * S) == (runs, skipped)


def test_the_newest_owed_fires_revision_says_what_becomes_of_all() -> None:
    older, newer = every(30, Timing()), every(30, Timing(misfire=Misfire.ALL), revision=2, stamp_at=START + 100 * S)
    assert decided([newer, older], START + 150 * S)[0] == [30, 60, 90, 120, 150]
    swapped = [newer._replace(spec=older.spec), older._replace(spec=newer.spec)]
    assert decided(swapped, START + 150 * S)[0] == [150]
    # One that owes nothing yet has no say.
    silent = newer._replace(stamp_at=START + 149 * S)
    assert decided([silent, older], START + 149 * S)[0] == [120]


@pytest.mark.parametrize("at", [150, 61])
def test_what_a_calendar_blocks_makes_no_run_in_a_gap_that_is_younger_than_the_grace_either(at: int) -> None:
    frozen = Calendar(exclude=side_of((), (), [(START // S + 20, START // S + 40)]))
    timing = Timing(misfire=Misfire.ALL, calendars=(CalendarUse("freeze", 1, frozen.as_text()),))
    decision = decide_together(
        stretches([every(10, timing)], START, START + 60 * S), START + 10 * S, START + at * S, GRACE
    )
    assert [(run.fire_at - START) // S for run in decision.runs] == [10, 40, 50, 60]
    assert [((fires.from_at - START) // S, fires.fire_count, why) for fires, why in decision.skipped] == [
        (20, 2, CALENDAR)
    ]


def test_years_of_seconds_are_counted_not_walked() -> None:
    year = 365 * 86_400
    runs, _ = decided_counts(every(1, Timing(misfire=Misfire.ALL, catch_up_max=1_000)), START + year * S)
    assert runs == 1_000


def decided_counts(version: JobVersion, at: int) -> tuple[int, int]:
    decision = decide(stretches([version], START, at), at, GRACE)
    return len(decision.runs), sum(fires.fire_count for fires, _ in decision.skipped)


@pytest.mark.parametrize(
    ("timing", "late_s", "reason"),
    [
        (Timing(), 60, ""),
        (Timing(), 3_600, ""),
        (Timing(), 86_400, ""),
        (Timing(), 86_401, "expired"),
        (Timing(misfire=Misfire.SKIP), 60, ""),
        (Timing(misfire=Misfire.SKIP), 61, "misfire"),
        (Timing(misfire=Misfire.ALL), 61, ""),
    ],
)
def test_a_one_off_that_comes_late_runs_late_unless_its_policy_says_otherwise(
    timing: Timing, late_s: int, reason: str
) -> None:
    once = replace(every(1, timing).spec, schedule=Once(START))
    version = every(1, timing)._replace(spec=once, stamp_at=START - 1)
    assert decide_one(version, START, START + late_s * S, GRACE) == reason


timings = st.builds(
    Timing,
    misfire=st.sampled_from(Misfire),
    catch_up_max=st.integers(1, 12),
    catch_up_window_us=st.sampled_from([10 * S, 45 * S, 200 * S, 86_400 * S]),
    catch_up_order=st.sampled_from(CatchUpOrder),
    jitter_us=st.integers(0, 1).map(lambda seconds: seconds * S),
    jitter_per_fire=st.booleans(),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(2, 40), timings, st.sampled_from(JobStatus)), min_size=1, max_size=4),
    st.lists(st.integers(1, 150), min_size=4, max_size=4),
    st.integers(0, 200),
    st.integers(1, 300),
)
def test_a_decision_is_what_the_judge_would_decide(
    parts: list[tuple[int, Timing, JobStatus]], gaps_s: list[int], edge_s: int, more_s: int
) -> None:
    stamps = [START + sum(gaps_s[:number]) * S for number in range(len(parts))]
    made = [
        every(seconds, timing, revision=number, stamp_at=stamp)._replace(status=status)
        for number, ((seconds, timing, status), stamp) in enumerate(zip(parts, stamps, strict=True))
    ]
    edge_at, at = START + edge_s * S, START + (edge_s + more_s) * S
    duties: dict[int, JobVersion] = {}
    ends = [*(later.stamp_at for _, later in pairwise(made)), None]
    for version, end in zip(made, ends, strict=True):
        spec = {
            "every": {"every_us": version.spec.schedule.every_us, "start_at": START},
            "dates": None,
            "delay_us": None,
            "timing": "",
        }  # type: ignore[union-attr]
        for fire in owed.fires(spec, START, version.stamp_at, at if end is None else min(at, end)):
            if version.status is JobStatus.ACTIVE and edge_at < due_of(version, fire) <= at:
                duties[fire] = version
    decision = decide(stretches(made[::-1], edge_at, at), at, GRACE)
    found = dict.fromkeys((run.fire_at for run in decision.runs), "")
    for fires, reason in decision.skipped:
        every_us = fires.version.spec.schedule.every_us  # type: ignore[union-attr]
        covered = range(fires.from_at, fires.to_at + 1, every_us)
        assert len(covered) == fires.fire_count
        assert not found.keys() & set(covered)
        found |= dict.fromkeys(covered, reason)
    due = {fire: due_of(version, fire) for fire, version in duties.items()}
    if not due or min(due.values()) >= at - GRACE:
        return  # no misfire: nobody asks
    said = policies.timing({"timing": timing_to_json(duties[max(duties)].spec.timing)})
    assert found == policies.outcomes(due, said, at, GRACE)
    runs = [run.fire_at for run in decision.runs]
    assert runs == sorted(runs, reverse=said["catch_up_order"] == "newest")
