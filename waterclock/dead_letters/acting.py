"""What is done about a dead letter, as a command: redriven with its work as it was or edited, or put away. Pure.

What must hold: nobody redrives a letter twice by accident (its command has a key of its own, good for a day), and work
that fails again and again does not go round for ever (``REDRIVES_MAX``); ``force`` says that both are meant, and then
once for each time that something was done about the letter: the same again, before history shows the new run, makes no
second one. A node of a DagRun is not redriven by itself: its children wait for it in its DagRun alone, so that is run
again. How it fails: RequestError; among many letters its message is all that is shown of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from waterclock.model.document import PAYLOAD_MAX
from waterclock.model.errors import Conflict, RequestError
from waterclock.model.events import Answered, DeadLetter, WorkRecord
from waterclock.model.ids import Instant, job_of_run
from waterclock.model.job import Command, CommandKind
from waterclock.wire.codec import decode_work, encode_work

from .choosing import Letter

REDRIVES_MAX = 10
"""How often one work may be redriven."""


TRIES_MAX = 5
"""So often a redrive is tried anew whose run was dropped: each try has to ask for all that were before it."""


class Asked(NamedTuple):
    """Who asks, as what, and when; ``command_id`` must be new for each command."""

    actor: str
    command_id: str
    at: Instant
    note: str = ""


def redrive_of(
    letter: Letter, read: Mapping[str, DeadLetter | None], asked: Asked, *, payload: bytes | None = None,
    force: bool = False,
) -> Command:  # fmt: skip
    """The command that runs the letter's work once more, with ``payload`` in place of its own. Raises RequestError.

    ``read``: the letters as the topic has them (``finding.Read``).
    """
    work = _work_to_redrive(letter, read)
    if work.redrives >= REDRIVES_MAX and not force:
        raise Conflict(
            f"{letter.run_id} was redriven {work.redrives} times and failed each time",
            pointer="/force",
            hint="Mend what fails; then force it",
        )
    if payload is not None:
        if len(payload) > PAYLOAD_MAX:
            raise RequestError(
                f"The payload has {len(payload)} bytes", pointer="/payload", hint=f"At most {PAYLOAD_MAX}"
            )
        work = work._replace(payload=payload)
    done = letter.done
    once_for = (
        f"{letter.run_id}\n{done.linked_run if done else ''}\n{done.at if done else 0}" if force else letter.run_id
    )
    return Command(
        CommandKind.REDRIVE,
        letter.failure.job_id,
        asked.command_id,
        asked.actor,
        asked.at,
        note=asked.note,
        idempotency_key=_key(once_for),
        answer=True,
        run_id=letter.run_id,
        work=encode_work(work),
    )


def redrive_behind(command: Command, dropped: str, command_id: str) -> Command:
    """The same redrive once more, where the limits of the job have dropped ``dropped``, which it made before.

    Nothing was made then, but its key is used up: so this one's follows from that and from the run, and whoever tries
    again at the same time makes no second one.
    """
    return command._replace(command_id=command_id, idempotency_key=_key(f"{command.idempotency_key}\n{dropped}"))


def dropped_too_often(answer: Answered) -> Answered:
    """The same answer as one of a run that was dropped just now: it was tried anew ``TRIES_MAX`` times already."""
    return answer._replace(skipped=f"so were {TRIES_MAX} redrives of it before; make it with force, or tomorrow")


def dropped_too_late(answer: Answered) -> Answered:
    """The same answer as one of a run that was dropped before: there was no time or room left to try it anew."""
    return answer._replace(skipped="there was no time to make it anew; ask again")


def _key(once_for: str) -> str:
    return f"redrive/{blake2b(once_for.encode(), digest_size=16).hexdigest()}"


def discard_of(run_id: str, asked: Asked) -> Command:
    """The command that puts a letter away. Its bytes stay in the topic for as long as that keeps them."""
    return _about(CommandKind.DISCARD, run_id, asked)


def cancel_of(run_id: str, asked: Asked) -> Command:
    """The command that asks a run to end."""
    return _about(CommandKind.CANCEL, run_id, asked)


def why_not(answer: Answered) -> str:
    """Why nothing came of a command that was refused, or whose run was dropped; "" of any other."""
    if answer.skipped:
        return f"the limits of its job have dropped {answer.run_id}, which never runs: {answer.skipped}"
    return answer.message


def work_of(letter: DeadLetter) -> WorkRecord:
    """The work that was given up. Raises RequestError where the letter came without it."""
    if letter.work is None or letter.work.value is None:
        raise RequestError(
            f"{letter.run_id} has no work record any more ({letter.reason})",
            pointer="/run_ids",
            hint="Trigger its job instead",
        )
    return decode_work(letter.work.value)


def _work_to_redrive(letter: Letter, read: Mapping[str, DeadLetter | None]) -> WorkRecord:
    """The work of a letter that can be redriven. Raises RequestError."""
    if letter.failure.node:
        dag_run = letter.run._replace(node="")
        raise RequestError(
            f"a node is not redriven by itself: `waterclock dag rerun '{dag_run}' --failed` runs its DagRun again",
            pointer="/run_ids",
        )
    if letter.run_id not in read:
        raise RequestError("the topic no longer has this letter: trigger its job instead", pointer="/run_ids")
    whole = read[letter.run_id]
    if whole is None:
        raise RequestError(
            "the topic was not read as far as this letter, for too many stand before it: ask for it again, or alone",
            pointer="/run_ids",
        )
    return work_of(whole)


def _about(kind: CommandKind, run_id: str, asked: Asked) -> Command:
    return Command(
        kind, job_of_run(run_id), asked.command_id, asked.actor, asked.at, note=asked.note, answer=True, run_id=run_id
    )
