"""A command about a backfill, decided within its batch: brings together what ``backfill_orders.py`` decides by."""

from __future__ import annotations

from dataclasses import replace

from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind
from waterclock.wire.pools import Pools

from . import backfill_orders
from .backfill_orders import Turned
from .backfills import begin, turn
from .commands import Place
from .emit import Emitter
from .known import Known
from .pool_check import check_pool
from .shard import Shard


def ask(shard: Shard, known: Known, pools: Pools, command: Command, place: Place) -> Turned:
    """What becomes of it; the batch knows of it from here on. Raises RequestError (refused), BackendDown."""
    job_id = command.job_id
    is_new = command.kind is CommandKind.BACKFILL
    versions = known.versions(job_id, shard.cursor.due_at) if is_new else []
    target = known.version(job_id, command.to_revision) if is_new and command.to_revision else None
    turned = backfill_orders.decide(command, place, versions, target, known.backfills)
    if is_new:
        check_pool(pools, replace((target or versions[0]).spec, tier=turned.told.tier))
    return turned


def carry_out(shard: Shard, out: Emitter, job_id: str, turned: Turned, now: Instant) -> None:
    """Make memory and the round say what was decided."""
    if turned.is_new:
        begin(shard, out, job_id, turned.told, now)
        return
    backfill = shard.backfills.get(job_id, turned.told.number)
    if turned.is_changed and backfill is not None:  # else an earlier command of the batch has ended it
        turn(shard, out, backfill, turned.told.status, now, turned.told.reason)
