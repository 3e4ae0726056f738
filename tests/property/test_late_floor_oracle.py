"""From which fire on a late version owes its fires: the dispatcher's pure decision against the judge of the books.

A command is late where the edge has passed its stamp. What lies between them belongs to an older version as far as that
had decided it, and jitter says by when it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from waterclock.dispatcher.commands import Place, apply
from waterclock.dispatcher.edges import EDGES_MAX, Edges, still_needed
from waterclock.dispatcher.misfire import SkipRange
from waterclock.dispatcher.owed import stretches

from tests.oracle import owed
from tests.oracle.records import decode
from waterclock.model.errors import Busy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec, JobStatus, JobVersion
from waterclock.model.timetable import next_of, offset_of
from waterclock.model.timing import Timing
from waterclock.wire import codec

S = US_PER_S
START = 1_795_000_020 * S
EVERY_S = 120
JITTERS_S = (0, 7, 59)
JOB = next(f"t:j{number}" for number in range(99) if offset_of(f"t:j{number}", 59 * S) > 30 * S)
"""Its offset is most of the widest window, so that an edge may well lie between fire and due time."""


class Step(NamedTuple):
    """A command with its stamp and the edge under which it is applied, in seconds from the start."""

    kind: CommandKind
    stamp_s: int
    edge_s: int
    jitter_s: int = 0
    per_fire: bool = False
    every_s: int = EVERY_S

    def spec(self, number: int) -> JobSpec | None:
        if self.kind not in (CommandKind.CREATE, CommandKind.UPDATE):
            return None
        timing = Timing(jitter_us=self.jitter_s * S, jitter_per_fire=self.per_fire and self.jitter_s > 0)
        return JobSpec("a", Every(self.every_s * S, START), payload=b"%d" % number, timing=timing)


@st.composite
def prompt_steps(draw: Any) -> list[Step]:
    """A job that was changed a few times, paused at last: nothing of it was late."""
    found, at_s = [], 0
    for number in range(draw(st.integers(1, 4))):
        at_s += draw(st.integers(1, 200))
        kind = CommandKind.UPDATE if number else CommandKind.CREATE
        found.append(Step(kind, at_s, at_s, draw(st.sampled_from(JITTERS_S)), draw(st.booleans())))
    at_s += draw(st.integers(1, 200))
    return [*found, Step(CommandKind.PAUSE, at_s, at_s - draw(st.integers(0, 1)))]


class Outcome(NamedTuple):
    """What is left to run, and what a command skipped: {fire: revision} by the dispatcher and by the judge."""

    ours: dict[int, int]
    theirs: dict[int, int]
    skipped: list[tuple[int, int]]
    to_skip: list[tuple[int, int]]


def played(steps: list[Step]) -> Outcome:
    """The steps one after the other, and all that is due within ten intervals after the last edge."""
    versions: list[JobVersion] = []
    told, said, decided_at, fires_to_at, skipped = [], {}, 0, 0, []
    edges: Edges = ()
    for number, step in enumerate(steps, 1):
        stamp_at, edge_at = START + step.stamp_s * S, max(START + step.edge_s * S, decided_at)
        command = Command(step.kind, JOB, f"c{number}", "test", stamp_at, spec=step.spec(number))
        is_paused = bool(versions) and versions[0].status is JobStatus.PAUSED
        place = Place(1, 0, number, stamp_at)
        paused_from = decided_at if is_paused else 0
        edges = still_needed(edges, edge_at)
        applied = apply(command, place, versions, edge_at, paused_from, edges, fires_after=fires_to_at)
        assert applied.version is not None
        versions.insert(0, applied.version)
        decided_at, edges = applied.decided_at or decided_at, applied.edges
        fires_to_at = max(fires_to_at, applied.fires_to_at)
        skipped += [(fire, each.version.revision) for each, _ in applied.skipped for fire in _in_range(each)]
        said[number] = owed.Edge(edge_at)
        told.append({"offset": number, "appended_at": stamp_at, "record": decode(codec.encode_command(command))[1]})
    edge_at = max(said[len(steps)].at, decided_at)
    until = edge_at + 10 * EVERY_S * S
    duties = owed.owed(owed.versions(told, said).made, until)
    owing = stretches(versions, edge_at, until, fires_after=fires_to_at, edges=edges)
    ours = {fire: each.version.revision for each in owing for fire in _fires(each.version, each.after, each.until)}
    theirs = {
        fire: duty.version.offset
        for fire, duty in duties.items()
        if not duty.reason and edge_at < duty.version.due(fire) <= until
    }
    to_skip = sorted((fire, duty.version.offset) for fire, duty in duties.items() if duty.reason)
    return Outcome(ours, theirs, sorted((fire, revision & owed.MASK) for fire, revision in skipped), to_skip)


def _in_range(skip: SkipRange) -> Iterator[int]:
    return _fires(skip.version, skip.from_at - 1, skip.to_at)


def _fires(version: JobVersion, after: int, until: int) -> Iterator[int]:
    while (found := next_of(version, after)) is not None and found <= until:
        yield found
        after = found


PAUSED_WITH_MORE_JITTER = [
    Step(CommandKind.CREATE, 1, 1),
    Step(CommandKind.UPDATE, 10, 10, 59),
    Step(CommandKind.PAUSE, 20, 20),
]


@given(prompt_steps(), st.integers(1, 300), st.integers(0, 150))
@example(PAUSED_WITH_MORE_JITTER, 95, 10)  # the fire at 120 is due after the edge, and nobody else's
@settings(max_examples=300, deadline=None)
def test_a_job_that_is_resumed_late_owes_what_no_version_decided_before_its_pause(
    steps: list[Step], after_s: int, late_s: int
) -> None:
    stamp_s = steps[-1].stamp_s + after_s
    outcome = played([*steps, Step(CommandKind.RESUME, stamp_s, stamp_s + late_s)])
    assert outcome.theirs
    check(outcome)


def check(outcome: Outcome) -> None:
    assert {fire: revision & owed.MASK for fire, revision in outcome.ours.items()} == outcome.theirs
    assert outcome.skipped == outcome.to_skip


@st.composite
def any_steps(draw: Any) -> list[Step]:
    """Changes, pauses and their ends, on time or late."""
    found, stamp_s, edge_s = [], 0, 0
    for number in range(draw(st.integers(2, 6))):
        stamp_s += draw(st.integers(1, 100))
        just_behind_s = -(-stamp_s // EVERY_S) * EVERY_S + draw(st.integers(0, 40))
        edge_s = max(edge_s, draw(st.sampled_from([stamp_s - 5, stamp_s, just_behind_s, just_behind_s])))
        is_paused = bool(found) and found[-1].kind is CommandKind.PAUSE
        kind = CommandKind.RESUME if is_paused else draw(st.sampled_from([CommandKind.UPDATE, CommandKind.PAUSE]))
        kind = kind if number else CommandKind.CREATE
        every_s = draw(st.sampled_from([EVERY_S, EVERY_S, 2 * EVERY_S, 150]))
        found.append(Step(kind, stamp_s, edge_s, draw(st.sampled_from(JITTERS_S)), draw(st.booleans()), every_s))
    return found


EDITED_LATE = [Step(CommandKind.CREATE, 1, 1), Step(CommandKind.UPDATE, 115, 125, 59)]


JITTERED_THEN_EDITED_LATE = [
    Step(CommandKind.CREATE, 1, 1),
    Step(CommandKind.UPDATE, 10, 10, 59),
    Step(CommandKind.UPDATE, 115, 125, 59),
]
"""The fire at 120 was due under the first version by 120, which no longer stood; nobody but the third owes it."""

EDITED_TWICE_THEN_PAUSED = [
    Step(CommandKind.CREATE, 1, 1, 7),
    Step(CommandKind.UPDATE, 115, 130),
    Step(CommandKind.UPDATE, 117, 130, 59),
    Step(CommandKind.PAUSE, 140, 140),
]
"""The fire at 120 ran under the first version: the pause must not skip it as one of the third."""


@given(any_steps())
@example(EDITED_LATE)  # the fire at 120 was due before the edge under the older version, and is due again behind it
@example(JITTERED_THEN_EDITED_LATE)
@example(EDITED_TWICE_THEN_PAUSED)
@settings(max_examples=600, deadline=None)
def test_a_late_version_owes_exactly_what_no_older_one_has_decided(steps: list[Step]) -> None:
    check(played(steps))


def test_so_many_late_changes_are_bounded() -> None:
    """The bound pushes back, and says so."""
    late = [Step(CommandKind.UPDATE, 20 + number, 120 + number, number % 50) for number in range(EDGES_MAX + 1)]
    with pytest.raises(Busy, match="64 times"):
        played([Step(CommandKind.CREATE, 1, 1), *late])
    hour_later = [step._replace(stamp_s=step.stamp_s + 3_600, edge_s=step.edge_s + 3_600) for step in late[:8]]
    check(played([Step(CommandKind.CREATE, 1, 1), *late[:EDGES_MAX], *hour_later]))
