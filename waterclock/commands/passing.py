"""Sends commands, and waits for what became of each: ANSWERED on run-events.

What must hold: the readers stand at the ends before anything is sent, so no answer is missed; a rate is kept. How it
fails: no answer within five seconds of the last command: it stands in the log and will be obeyed once a dispatcher owns
its shard; whoever asked is told how many those are.
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
from waterclock.dead_letters.acting import Asked
from waterclock.log.port import Isolation, Log, Reader, Ticket, TopicPartition
from waterclock.model.errors import Busy, Conflict, NotFound, RequestError, UndecodableRecord
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
_AT_ONCE_PER_S = 1_000.0
_REFUSALS: dict[str, type[RequestError]] = {kind.problem: kind for kind in (NotFound, Conflict, Busy)}


class Passed(NamedTuple):
    """What became of the commands, by their ids, and where they stand in the log.

    One without an answer was not answered in time.
    """

    answers: dict[str, Answered]
    tickets: Mapping[str, Ticket] = MappingProxyType({})

    def tally(self, commands: Sequence[Command]) -> tuple[int, int, int]:
        """(done, refused, not answered)."""
        said = [self.answers.get(command.command_id) for command in commands]
        refused = sum(answer is not None and answer.verdict == CommandVerdict.REFUSED for answer in said)
        silent = sum(answer is None for answer in said)
        return len(said) - refused - silent, refused, silent


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
    """Append ``commands``, at most so many a second, and gather their answers. Raises BackendDown."""
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
    try:
        for start in range(0, len(commands), slice_size):
            for command in commands[start : start + slice_size]:
                tickets[command.command_id] = appender.append(command_message(names, command))
            appender.flush(_FLUSH_S)
            due_s = began_s + min(start + slice_size, len(commands)) / rate_per_s
            _gather(reader, wanted, answers, until_s=due_s if start + slice_size < len(commands) else 0.0)
        _gather(reader, wanted, answers, until_s=time.monotonic() + ANSWERED_WITHIN_S, whole=True)
    finally:
        appender.close()
        reader.close()
    return Passed(answers, tickets)


def pass_one(settings: Settings, log: Log, command: Command) -> Answered:
    """Append one command and wait for what became of it. Raises what it was refused with, CommandFailed when nobody
    answers in time, BackendDown."""
    command = command._replace(answer=True)
    passed = pass_on(settings, log, [command], _AT_ONCE_PER_S)
    answer, ticket = passed.answers.get(command.command_id), passed.tickets[command.command_id]
    if answer is None:
        place = f"{Names(settings.kafka.prefix).commands}[{ticket.partition}]@{ticket.offset}"
        raise CommandFailed(
            f"The command stands at {place}, and was not answered within {ANSWERED_WITHIN_S:g} s",
            hint=f"{_SILENCE} Unless it was rejected it will be obeyed: do not repeat it",
            exit_code=ExitCode.TIMEOUT,
        )
    if answer.verdict == CommandVerdict.REFUSED:
        kind = _REFUSALS.get(answer.problem, RequestError)
        raise kind(answer.message, pointer=answer.pointer, hint=answer.hint)
    return answer


def _gather(
    reader: Reader, wanted: set[str], answers: dict[str, Answered], *, until_s: float, whole: bool = False
) -> None:
    """Take the answers that come until then, with one look at least; ``whole``: no longer than until all are there."""
    while not (whole and len(answers) == len(wanted)):  # ends at ``until_s``
        for record in reader.poll(_POLL, _WAIT_S):
            try:
                detail = decode_event(record.value or b"").detail
            except UndecodableRecord:
                continue
            if isinstance(detail, Answered) and detail.command_id in wanted:
                answers[detail.command_id] = detail
        if time.monotonic() >= until_s:
            return


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


def tell_failures(refused: Sequence[str], silent: int = 0, *, done: int = 0, dry_run: bool = False) -> None:
    """Say on stderr which were refused and why, then raise CommandFailed where any was, or was not answered.

    The last thing that a command does: what it has to show, it has shown.
    """
    for line in refused[:_REFUSED_SHOWN]:
        say(f"refused: {line}")
    if len(refused) > _REFUSED_SHOWN:
        say(f"and {len(refused) - _REFUSED_SHOWN} more")
    if silent:
        others = f" ({done} were done, {len(refused)} refused)" if done or refused else ""
        raise CommandFailed(
            f"{silent} commands stand in the log and were not answered within {ANSWERED_WITHIN_S:g} s{others}",
            hint=f"{_SILENCE} Unless they were rejected they will be obeyed",
            exit_code=ExitCode.TIMEOUT,
        )
    if refused and dry_run:
        raise CommandFailed(f"{len(refused)} would be refused", hint="The lines above say why; nothing was changed")
    if refused:
        raise CommandFailed(f"{len(refused)} were refused", hint=f"The lines above say why; {done} were done")


def refusals(passed: Passed, commands: Sequence[Command]) -> list[str]:
    """Which of them were refused, and why."""
    said = ((command, passed.answers.get(command.command_id)) for command in commands)
    return [
        f"{command.run_id or command.job_id}: {answer.message}"
        for command, answer in said
        if answer is not None and answer.verdict == CommandVerdict.REFUSED
    ]
