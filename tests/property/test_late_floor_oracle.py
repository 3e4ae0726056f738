"""From which fire on a late version owes its fires: the dispatcher's pure decision against the judge of the books.

A command is late where the edge has passed its stamp. What lies between them belongs to an older version as far as that
had decided it, and jitter says by when it had.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st
from waterclock.dispatcher.commands import Place, apply

from tests.oracle import owed
from tests.oracle.records import decode
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec, JobStatus, JobVersion
from waterclock.model.timetable import offset_of
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

    def spec(self, number: int) -> JobSpec | None:
        if self.kind not in (CommandKind.CREATE, CommandKind.UPDATE):
            return None
        timing = Timing(jitter_us=self.jitter_s * S, jitter_per_fire=self.per_fire and self.jitter_s > 0)
        return JobSpec("a", Every(EVERY_S * S, START), payload=b"%d" % number, timing=timing)


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
    """The fires of the last version by the dispatcher and by the judge, up to some time after it."""

    ours: list[int]
    theirs: list[int]


def played(steps: list[Step]) -> Outcome:
    versions: list[JobVersion] = []
    told, edges, decided_at, floor_at = [], {}, 0, 0
    for number, step in enumerate(steps, 1):
        stamp_at, edge_at = START + step.stamp_s * S, max(START + step.edge_s * S, decided_at)
        command = Command(step.kind, JOB, f"c{number}", "test", stamp_at, spec=step.spec(number))
        is_paused = bool(versions) and versions[0].status is JobStatus.PAUSED
        place = Place(1, 0, number, stamp_at)
        applied = apply(command, place, versions, edge_at, decided_at if is_paused else 0)
        assert applied.version is not None
        versions.insert(0, applied.version)
        decided_at, floor_at = applied.decided_at or decided_at, applied.floor_at
        edges[number] = edge_at
        record = decode(codec.encode_command(command))[1]
        told.append({"offset": number, "appended_at": stamp_at, "record": record})
    made = owed.versions(told, edges).made
    last, until = made[-1], edges[len(steps)] + 10 * EVERY_S * S
    duties = owed.owed(made, until)
    theirs = sorted(fire for fire, duty in duties.items() if duty.version.offset == last.offset)
    fires = owed.fires(last.spec, last.anchor, floor_at, until)
    return Outcome([fire for fire in fires if last.due(fire) <= until], theirs)


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
    ours, theirs = played([*steps, Step(CommandKind.RESUME, stamp_s, stamp_s + late_s)])
    assert theirs
    assert ours == theirs


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
        found.append(Step(kind, stamp_s, edge_s, draw(st.sampled_from(JITTERS_S)), draw(st.booleans())))
    return found


EDITED_LATE = [Step(CommandKind.CREATE, 1, 1), Step(CommandKind.UPDATE, 115, 125, 59)]


@given(any_steps())
@example(EDITED_LATE)  # the fire at 120 was due before the edge under the older version, and is due again behind it
@settings(max_examples=300, deadline=None)
def test_a_late_version_never_owes_what_an_older_one_has_decided(steps: list[Step]) -> None:
    if steps[-1].kind is not CommandKind.PAUSE:
        ours, theirs = played(steps)
        assert set(ours) <= set(theirs)
