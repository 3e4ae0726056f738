"""What the product's ledger says of one job of a dispatcher's world."""

from __future__ import annotations

from tests.unit.dispatcher_world import NAMES, World
from waterclock.ledger.balance import judge_job
from waterclock.ledger.facts import Facts, JobFacts
from waterclock.ledger.sums import Span, Sums
from waterclock.model.ids import ordinal
from waterclock.store.memory import MemoryStore
from waterclock.wire import codec


def ledger_of(world: World, job_id: str) -> Sums:
    until = world.clock.now()
    span = Span(0, until, until, until)
    facts = Facts(0, until)
    for record in world.records(NAMES.run_events):
        event = codec.decode_event(record.value)  # type: ignore[attr-defined]
        facts.take(event, record.timestamp_us, ordinal(1, record.offset))  # type: ignore[attr-defined]
    versions = MemoryStore(world.clock, world.tables, "ledger").versions([job_id]).get(job_id, [])
    sums = Sums(10)
    judge_job(job_id, versions[::-1], facts.jobs.get(job_id, JobFacts()), span, sums)
    return sums
