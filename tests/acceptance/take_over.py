"""A dispatcher behind an hour of 40,000 commands that revised jobs is ready within twice the time of one behind none.

The jobs are made on no condition, as job events make them: so each may be an older one's new version, of which ghosts
are about. Nothing of them is due soon. Ready: every shard is taken over and may fire.
"""

from __future__ import annotations

import os
import time
from statistics import median

from confluent_kafka import Producer

from tests.acceptance import dumps
from tests.acceptance.evidence import on_stage
from tests.acceptance.real_stack import RealStack, RoleProcess, wait_for
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.wire.messages import command_message

SHORT_FORM = False
TIMES_MAX = 2.0
_JOBS = 40_000
_RESTARTS = 7
_APPLIED_WITHIN_S = 300.0
_EVERY_US = 6 * 3_600 * US_PER_S


def main(*, short: bool) -> None:
    """The short form judges no figure."""
    jobs, restarts = (400, 1) if short else (_JOBS, _RESTARTS)
    with on_stage("take-over") as (stack, evidence):
        evidence.figure("cores", len(os.sched_getaffinity(0)))
        dispatcher = stack.role("dispatcher", "dispatcher-1")
        dispatcher.wait_ready()
        before = _restarts(dispatcher, restarts)
        evidence.figure("seconds from start to ready, behind no command", median(before), each=before)
        _send(stack, jobs)
        topic, group = stack.names.commands, stack.names.group("dispatcher")
        wait_for(
            lambda: dumps.unread(stack.bootstrap, group, [topic]) == 0, "all applied", _APPLIED_WITHIN_S, every_s=0.5
        )
        after = _restarts(dispatcher, restarts)
        evidence.figure(f"seconds from start to ready, behind {jobs} commands", median(after), each=after)
        times = median(after) / median(before)
        evidence.figure("times as long", round(times, 2))
        stored = len(dumps.rows(stack.cassandra.port, "SELECT job_id FROM jobs"))
        evidence.demand(stored == jobs, f"{stored} of {jobs} jobs stand in the table")
        if not short:
            evidence.demand(times <= TIMES_MAX, f"{times:.2f} times as long, wanted <= {TIMES_MAX:.0f}")


def _restarts(dispatcher: RoleProcess, count: int) -> list[float]:
    """Seconds from each start to ready, in order."""
    took: list[float] = []
    for _ in range(count):
        dispatcher.stop()
        began_s = time.monotonic()
        dispatcher.start().wait_ready()
        took.append(round(time.monotonic() - began_s, 2))
    return took


def _send(stack: RealStack, jobs: int) -> None:
    properties = {"partitioner": "murmur2_random", "enable.idempotence": True, "queue.buffering.max.messages": jobs}
    producer = Producer(dumps.client(stack.bootstrap) | properties)
    now = time.time_ns() // 1_000
    for number in range(jobs):
        job_id = f"acme:event-{number}"
        spec = JobSpec("demo.noop", Every(_EVERY_US, now + _EVERY_US + number * US_PER_S), Tier.LOW)
        message = command_message(stack.names, Command(CommandKind.CREATE, job_id, job_id, "check", now, spec=spec))
        producer.produce(message.topic, message.value, message.key, headers=list(message.headers))
        producer.poll(0)
    left = producer.flush(_APPLIED_WITHIN_S)
    if left:
        raise RuntimeError(f"{left} commands were not acknowledged")
