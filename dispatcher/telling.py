"""What a decision about owed fires puts out: its runs, as far as others of their job let them, then its skips."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from waterclock.model.ids import Instant, make_run_id
from waterclock.model.timetable import due_of

from .admitting import admit_fire
from .emit import Emitter
from .holding import beside_held
from .misfire import COALESCED, Decision, Fire, SkipRange
from .shard import Shard

PlaceOfRun: TypeAlias = Callable[[Fire], Instant | None]
PlaceOfSkip: TypeAlias = Callable[[SkipRange], Instant]


def tell(
    shard: Shard,
    out: Emitter,
    job_id: str,
    decision: Decision,
    now: Instant,
    *,
    place_of_run: PlaceOfRun,
    place_of_skip: PlaceOfSkip,
    gap_to_at: Instant = 0,
) -> None:
    """Put out one decision of a job. The places are due positions that are passed with a record; None and 0: none.

    By these a lost cursor is built anew, so a place beyond what is decided would lose fires.
    """
    for fire in decision.runs:
        version, fire_at = fire
        due_at, in_order = due_of(version, fire_at), place_of_run(fire) is not None
        if version.spec.is_admitted:
            admit_fire(
                shard, out, version, fire_at=fire_at, due_at=due_at, now=now, in_order=in_order, gap_to_at=gap_to_at
            )
        else:
            out.run(version, fire_at=fire_at, due_at=due_at, now=now, in_order=in_order, gap_to_at=gap_to_at)
    newest = decision.newest
    instead = make_run_id(job_id, newest.fire_at) if newest else ""
    for whole, reason in decision.skipped:
        named = instead if reason == COALESCED else ""
        for skipped in beside_held(shard, whole):
            out.skip(skipped, reason, now=now, due_at=place_of_skip(skipped), instead=named, gap_to_at=gap_to_at)
