"""What saving a job asks of others: the least loaded second of its window, and calendars that changed meanwhile."""

from __future__ import annotations

from waterclock.model.job import CommandKind, JobSpec, JobStatus
from waterclock.model.placement import Placed, placed, wants_placement, with_kept_place
from waterclock.store.calendar_use import newer_than

from .keyring import Caller
from .orders import Order, command_of, give_all
from .services import Services

_WAIT_S = 5.0
"""For others who have a second picked: one reads the lists for all."""


async def with_place(services: Services, job_id: str, spec: JobSpec) -> tuple[JobSpec, Placed | None]:
    """The job with the second that is picked for it, where one is to be. Raises BackendDown, Problem."""
    if not wants_placement(spec):
        return spec, None
    row = await services.call(services.store.job, job_id)
    if row is not None and row.status is not JobStatus.DELETED:
        spec = with_kept_place(spec, row.spec)
        if not wants_placement(spec):
            return spec, None
    async with services.picking.turn(_WAIT_S, waits_for="others are having a second picked"):
        now = services.clock.now()
        found = await services.call(services.placing.pick, services.store, job_id, spec, now)
    return (spec, None) if found is None else (placed(spec, found), found)


async def follow_calendars(
    services: Services, caller: Caller, job_id: str, spec: JobSpec | None, *, is_repeat: bool
) -> None:
    """Bring a job that was just saved the calendars that changed since they were looked up.

    Its command stands in the log by now, so this one comes behind it; and whoever puts a calendar later finds the job.
    Of a repeat it is the spec that stands: that of the first time, whose process may have died before it came here.
    """
    if spec is not None and is_repeat:
        row = await services.call(services.store.job, job_id)
        spec = row.spec if row is not None and row.status is not JobStatus.DELETED else None
    if spec is None or not spec.timing.calendars:
        return
    newer = await services.call(newer_than, services.store, job_id, spec)
    if newer:
        order = Order(CommandKind.CALENDAR, job_id, calendars=newer, note="its calendars changed as it was saved")
        await give_all(services, [command_of(services, caller, order)])
