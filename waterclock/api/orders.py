"""From a request to a command, and from the dispatcher's answer to what the client is told.

The API decides nothing about a job: it appends a command, keyed by the job, and waits a moment for ANSWERED on
run-events. What must hold: 2xx means that the command is in the log with acks=all; what was not answered in time
becomes an operation, which says so and can be asked later. How it fails: no acknowledgement is a 503 that promises
nothing (with an Idempotency-Key the repeat is safe).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from waterclock.model.errors import BackendDown
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind, JobSpec, Tier
from waterclock.model.timing import CalendarUse
from waterclock.store.request_port import Operation
from waterclock.wire.messages import command_message

from .keyring import Caller
from .problems import Problem, busy
from .repeats import RepeatKey
from .services import Services

_ACKNOWLEDGED_WITHIN_S = 5.0
_NO_KEY = RepeatKey()


class Order(NamedTuple):
    """A command in the making: what a route wants of a job, or of one run. ``repeat_key``: its Idempotency-Key."""

    kind: CommandKind
    job_id: str
    expected_revision: int = 0
    spec: JobSpec | None = None
    payload: bytes | None = None
    repeat_key: RepeatKey = _NO_KEY
    run_id: str = ""
    note: str = ""
    resume_at: Instant = 0
    to_revision: int = 0
    calendars: tuple[CalendarUse, ...] = ()
    rerun_from: tuple[str, ...] = ()
    from_at: Instant = 0
    to_at: Instant = 0
    concurrency: int = 0
    tier: Tier | None = None
    backfill_id: str = ""


async def give_all(services: Services, commands: Sequence[Command]) -> list[Answered | None]:
    """Send commands together, and wait for their answers: None where none came in time. Raises BackendDown.

    What was not answered stands in the log all the same, and will be obeyed. Raises Problem where there is no room for
    all of them: then none was sent.
    """
    now = services.clock.now()
    expected = [services.answers.expect(command.job_id, command.command_id, now) for command in commands]
    try:
        await _append(services, commands)
        await asyncio.wait(expected, timeout=services.settings.api.wait_s)
    finally:
        for command in commands:
            services.answers.forget(command.job_id, command.command_id)
    answers = [each.result() if each.done() else None for each in expected]
    for answer in answers:
        services.measures.commands.labels(answer.verdict if answer else "awaited").inc()
    return answers


class Obeyed(NamedTuple):
    """What became of it: ``answer`` in time, or else the operation that can be asked."""

    answer: Answered | None
    operation: Operation


async def give(services: Services, caller: Caller, order: Order, *, wait: bool) -> Obeyed:
    """Send the command; with ``wait`` wait for its answer. Raises Problem, BackendDown."""
    command = command_of(services, caller, order)
    expected = services.answers.expect(command.job_id, command.command_id, command.at)
    try:
        await _append(services, [command])
        answer = await _answer(services, expected) if wait else None
    finally:
        services.answers.forget(command.job_id, command.command_id)
    services.measures.commands.labels(answer.verdict if answer else "awaited").inc()
    operation = Operation(caller.tenant, command.command_id, order.job_id, order.kind.value, command.at)
    if answer is None:
        await services.call(services.store.keep_operation, operation)
    return Obeyed(answer, operation)


def refuse(answer: Answered, kind: CommandKind) -> NoReturn:
    """Raise what the dispatcher refused a command with."""
    pointer = answer.pointer if answer.pointer not in ("/job_id", "/expected_revision") else None
    slug = {"not-found": "not-found", "key-reused": "key-reused", "busy": "busy"}.get(answer.problem, "invalid")
    hint, headers = answer.hint, {}
    if answer.problem == "conflict":
        pointer = None
        slug = "exists" if kind is CommandKind.CREATE else "stale"
    if slug == "exists":
        hint = "Another job has this name: change it with PATCH and If-Match, or choose another name"
    if slug in ("exists", "stale") and answer.revision:
        headers["ETag"] = etag(answer.revision)
    if slug == "busy":
        raise busy(answer.message)
    if slug == "not-found":
        hint = "GET /api/v1/jobs lists those there are"
    raise Problem(slug, answer.message, pointer=pointer, hint=hint, headers=headers)


def etag(revision: int) -> str:
    """A revision as an entity tag."""
    return f'"{revision}"'


def is_refused(answer: Answered) -> bool:
    """Whether nothing was done."""
    return answer.verdict == CommandVerdict.REFUSED


def command_of(services: Services, caller: Caller, order: Order) -> Command:
    """The command of an order, which wants an answer."""
    return Command(
        kind=order.kind,
        job_id=order.job_id,
        command_id=services.next_command_id(),
        actor=caller.actor,
        at=services.clock.now(),
        expected_revision=order.expected_revision,
        spec=order.spec,
        payload=order.payload,
        idempotency_key=order.repeat_key.text,
        answer=True,
        run_id=order.run_id,
        note=order.note,
        resume_at=order.resume_at,
        to_revision=order.to_revision,
        calendars=order.calendars,
        rerun_from=order.rerun_from,
        from_at=order.from_at,
        to_at=order.to_at,
        concurrency=order.concurrency,
        tier=order.tier,
        backfill_id=order.backfill_id,
        request_hash=order.repeat_key.request_hash,
    )


async def _append(services: Services, commands: Sequence[Command]) -> None:
    try:
        async with asyncio.timeout(_ACKNOWLEDGED_WITHIN_S):
            await services.follow()
            await asyncio.gather(
                *services.outbox.put_all([command_message(services.names, command) for command in commands])
            )
    except TimeoutError:
        raise BackendDown("kafka", f"no acknowledgement within {_ACKNOWLEDGED_WITHIN_S:g} s") from None


async def _answer(services: Services, expected: asyncio.Future[Answered]) -> Answered | None:
    began_s = services.clock.monotonic_s()
    try:
        async with asyncio.timeout(services.settings.api.wait_s):
            answer = await expected
    except TimeoutError:
        return None
    services.measures.answer_wait.observe(services.clock.monotonic_s() - began_s)
    return answer
