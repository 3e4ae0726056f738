"""Sends commands, and waits for what became of each: ANSWERED on run-events.

What must hold: the readers stand at the ends before anything is sent, so no answer is missed; a rate is kept. How it
fails: no answer within five seconds of the last command: it stands in the log and will be obeyed once a dispatcher owns
its shard; whoever asked is told how many those are. BackendDown comes only where nothing can have been sent: behind
that a repeat might do it twice, so what stands in the log, what may stand there and what was not sent is told instead.
"""

from __future__ import annotations

import getpass
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import typer

from waterclock.clock import SystemClock
from waterclock.dead_letters.acting import Asked, why_not
from waterclock.log.port import Appender, Isolation, Log, Reader, Ticket, TopicPartition
from waterclock.model.errors import (
    AccessRefused,
    BackendDown,
    Busy,
    Conflict,
    NotFound,
    RequestError,
    UndecodableRecord,
)
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.ids import partition_of
from waterclock.model.job import Command
from waterclock.settings import Settings
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import command_message
from waterclock.wire.names import Names

from .failing import CommandFailed, ExitCode
from .output import say

ANSWERED_WITHIN_S = 5.0
_SLICE = 100
_FLUSH_S = 10.0
_WAIT_S = 0.05
_POLL = 500
_REFUSED_SHOWN = 20
_SILENCE = (
    "No dispatcher may own that part of the jobs (`waterclock status`, `waterclock lag`), or one could not read it "
    "(`waterclock topics tail rejects`)."
)
_AWAY = "Wait until kafka answers (`waterclock status`)."
_AT_ONCE_PER_S = 1_000.0
_REFUSALS: dict[str, type[RequestError]] = {kind.problem: kind for kind in (NotFound, Conflict, Busy)}


class Unanswered(NamedTuple):
    """How many commands nothing was heard of: ``standing`` in the log; ``doubtful``, no broker acknowledged them, so
    they may stand there; ``unsent``, all behind the one about ``last_sent``. ``cause``: which backend broke it off and
    how, "" where no answer came in time."""

    standing: int = 0
    doubtful: int = 0
    unsent: int = 0
    last_sent: str = ""
    cause: str = ""

    @property
    def in_all(self) -> int:
        return self.standing + self.doubtful + self.unsent


class Passed(NamedTuple):
    """What became of the commands, by their ids, and where they stand in the log.

    One without an answer was not answered in time; without a ticket it was not sent. ``cause``: which backend went
    away meanwhile, and how.
    """

    answers: dict[str, Answered]
    tickets: Mapping[str, Ticket] = MappingProxyType({})
    cause: str = ""

    def tally(self, commands: Sequence[Command]) -> tuple[int, int, Unanswered]:
        """(done, refused, not answered). A run that was dropped at once was not made: its command counts as refused."""
        said = [self.answers.get(command.command_id) for command in commands]
        refused = sum(answer is not None and _is_for_nothing(answer) for answer in said)
        silent = self._unanswered(commands)
        return len(said) - refused - silent.in_all, refused, silent

    def _unanswered(self, commands: Sequence[Command]) -> Unanswered:
        silent = [self.tickets.get(each.command_id) for each in commands if each.command_id not in self.answers]
        sent = [ticket for ticket in silent if ticket is not None]
        standing = sum(ticket.offset is not None for ticket in sent)
        last = next((each.run_id or each.job_id for each in reversed(commands) if each.command_id in self.tickets), "")
        return Unanswered(standing, len(sent) - standing, len(silent) - len(sent), last, self.cause if silent else "")


