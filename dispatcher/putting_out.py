"""What commands put out at once: runs of triggers and redrives, fires that lie behind, cancels, deferred attempts.

Jobs with an overlap policy or a limit have their runs admitted first; what became of one is for the answer.
"""

from __future__ import annotations

from waterclock.model.ids import Instant, minute_of
from waterclock.model.job import Command, CommandKind, JobVersion

from . import commands
from .admission import Admission
from .admitting import admit_fire, admit_redrive, admit_trigger
from .behind import due_apart
from .emit import Emitter
from .releasing import withdraw
from .run_orders import Order
from .shard import Shard


def put_out(shard: Shard, out: Emitter, command: Command, order: Order, now: Instant) -> Admission | None:
    """Into the round; a deferred attempt into the window where its minute is loaded, for nobody reads that again.

    A redrive goes by its job's limits; answers what became of it where there are any.
    """
    if order.redriven is not None:
        admission = admit_redrive(shard, out, order.redriven, order.about, order.messages, now)
        if admission is not None:
            return admission
    elif command.kind is CommandKind.CANCEL:
        withdraw(shard, out, order.about)
    out.ahead += order.ahead
    out.hand_out(*order.messages)
    deferred = order.deferred
    if deferred is not None and shard.is_loaded(deferred.job_id, minute_of(deferred.due_at)):
        shard.timeline.add_deferred(deferred)
    return None


def run_at_once(
    shard: Shard, out: Emitter, fired: JobVersion, applied: commands.Applied, payload: bytes | None, now: Instant
) -> Admission | None:
    """The run of a trigger; what became of it, where there were limits."""
    at, series, cause = applied.run_at, applied.series, applied.cause
    assert at is not None
    if fired.spec.is_admitted:
        return admit_trigger(shard, out, fired, fire_at=at, series=series, payload=payload, cause=cause, now=now)
    out.trigger(fired, at, series, payload, now, cause)
    return None


def run_behind(shard: Shard, out: Emitter, fired: JobVersion, fire_at: Instant, now: Instant) -> None:
    """The run of a fire that its command found behind."""
    due_at = due_apart(fired, fire_at)
    if fired.spec.is_admitted:
        admit_fire(shard, out, fired, fire_at=fire_at, due_at=due_at, now=now, in_order=False)
    else:
        out.run(fired, fire_at=fire_at, due_at=due_at, now=now, in_order=False)
