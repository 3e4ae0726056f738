"""How an order of the plan becomes a command: people append it, and never wait for what it comes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

from tests.oracle.records import decode
from waterclock.log.memory import MemoryLog
from waterclock.model.ids import US_PER_S, Instant, job_of_run
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.model.timing import PLAIN, Timing
from waterclock.wire.codec import decode_work
from waterclock.wire.messages import command_message, work_message
from waterclock.wire.names import Names

from .backfill_people import asked_range
from .onlooker import FRESH, Onlooker
from .people import Order

_TURNS = (CommandKind.PAUSE_BACKFILL, CommandKind.RESUME_BACKFILL, CommandKind.CANCEL_BACKFILL)
_MONTH_US = 30 * 86_400 * US_PER_S

_PUT_AWAY = 1
"""``pick`` modulo 5 of a letter that is discarded, and not redriven."""


class Asking:
    """People, in front of one cluster."""

    def __init__(self, log: MemoryLog, names: Names, onlooker: Onlooker) -> None:
        self._log = log
        self._names = names
        self._onlooker = onlooker

    def give(self, order: Order, now: Instant) -> str:
        """Append the order's command; answers what people would say that they did."""
        command = self._command(order, now)
        if command is None:
            return f"{order.command_id} {order.kind}: there is nothing to ask it for"
        appender = self._log.appender()
        ticket = appender.append(command_message(self._names, command))
        appender.close()
        spec = command.spec
        what = "" if spec is None else f" {spec.schedule} {spec.tier.word} {spec.handler} {spec.pool} {spec.policy}"
        what += f" until {command.resume_at}" if command.resume_at else ""
        what += f" to {command.to_revision}" if command.to_revision else ""
        what += f" from {command.from_at} to {command.to_at}" if command.from_at else ""
        what += f" {command.backfill_id}" if command.backfill_id else ""
        uses = command.calendars or (spec.timing.calendars if spec else ())
        what += "".join(f" {use.name}@{use.version}" for use in uses)
        named = f"{order.command_id}({order.key}) {order.kind} {command.run_id or command.job_id}{what}"
        return f"{named} -> {ticket.partition}/{ticket.offset}"

    def would_wait(self, order: Order) -> bool:
        """Whether this cancel is for a run that was not claimed yet, and there is none in sight."""
        return order.kind is CommandKind.CANCEL and order.pick % 4 == FRESH and not self._onlooker.waiting()

    def pause_all(self, job_ids: Iterable[str], now: Instant, *, again: bool = False) -> None:
        """No more fires come: every job is paused. ``again``: also what a slow door let in after the first time."""
        appender = self._log.appender()
        for job_id in job_ids:
            name = f"last {job_id}" + (" again" if again else "")
            command = Command(CommandKind.PAUSE, job_id, name, "people", now)
            appender.append(command_message(self._names, command))
        appender.close()

    def resume_dag_runs(self, now: Instant) -> None:
        """Whatever DagRun is still paused goes on."""
        appender = self._log.appender()
        for run_id in self._onlooker.paused():
            name = f"last {run_id}"
            command = Command(CommandKind.RESUME_RUN, job_of_run(run_id), name, "people", now, run_id=run_id)
            appender.append(command_message(self._names, command))
        appender.close()

    def resume_quietly(self, specs: Mapping[str, JobSpec], now: Instant) -> None:
        """These jobs go on, and have no fire for a month."""
        appender = self._log.appender()
        for job_id, spec in specs.items():
            quiet = replace(spec, schedule=Every(_MONTH_US), timing=PLAIN)
            for kind, its in ((CommandKind.UPDATE, quiet), (CommandKind.RESUME, None)):
                command = Command(kind, job_id, f"quiet {kind} {job_id}", "people", now, spec=its)
                appender.append(command_message(self._names, command))
        appender.close()

    def quiet(self, specs: Mapping[str, JobSpec], now: Instant, *, again: bool) -> None:
        """These jobs have no fire for a month, and are otherwise what they are: what they have counted still counts."""
        appender = self._log.appender()
        for job_id, spec in specs.items():
            timing = spec.timing
            counted = Timing(pause_after_failures=timing.pause_after_failures, max_runs=timing.max_runs)
            still = replace(spec, schedule=Every(_MONTH_US), timing=counted, payload=b"again" if again else b"")
            command = Command(CommandKind.UPDATE, job_id, f"still {again} {job_id}", "people", now, spec=still)
            appender.append(command_message(self._names, command))
        appender.close()

    def trigger(self, job_ids: Iterable[str], count: int, now: Instant, why: str = "more") -> None:
        """So many runs, now, of these jobs in turn."""
        appender = self._log.appender()
        for number, job_id in zip(range(count), cycle(job_ids), strict=False):
            command = Command(CommandKind.TRIGGER, job_id, f"{why} {number}", "people", now)
            appender.append(command_message(self._names, command))
        appender.close()

    def probe(self, payloads: Mapping[str, Sequence[str]], now: Instant) -> None:
        """A run, now, for each of these payloads of each job; "": its own."""
        appender = self._log.appender()
        asked = [(job_id, payload) for job_id, those in payloads.items() for payload in those]
        for number, (job_id, payload) in enumerate(asked):
            command = Command(CommandKind.TRIGGER, job_id, f"probe {number}", "people", now)
            appender.append(command_message(self._names, command._replace(payload=payload.encode() or None)))
        appender.close()

    def cancel(self, run_ids: Iterable[str], now: Instant) -> None:
        """These are not wanted any more."""
        appender = self._log.appender()
        for run_id in run_ids:
            command = Command(CommandKind.CANCEL, job_of_run(run_id), f"last {run_id}", "people", now, run_id=run_id)
            appender.append(command_message(self._names, command))
        appender.close()

    def _command(self, order: Order, now: Instant) -> Command | None:
        if order.kind is CommandKind.CANCEL:
            look = self._onlooker
            run_id = look.open_dag_run_at(order.pick, job_id=order.job_id) if order.job_id else look.run_at(order.pick)
            return self._of_run(order, run_id, now) if run_id else None
        if order.kind is CommandKind.REDRIVE:
            return self._redrive(order, now)
        if order.kind is CommandKind.RERUN:
            return self._rerun(order, now)
        if order.kind in (CommandKind.PAUSE_RUN, CommandKind.RESUME_RUN):
            run_id = self._onlooker.open_dag_run_at(order.pick, is_paused=order.kind is CommandKind.RESUME_RUN)
            return self._of_run(order, run_id, now) if run_id else None
        if order.kind in _TURNS:
            return self._turn(order, now)
        to_revision = 0
        if order.kind is CommandKind.ROLLBACK:
            to_revision = self._onlooker.revision_at(order.job_id, order.pick)
        return Command(
            order.kind,
            order.job_id,
            order.command_id,
            "people",
            now,
            spec=order.spec,
            idempotency_key=order.key,
            answer=order.wants_answer,
            note=f"as {order.command_id} says" if order.resume_at else "",
            resume_at=order.resume_at,
            to_revision=to_revision,
            payload=order.payload.encode() if order.payload and order.kind is CommandKind.TRIGGER else None,
            calendars=order.calendars,
            **_of_the_past(order, now),
        )

    def _turn(self, order: Order, now: Instant) -> Command | None:
        """What becomes of a backfill."""
        named = self._onlooker.backfill_at(order.pick)
        if not named:
            return None
        job_id = named.rpartition("~")[0]
        note = "as they say"
        return Command(order.kind, job_id, order.command_id, "people", now, answer=True, note=note, backfill_id=named)

    def _of_run(self, order: Order, run_id: str, now: Instant) -> Command:
        return Command(order.kind, job_of_run(run_id), order.command_id, "people", now, run_id=run_id)

    def _rerun(self, order: Order, now: Instant) -> Command | None:
        """A DagRun that has ended once more: whole, from some of its nodes, or what has failed of it."""
        dag_run = self._onlooker.dag_run_at(order.pick)
        if dag_run is None:
            return None
        run_id, revision, nodes, failed = dag_run
        begin = [(), tuple(nodes[order.pick % len(nodes) :][:2]) if nodes else (), tuple(failed)][order.pick % 3]
        command = self._of_run(order, run_id, now)
        payload = order.payload.encode() if order.payload else None
        return command._replace(to_revision=revision, rerun_from=begin, payload=payload)

    def _redrive(self, order: Order, now: Instant) -> Command | None:
        """A dead letter's work once more, now and then with another payload; or the letter is put away."""
        record = self._onlooker.letter_at(order.pick)
        letter = None if record is None else decode(record.value)[1]
        if letter is None:
            return None
        if letter["work"] is None or order.pick % 5 == _PUT_AWAY:
            return self._of_run(order, letter["run_id"], now)._replace(kind=CommandKind.DISCARD, note="is no loss")
        value = letter["work"]["value"]
        if order.pick % 3 == 0:
            edited = decode_work(value)._replace(payload=b'"edited"')
            value = work_message(self._names, edited).value
        return self._of_run(order, letter["run_id"], now)._replace(work=value)


def _of_the_past(order: Order, now: Instant) -> dict[str, Any]:
    """The range of a backfill, and how it is to be run."""
    if order.kind is not CommandKind.BACKFILL:
        return {}
    from_at, to_at = asked_range(order, now)
    tier = Tier[order.tier] if order.tier else None
    return {"from_at": from_at, "to_at": to_at, "concurrency": order.concurrency, "tier": tier}
