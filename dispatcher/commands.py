"""What a command does to a job (design §6). Pure: one function, from what stood before to what stands now.

A decision uses only the command, the versions below it and what was decided up to it, so a replay decides alike.
``stamp`` is wts(C): the broker's append time, pushed past the job's previous stamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypedDict

from waterclock.model.cause import NO_CAUSE, Cause
from waterclock.model.errors import Conflict, NotFound, RequestError
from waterclock.model.gathering import Arrival
from waterclock.model.ids import US_PER_S, Instant, make_run_id, ordinal
from waterclock.model.job import MUST_BE_NEW, Command, CommandKind, Every, JobSpec, JobStatus, JobVersion, Once
from waterclock.model.timetable import fire_edge
from waterclock.model.timing import with_newer
from waterclock.model.timing_document import check_timing
from waterclock.store.port import JobRow

from .behind import decide_behind
from .causes import arrival_of, cause_of, check_lapse
from .edges import Edges, begins_after, check_floor, is_overtaken, moved_up, with_edge
from .misfire import PAUSED, REASONS, SkipRange, skip_all
from .owed import Stretch, stretches
from .pauses import is_same_pause, pause_of, pause_until, stamp_of
from .position import Position
from .spec_check import check_payload, check_spec
from .standing_check import check_compiles, check_end

NOTE_MAX = 500
"""Characters of a note that a version keeps."""

GRACE_US = 60 * US_PER_S
"""How late a fire may be and is no misfire, unless a setting says otherwise."""


class Place(NamedTuple):
    """Where a command stands in its partition, and when the broker appended it."""

    generation: int
    partition: int
    offset: int
    appended_at: Instant

    @property
    def revision(self) -> int:
        """The revision number of a version made by this command."""
        return ordinal(self.generation, self.offset)


class Applied(NamedTuple):
    """What one command decided. ``version`` is None where it makes none (trigger, or nothing changed).

    ``skipped`` are fires that end here without a run, ``decided_at`` up to where the job's fires are thereby decided.
    ``run_at`` is the run of a trigger, to be made at once; ``series`` goes into its run id. ``behind`` are fires of the
    schedule to make at once (``behind.py``).
    ``floor_at``: of an ACTIVE version, the fire time after which its own fires begin. ``fires_to_at``: whenever they
    are due, all fires up to this fire time are decided; 0: nothing is said of that. ``edges``: under which the job's
    late versions were applied, this one's with them. ``cause``: what asked for the run of a trigger; ``arrival``: it
    is no run yet, for several ends or records have to come together; ``is_paused``: nobody else may start the job then.
    """

    row: JobRow
    stamp_at: Instant
    version: JobVersion | None = None
    skipped: tuple[tuple[SkipRange, str], ...] = ()
    decided_at: Instant | None = None
    run_at: Instant | None = None
    series: int = 0
    floor_at: Instant = 0
    fires_to_at: Instant = 0
    edges: Edges = ()
    cause: Cause = NO_CAUSE
    arrival: Arrival | None = None
    is_paused: bool = False
    behind: tuple[Instant, ...] = ()

    @property
    def triggered(self) -> str:
        """The id of the run that a trigger makes, else ""."""
        if not self.series or self.run_at is None:
            return ""
        return make_run_id(self.row.job_id, self.run_at, self.series)


def apply(
    command: Command,
    place: Place,
    versions: Sequence[JobVersion],
    edge_at: Instant,
    paused_from: Instant = 0,
    edges: Edges = (),
    cursor: Position | None = None,
    grace_us: int = GRACE_US,
    fires_after: Instant = 0,
    target: JobVersion | None = None,
    in_gaps: Sequence[Stretch] = (),
) -> Applied:
    """Apply ``command``. ``versions``: the job's, newest first, all below the command, as far back as ``edge_at``.

    ``edge_at``: every fire of the job due at or before it is decided. ``paused_from``: for a paused job, the edge when
    it was paused. ``edges``: under which those of ``versions`` were applied that came late. ``cursor``: where it
    stands, for a shard that was taken over inside a due time. ``grace_us``: how late a one-off that lies behind may be
    and is no misfire. ``fires_after``: up to this fire time everything is decided, whenever it is due. ``target``: of a
    rollback, the version that it names. ``in_gaps``: what the job still owes in gaps, all of it before the command's
    stamp. Raises RequestError (refused: nothing changes), Busy.
    """
    before = versions[0] if versions else None
    stamp_at = stamp_of(command, place.appended_at, before)
    standing = before if before and before.status is not JobStatus.DELETED else None
    expect_revision(command, before, standing)
    if standing is None and command.kind is not CommandKind.CREATE:
        raise NotFound(f"there is no job {command.job_id}", pointer="/job_id", hint="`waterclock job list` shows them")
    if command.kind in (CommandKind.TRIGGER, CommandKind.LAPSE):
        assert standing is not None
        made = _at_once(command, place, stamp_at, standing)
        return made._replace(is_paused=_is_paused(versions, place.appended_at))
    if command.kind is CommandKind.ROLLBACK:
        command = _brought_back(command, place, target, standing)
    after = _changed(command, place, stamp_at, before, standing)
    if after is None:
        assert standing is not None
        return Applied(_row(standing, place), stamp_at)
    overtaken = cursor is not None and is_overtaken(after, edge_at, cursor, edges)
    edges = with_edge(edges, after, edge_at, versions, overtaken=overtaken)
    check_floor(after, versions, edges)
    closed = _close(after, versions, edge_at, paused_from, place, fires_after, edges, in_gaps)
    if edges and closed.decided_at is None:
        closed = closed._replace(decided_at=edge_at)  # so that the edges are kept; the cursor says no less
    closed = closed._replace(floor_at=begins_after(after, versions, edges), edges=edges)
    if after.status is not JobStatus.ACTIVE:
        return closed
    ended, runs = decide_behind(after, versions, edge_at, edges, grace_us)
    return closed._replace(skipped=(*closed.skipped, *ended), behind=runs)


def _at_once(command: Command, place: Place, stamp_at: Instant, standing: JobVersion) -> Applied:
    """What makes no version: the run of a trigger, or what an end and a lapse do to a window (``starts.py``)."""
    check_payload(command.payload or b"")
    # Not the stamp, which the end of a pause may have pushed ahead: a run must not be made before its fire time.
    made = Applied(_row(standing, place), stamp_at, run_at=place.appended_at, series=place.revision)
    if command.kind is CommandKind.LAPSE:
        check_lapse(command, place.appended_at)
        return made
    cause = cause_of(command)
    arrival = arrival_of(command, cause, standing.spec, place.revision, place.appended_at)
    return made._replace(cause=cause, arrival=arrival)


def _is_paused(versions: Sequence[JobVersion], at: Instant) -> bool:
    """Whether the job is paused ``at`` an instant: also where the resume at the end of its pause is applied already,
    and that is still to come."""
    if versions[0].status is JobStatus.PAUSED:
        return True
    newer, older = next((pair for pair in pairwise(versions) if pair[1].stamp_at <= at), (None, None))
    if newer is None or older is None or older.status is not JobStatus.PAUSED or older.pause is None:
        return False
    return at <= newer.stamp_at == older.pause.resume_at - 1


def expect_revision(command: Command, before: JobVersion | None, standing: JobVersion | None) -> None:
    """Refuse what was asked for on the condition of another revision."""
    expected = command.expected_revision
    if expected == MUST_BE_NEW:
        if standing is not None and command.spec != standing.spec:
            raise Conflict(
                f"{command.job_id} exists, and is another job",
                pointer="/expected_revision",
                hint="Change it on the condition of its revision, or choose another name",
            )
    elif expected and (before is None or before.revision != expected):
        stands = before.revision if before else 0
        raise Conflict(
            f"{command.job_id} stands at revision {stands}, not {expected}",
            pointer="/expected_revision",
            hint="Read the job again and repeat the change on what stands now",
        )


def _changed(
    command: Command, place: Place, stamp_at: Instant, before: JobVersion | None, standing: JobVersion | None
) -> JobVersion | None:
    """The new version; None where the command changes nothing."""
    if command.kind in (CommandKind.CREATE, CommandKind.UPDATE, CommandKind.ROLLBACK):
        return _redefined(command, place, stamp_at, before, standing)
    assert standing is not None
    if command.kind is CommandKind.CALENDAR:
        return _with_calendars(command, place, stamp_at, standing)
    wanted = {
        CommandKind.PAUSE: JobStatus.PAUSED,
        CommandKind.RESUME: JobStatus.ACTIVE,
        CommandKind.DELETE: JobStatus.DELETED,
        CommandKind.END: JobStatus.ENDED,
    }.get(command.kind)
    if wanted is None:
        raise RequestError(f"a command {command.kind} is unknown here", pointer="/kind", hint="Upgrade the dispatcher")
    check_end(command, standing)
    pause = pause_of(command, stamp_at, NOTE_MAX) if wanted is JobStatus.PAUSED else None
    if wanted is standing.status and is_same_pause(pause, standing.pause):
        return None
    if wanted is JobStatus.ACTIVE:
        check_compiles(standing)
    return standing._replace(
        revision=place.revision,
        status=wanted,
        stamp_at=stamp_at,
        pause=pause,
        **_told(command),
    )


class _Told(TypedDict):
    """What a version keeps of who made it."""

    actor: str
    action: str
    note: str
    from_revision: int


def _told(command: Command) -> _Told:
    return _Told(
        actor=command.actor,
        action=command.kind.value.lower(),
        note=command.note[:NOTE_MAX],
        from_revision=command.to_revision if command.kind is CommandKind.ROLLBACK else 0,
    )


def _with_calendars(command: Command, place: Place, stamp_at: Instant, standing: JobVersion) -> JobVersion | None:
    """The job with newer versions of calendars that it uses; an interval keeps its anchor, a pause goes on."""
    timing = with_newer(standing.spec.timing, command.calendars)
    if timing is standing.spec.timing:
        return None
    if standing.status is JobStatus.ACTIVE:
        check_compiles(standing)
    check_timing(timing, standing.spec.schedule)
    spec = replace(standing.spec, timing=timing)
    return standing._replace(revision=place.revision, spec=spec, stamp_at=stamp_at, **_told(command))


def _brought_back(command: Command, place: Place, target: JobVersion | None, standing: JobVersion | None) -> Command:
    """A rollback as a change to the spec that it names. Versions are immutable: a replay brings back the same.

    But never an older version of a calendar that the job uses now: calendars have a history of their own.
    """
    if target is None or target.revision >= place.revision:
        raise RequestError(
            f"{command.job_id} has no version {command.to_revision}",
            pointer="/to_revision",
            hint="`waterclock job history` lists those there are",
        )
    timing = with_newer(target.spec.timing, standing.spec.timing.calendars if standing else ())
    return command._replace(spec=replace(target.spec, timing=timing))


def _redefined(
    command: Command, place: Place, stamp_at: Instant, before: JobVersion | None, standing: JobVersion | None
) -> JobVersion | None:
    spec = command.spec
    if spec is None:
        raise RequestError(f"{command.kind} carries no spec", pointer="/spec", hint="Send the whole job")
    check_spec(spec, command.job_id)
    if standing is not None and spec == standing.spec:
        return None  # defining a job twice is one job: an interval keeps its anchor
    _refuse_past(spec, stamp_at, before)
    if spec.on is not None:
        spec = replace(spec, on=spec.on.standing_since(stamp_at, standing.spec.on if standing else None))
    return JobVersion(
        job_id=command.job_id,
        revision=place.revision,
        spec=spec,
        # An edit goes on where the job had come to its end; whoever owns it ends it again if it has to.
        status=JobStatus.PAUSED if standing and standing.status is JobStatus.PAUSED else JobStatus.ACTIVE,
        stamp_at=stamp_at,
        anchor_at=_anchor(spec, stamp_at, standing),
        spec_revision=place.revision,
        created_at=standing.created_at if standing else stamp_at,
        pause=standing.pause if standing else None,
        **_told(command),
    )


def _anchor(spec: JobSpec, stamp_at: Instant, standing: JobVersion | None) -> Instant:
    """An edit of anything else leaves an interval where it is: else a job edited more often than that never fires."""
    if not isinstance(spec.schedule, Every):
        return 0
    if standing is not None and standing.spec.schedule == spec.schedule:
        return standing.anchor_at
    return stamp_at if spec.schedule.start_at is None else spec.schedule.start_at


def _refuse_past(spec: JobSpec, stamp_at: Instant, before: JobVersion | None) -> None:
    """Only a job's first version may name an instant that is over: what an older one decided there is not re-opened.

    A later version may keep the instant of the one before; not one that a delete has ended, for it would never fire.
    """
    if before is None or not isinstance(spec.schedule, Once) or spec.schedule.at > stamp_at:
        return
    if before.status is JobStatus.DELETED:
        raise RequestError(
            "a job that was deleted cannot be made again for an instant that is over",
            pointer="/spec/schedule/at",
            hint="Give an instant in the future, or another name",
        )
    if before.spec.schedule != spec.schedule:
        raise RequestError(
            "a job that existed before cannot be moved to an instant that is over",
            pointer="/spec/schedule/at",
            hint="Give an instant in the future, or trigger the job",
        )


def _close(
    after: JobVersion,
    versions: Sequence[JobVersion],
    edge_at: Instant,
    paused_from: Instant,
    place: Place,
    fires_after: Instant,
    edges: Edges,
    in_gaps: Sequence[Stretch],
) -> Applied:
    """End what older versions still owed where the new one says so, and find what the new one owes at once."""
    stamp_at, before = after.stamp_at, versions[0] if versions else None
    skipped: list[tuple[SkipRange, str]] = []
    decided_at: Instant | None = None
    if before is not None and before.status is JobStatus.PAUSED:
        skipped += [(rest, PAUSED) for rest in _of_pause(after, versions, edge_at, paused_from, edges)]
        decided_at = max(edge_at, stamp_at)
    elif after.status is not JobStatus.ACTIVE:
        reason = REASONS[after.status]
        rest_owed = stretches(versions, edge_at, fires_after=fires_after, fires_until=stamp_at, edges=edges)
        owed = [*in_gaps, *rest_owed]
        skipped += [(rest, reason) for stretch in owed if (rest := skip_all(stretch))]
        decided_at = max(edge_at, stamp_at)
    has_jitter = any(version.spec.timing.jitter_us for version in versions)
    return Applied(
        row=_row(after, place),
        stamp_at=stamp_at,
        version=after,
        skipped=tuple(skipped),
        decided_at=decided_at,
        # What was to fire later than by its fire time is decided as well: no edge says that of it.
        fires_to_at=stamp_at if decided_at is not None and has_jitter else 0,
    )


def _of_pause(
    after: JobVersion, versions: Sequence[JobVersion], edge_at: Instant, paused_from: Instant, edges: Edges
) -> list[SkipRange]:
    """What the pause covers that ``after`` ends, or that goes on under it."""
    before = versions[0]
    began_at = begins_after(before, versions[1:], edges)
    if not isinstance(before.spec.schedule, Once):
        began_at = max(began_at, fire_edge(before, paused_from))
    rest = skip_all(Stretch(before, began_at, pause_until(before, after.stamp_at, edge_at)))
    held = [SkipRange(before, at, at, 1) for at in moved_up(after, versions, edge_at, edges)]
    return [rest, *held] if rest else held


def _row(version: JobVersion, place: Place) -> JobRow:
    """The job as it stands. All with the stamp of its version, also after a command that made none.

    Reason: a batch of commands has one append time, so a trigger's own stamp could equal that of the version which
    comes next, and the two rows would be mixed cell by cell. So equal cells meet equal ones, and of the commands'
    offsets the greater one wins.
    """
    return JobRow(
        job_id=version.job_id,
        spec=version.spec,
        status=version.status,
        revision=version.revision,
        anchor_at=version.anchor_at,
        spec_revision=version.spec_revision,
        created_at=version.created_at,
        updated_at=version.stamp_at,
        src_partition=place.partition,
        src_offset=place.offset,
        wts=version.stamp_at,
        pause=version.pause,
    )
