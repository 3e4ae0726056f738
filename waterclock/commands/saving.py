"""A job that is about to be saved at the terminal: with its calendars as they stand, and the second that it gets."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.clock import SystemClock
from waterclock.log.port import Log
from waterclock.model.calendar_document import names_in
from waterclock.model.document import spec_from_document
from waterclock.model.ids import tenant_of_job
from waterclock.model.job import CommandKind, JobSpec, JobStatus
from waterclock.model.placement import placed, wants_placement, with_kept_place
from waterclock.settings import Settings
from waterclock.store.calendar_use import calendars_for, newer_than, standing
from waterclock.store.placing import Placing
from waterclock.store.port import Store

from .connect import open_store
from .ordering import command_for, order
from .output import say


def asks_cassandra(document: Mapping[str, object]) -> bool:
    """Whether ``spec_here`` may ask a server about this document, also in a dry run. Raises RequestError."""
    jitter = document.get("jitter")
    return bool(names_in(document)) or (isinstance(jitter, Mapping) and jitter.get("placement") == "balanced")


def spec_here(settings: Settings, document: Mapping[str, object], job_id: str, *, dry_run: bool) -> JobSpec:
    """What a document describes. Cassandra is asked only where it names calendars or wants to be placed
    (``asks_cassandra``).
    """
    names = names_in(document)
    if not names:
        spec = spec_from_document(document, job_id=job_id)
        if not wants_placement(spec):
            return spec
    clock = SystemClock()
    with open_store(settings) as store:
        tenant = tenant_of_job(job_id)
        found = standing(store, tenant, names) if dry_run else calendars_for(store, job_id, document, clock.now())
        spec = spec_from_document(document, job_id=job_id, calendars=found)
        row = store.job(job_id) if wants_placement(spec) else None
        if row is not None and row.status is not JobStatus.DELETED:
            spec = with_kept_place(spec, row.spec)
        if not wants_placement(spec):
            return spec
        picked = Placing(clock, [settings.tenant, *settings.intake.tenants.values()]).pick(
            store, job_id, spec, clock.now()
        )
    if picked is None:
        return spec
    say(f"placed: {picked.words}{'' if picked.is_whole else f' (of {picked.job_count} jobs that were counted)'}")
    return placed(spec, picked)


def follow_calendars(settings: Settings, log: Log, store: Store, job_id: str, spec: JobSpec) -> None:
    """Bring a job that was just saved the calendars that changed since they were looked up."""
    newer = newer_than(store, job_id, spec) if spec.timing.calendars else ()
    if newer:
        order(settings, log, store, command_for(CommandKind.CALENDAR, job_id)._replace(calendars=newer))
