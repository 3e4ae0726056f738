"""Gaps beside the cursor: their text, their room, what a job owes in them. Values alone, no dispatcher."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waterclock.dispatcher.gap_owed import first_fire, owed_in
from waterclock.dispatcher.gaps import GAPS_MAX, POSITION_MAX, TEXT_MAX, Gap, Progress, decode_progress, encode_progress
from waterclock.dispatcher.misfire import Fire
from waterclock.dispatcher.position import Position, encode_cursor

from waterclock.model.cursor_text import read_cursor, undecided_from
from waterclock.model.errors import UndecodableRecord
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, JobStatus, JobVersion, Once, Tier
from waterclock.model.timing import Timing

S = US_PER_S
T = 1_795_000_020 * S
JOB = "acme:nightly"
LONGEST = f"{'t' * 63}:{'n' * 128}"
LONG_ENTRY = f"{LONGEST}@20261121T090000.123456Z~{2**62}/{'n' * 63}/99999"

# The text ------------------------------------------------------------------------------------------------------------

CURSOR = Position(T + 400 * S, 1, JOB)
GOLDEN = [
    (Progress(CURSOR), f"1|{T + 400 * S}|1|acme:nightly|"),
    (
        Progress(CURSOR, (Gap(Position(T), T + 300 * S, Position(T), 7),)),
        f"2|{T + 400 * S}|1|acme:nightly||{T}|0|||{T + 300 * S}|||||7",
    ),
    (
        Progress(
            CURSOR,
            (
                Gap(Position(T, 2, "acme:a", "e"), T + 9 * S, Position(T + S, 0, "acme:b"), 50),
                Gap(Position(T + 60 * S), T + 90 * S, Position(T + 60 * S)),
            ),
        ),
        (
            f"2|{T + 400 * S}|1|acme:nightly||{T}|2|acme:a|e|{T + 9 * S}|{T + S}|0|acme:b||50"
            f"|{T + 60 * S}|0|||{T + 90 * S}|||||0"
        ),
    ),
]


@pytest.mark.parametrize(("progress", "text"), GOLDEN)
def test_the_text_in_the_offset_metadata_is_on_disk_format(progress: Progress, text: str) -> None:
    assert encode_progress(progress) == text
    assert decode_progress(text) == progress
    assert decode_progress(text + "\0\0") == progress


def test_a_cursor_of_a_release_without_gaps_is_read_as_it_was_and_written_so_again() -> None:
    old = encode_cursor(CURSOR)
    assert decode_progress(old) == Progress(CURSOR)
    assert encode_progress(Progress(CURSOR)) == old


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3|1|0||",
        "2|5|0||",  # gaps are announced, and there are none
        "2|5|0|||1|0|||4|||||",  # no count
        "2|5|0|||1|0|||1|||||0",  # ends where it begins
        "2|5|0|||2|0|||4|1|0|||0",  # its position lies before its begin
        "2|5|0|||1|0|||4|||||0|7",
        "1|5|0|||1|0|||4|||||0",
        "2|5|0||" + "|1|0|||4|||||0" * (GAPS_MAX + 1),
    ],
)
def test_what_is_no_text_of_ours_is_refused_and_never_guessed(text: str) -> None:
    with pytest.raises(UndecodableRecord):
        decode_progress(text)


names = st.text("abc:", max_size=5)
positions = st.builds(Position, st.integers(T, T + 10**9), st.integers(0, 2), names, names)


@st.composite
def progresses(draw: st.DrawFn) -> Progress:
    gaps = []
    for _ in range(draw(st.integers(0, GAPS_MAX))):
        start = draw(positions)
        position = max(start, draw(positions)) if draw(st.booleans()) else start
        gaps.append(Gap(start, start.due_at + draw(st.integers(1, 10**9)), position, draw(st.integers(0, 10**9))))
    return Progress(draw(positions), tuple(gaps))


@settings(deadline=None)
@given(progresses())
def test_every_progress_survives_its_text_and_outsiders_read_the_same(progress: Progress) -> None:
    text = encode_progress(progress)
    assert decode_progress(text) == progress
    told = read_cursor(text)
    assert told is not None
    assert told.cursor_at == progress.cursor.due_at
    assert told.gaps == tuple((gap.position.due_at, gap.to_at, gap.row_count) for gap in progress.gaps)
    assert undecided_from(text) == min([progress.cursor.due_at, *(gap.position.due_at for gap in progress.gaps)])


@pytest.mark.parametrize("text", ["", "3|1|0||", "2|5|0||", "1|5|0|||1|0|||4|||||0", "2|5|0|||1|0|||4||||", "1|x|0||"])
def test_an_outsider_believes_no_other_text(text: str) -> None:
    assert read_cursor(text) is None


def test_there_is_room_for_eight_gaps_of_long_names_and_for_no_ninth() -> None:
    progress = Progress(Position(T))
    for number in range(GAPS_MAX):
        start = Position(T + number * 1_000 * S, 2, LONGEST)
        assert progress.has_room(start)
        progress = Progress(Position(T), (*progress.gaps, Gap(start, start.due_at + 500 * S, start, 10**9)))
    assert not progress.has_room(Position(T))


def test_the_text_stays_in_bounds_wherever_cursor_and_position_go() -> None:
    worst = Position(10**18 - 1, 2, LONGEST, LONG_ENTRY)
    assert len(encode_cursor(worst)) <= POSITION_MAX
    progress = Progress(worst)
    while progress.has_room(worst):
        gap = Gap(worst, worst.due_at + S, worst, 10**9)
        progress = Progress(worst, (*progress.gaps, gap))
    assert len(progress.gaps) >= 3
    begun = progress.gaps[0]._replace(position=Position(10**18, 2, LONGEST, LONG_ENTRY))
    assert len(encode_progress(progress._replace(gaps=(begun, *progress.gaps[1:])))) <= TEXT_MAX


# What is owed in a gap -----------------------------------------------------------------------------------------------

GAP = Gap(Position(T + 100 * S), T + 400 * S, Position(T + 100 * S))


def version(
    every_s: int, *, revision: int = 1, stamp_s: int = 0, status: JobStatus = JobStatus.ACTIVE, jitter_s: int = 0
) -> JobVersion:
    spec = JobSpec("h", Every(every_s * S, T), Tier.MEDIUM, timing=Timing(jitter_us=jitter_s * S))
    return JobVersion(JOB, revision, spec, status, "", T + stamp_s * S, T)


def place_s(gap: Gap, versions: list[JobVersion], decided_s: int = 0, fires_s: int = 0) -> float | None:
    owed = owed_in(gap, JOB, versions, T + decided_s * S, T + fires_s * S)
    return None if owed is None else (owed.place.due_at - T) / S


def test_a_job_has_its_place_at_its_first_fire_in_the_gap_until_the_gap_has_passed_it() -> None:
    assert place_s(GAP, [version(60)]) == 120
    assert place_s(GAP._replace(position=Position(T + 119 * S)), [version(60)]) == 120
    assert place_s(GAP._replace(position=Position(T + 120 * S, 1, JOB)), [version(60)]) is None
    assert place_s(GAP, [version(1_000)]) is None


def test_a_gap_that_begins_inside_a_due_time_has_the_jobs_that_stand_behind_its_begin() -> None:
    for job, meant in (("acme:a", 120), ("zzzz:z", 180)):
        start = Position(T + 120 * S, 1, job)
        assert place_s(Gap(start, T + 400 * S, start), [version(60)]) == meant


def test_what_was_decided_ahead_is_owed_in_no_gap() -> None:
    assert place_s(GAP, [version(60)], decided_s=200) == 240
    assert place_s(GAP, [version(60)], decided_s=400) is None
    assert place_s(GAP, [version(60)], fires_s=250) == 300


def test_an_edit_within_the_absence_leaves_each_version_its_fires_and_the_job_one_place() -> None:
    edited = [version(70, revision=2, stamp_s=190), version(60)]
    owed = owed_in(GAP, JOB, edited, 0, 0)
    assert owed is not None
    assert owed.place.due_at == T + 120 * S
    assert [(each.version.revision, each.after, each.until) for each in owed.owed] == [
        (1, T + 100 * S - 1, T + 190 * S),
        (2, T + 190 * S, T + 400 * S - 1),
    ]


def test_a_newer_version_without_jitter_may_have_the_first_place() -> None:
    older = version(100, jitter_s=50)
    offset = owed_in(GAP, JOB, [older], 0, 0)
    assert offset is not None
    edited = [version(101, revision=2, stamp_s=101), older]
    owed = owed_in(GAP, JOB, edited, 0, 0)
    assert owed is not None
    assert owed.place == min(offset.place, Position(T + 202 * S, 1, JOB))


def test_of_what_is_due_at_a_place_the_record_that_names_it_is_that_of_its_own_tier() -> None:
    placed = Timing(jitter_us=600 * S, balanced=True, placed_us=80 * S)
    older = version(60)._replace(spec=JobSpec("h", Once(T + 50 * S), Tier.LOW, timing=placed))
    newer = version(130, revision=2, stamp_s=60)
    owed = owed_in(GAP, JOB, [newer, older], 0, 0)
    assert owed is not None
    assert owed.place == Position(T + 130 * S, Tier.MEDIUM, JOB)
    assert first_fire(owed) == Fire(newer, T + 130 * S)