def user_name() -> str:
    """Who sits at this terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def asked_here(note: str = "") -> Asked:
    """Asked by the person at this terminal."""
    return Asked(f"cli:{user_name()}", uuid.uuid4().hex, SystemClock().now(), note)


def pass_on(settings: Settings, log: Log, commands: Sequence[Command], rate_per_s: float) -> Passed:
    """Append ``commands``, at most so many a second, and gather their answers.

    Raises BackendDown where none of them can stand in the log; later trouble is ``Passed.cause``.
    """
    names = Names(settings.kafka.prefix)
    partitions = log.partitions(names.run_events)
    asked = sorted({partition_of(command.job_id, partitions) for command in commands})
    places = [TopicPartition(names.run_events, partition) for partition in asked]
    reader = log.reader(Isolation.COMMITTED)
    reader.assign({place: log.high_watermark(place) for place in places})
    appender = log.appender()
    wanted = {command.command_id for command in commands}
    answers: dict[str, Answered] = {}
    tickets: dict[str, Ticket] = {}
    began_s = time.monotonic()
    slice_size = max(1, min(_SLICE, round(rate_per_s / 4)))
    cause = ""
    try:
        for start in range(0, len(commands), slice_size):
            cause = _append(appender, names, commands[start : start + slice_size], tickets)
            if cause:
                break
            due_s = began_s + min(start + slice_size, len(commands)) / rate_per_s
            _gather(reader, wanted, answers, until_s=due_s if start + slice_size < len(commands) else 0.0)
        away = _gather(reader, wanted, answers, until_s=time.monotonic() + ANSWERED_WITHIN_S, whole=True)
    finally:
        appender.close()
        reader.close()
    return Passed(answers, tickets, cause or away)


def pass_one(settings: Settings, log: Log, command: Command) -> Answered:
    """Append one command and wait for what became of it. Raises what it was refused with, CommandFailed when nobody
    answers in time, BackendDown when it was not sent."""
    command = command._replace(answer=True)
    passed = pass_on(settings, log, [command], _AT_ONCE_PER_S)
    answer, ticket = passed.answers.get(command.command_id), passed.tickets[command.command_id]
    if answer is None:
        raise _not_answered(Names(settings.kafka.prefix).commands, ticket, passed.cause)
    if answer.verdict == CommandVerdict.REFUSED:
        kind = _REFUSALS.get(answer.problem, RequestError)
        raise kind(answer.message, pointer=answer.pointer, hint=answer.hint)
    return answer


def _append(appender: Appender, names: Names, commands: Sequence[Command], tickets: dict[str, Ticket]) -> str:
    """Append them and wait until they stand in the log: "", or why some may not. ``tickets`` gets those that were sent.

    Raises BackendDown where none can stand there: nothing was sent, or no broker let us in.
    """
    try:
        for command in commands:
            tickets[command.command_id] = appender.append(command_message(names, command))
        appender.flush(_FLUSH_S)
    except BackendDown as down:
        none_stands = all(ticket.offset is None for ticket in tickets.values())
        if not tickets or (none_stands and isinstance(down, AccessRefused)):
            raise
        return str(down)
    return ""


def _gather(
    reader: Reader, wanted: set[str], answers: dict[str, Answered], *, until_s: float, whole: bool = False
) -> str:
    """Take the answers that come until then, with one look at least; ``whole``: no longer than until all are there.

    A backend that is away meanwhile may be back in time; the answer is what it said last, "" where all went well.
    """
    away = ""
    while not (whole and len(answers) == len(wanted)):  # ends at ``until_s``
        try:
            records = reader.poll(_POLL, _WAIT_S)
        except BackendDown as down:
            records, away = (), str(down)
        else:
            away = "" if records else away  # one that brings nothing does not prove that it is back
        for record in records:
            try:
                detail = decode_event(record.value or b"").detail
            except UndecodableRecord:
                continue
            if isinstance(detail, Answered) and detail.command_id in wanted:
                answers[detail.command_id] = detail
        if time.monotonic() >= until_s:
            break
    return away


def _not_answered(topic: str, ticket: Ticket, cause: str) -> CommandFailed:
    """Where one command stands, or may stand, of which nothing was heard."""
    why = f" ({cause})" if cause else ""
    if ticket.offset is None:
        return CommandFailed(
            f"The command was not acknowledged, and may stand on {topic} all the same{why}",
            hint=f"{_AWAY} If it stands there it will be obeyed: repeat it only if `waterclock topics tail commands` "
            "does not show it",
            exit_code=ExitCode.TIMEOUT,
        )
    return CommandFailed(
        f"The command stands at {topic}[{ticket.partition}]@{ticket.offset}, and was not answered within "
        f"{ANSWERED_WITHIN_S:g} s{why}",
        hint=f"{_AWAY + ' ' if cause else ''}{_SILENCE} Unless it was rejected it will be obeyed: do not repeat it",
        exit_code=ExitCode.TIMEOUT,
    )


def confirm(question: str, *, yes: bool) -> None:
    """Ask the person, unless ``yes``. Raises CommandFailed where nobody can be asked, and where they say no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{question} Nobody is there to be asked", hint="--yes says yes, --dry-run only counts",
            exit_code=ExitCode.USAGE,
        )  # fmt: skip
    if not typer.confirm(question, err=True):
        raise CommandFailed("Nothing was changed", hint="--dry-run shows what would be")


def tell_failures(refused: Sequence[str], silent: Unanswered, *, done: int = 0, dry_run: bool = False) -> None:
    """Say on stderr which were refused and why, then raise CommandFailed where any was, or was not answered.

    The last thing that a command does: what it has to show, it has shown.
    """
    for line in refused[:_REFUSED_SHOWN]:
        say(f"refused: {line}")
    if len(refused) > _REFUSED_SHOWN:
        say(f"and {len(refused) - _REFUSED_SHOWN} more")
    if silent.in_all:
        raise _not_all_answered(silent, done, len(refused))
    if refused and dry_run:
        raise CommandFailed(f"{len(refused)} would be refused", hint="The lines above say why; nothing was changed")
    if refused:
        raise CommandFailed(f"{len(refused)} were refused", hint=f"The lines above say why; {done} were done")


def _not_all_answered(silent: Unanswered, done: int, refused: int) -> CommandFailed:
    parts = list[str]()
    if silent.standing:
        within = f"within {ANSWERED_WITHIN_S:g} s"
        parts.append(f"{silent.standing} commands stand in the log and were not answered {within}")
    if silent.doubtful:
        parts.append(f"{silent.doubtful} were not acknowledged and may stand in the log")
    if silent.unsent:
        parts.append(f"{silent.unsent} were not sent: those behind {silent.last_sent}")
    others = f" ({done} were done, {refused} refused)" if done or refused else ""
    return CommandFailed(
        f"{'; '.join(parts)}{others}{f': {silent.cause}' if silent.cause else ''}",
        hint=f"{_AWAY if silent.cause else _SILENCE} What stands in the log will be obeyed, unless it was rejected: do "
        "not repeat it",
        exit_code=ExitCode.TIMEOUT,
    )


def refusals(passed: Passed, commands: Sequence[Command]) -> list[str]:
    """Which of them were refused, and why."""
    said = ((command, passed.answers.get(command.command_id)) for command in commands)
    return [
        f"{command.run_id or command.job_id}: {why_not(answer)}"
        for command, answer in said
        if answer is not None and _is_for_nothing(answer)
    ]


def _is_for_nothing(answer: Answered) -> bool:
    return answer.verdict == CommandVerdict.REFUSED or bool(answer.skipped)
