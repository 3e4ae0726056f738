"""What is said of a command: ANSWERED, in the round that decides it. Pure.

Whoever wrote the command waits for this on run-events, by its id; nothing else depends on it, and no run is touched.
What must hold: an answer fits into a record whatever the command holds, so all that it quotes is cut, ids too (one that
is longer than ``KEY_MAX`` is refused, and who sent it is told so).
"""

from __future__ import annotations

from waterclock.log.port import Record
from waterclock.model.backfill import make_backfill_id
from waterclock.model.document import KEY_MAX
from waterclock.model.errors import KeyReused, RequestError
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.job import Command
from waterclock.model.role_state import KeyState

from .admission import Admission, Fate
from .backfill_orders import Turned
from .commands import Applied

_TEXT_MAX = 500
"""Characters of a message, a pointer or a hint: some quote what the sender wrote."""


def of_applied(command: Command, record: Record, applied: Applied, admission: Admission | None = None) -> Answered:
    """The command was carried out, or asked for what stood already. ``admission``: of a trigger's run, where there
    was something to decide."""
    changed = applied.version is not None or applied.run_at is not None
    return Answered(
        command_id=command.command_id[:KEY_MAX],
        offset=record.offset,
        verdict=CommandVerdict.APPLIED if changed else CommandVerdict.UNCHANGED,
        revision=applied.row.revision,
        run_id=applied.triggered,
        **_came_to(admission),
    )


def of_order(command: Command, record: Record, run_id: str, admission: Admission | None = None) -> Answered:
    """A command about a run was passed on; ``run_id``: of the run that it made. What it came to, the log decides."""
    return Answered(
        command_id=command.command_id[:KEY_MAX],
        offset=record.offset,
        verdict=CommandVerdict.APPLIED,
        revision=0,
        run_id=run_id,
        **_came_to(admission),
    )


def of_backfill(command: Command, record: Record, turned: Turned) -> Answered:
    """A command about a backfill was carried out, or asked for what stood already."""
    return Answered(
        command_id=command.command_id[:KEY_MAX],
        offset=record.offset,
        verdict=CommandVerdict.APPLIED if turned.is_changed else CommandVerdict.UNCHANGED,
        revision=0,
        run_id=make_backfill_id(command.job_id, turned.told.number),
    )


def of_repeat(command: Command, record: Record, first: KeyState) -> Answered:
    """The intention was served before: what became of it then."""
    return Answered(
        command_id=command.command_id[:KEY_MAX],
        offset=record.offset,
        verdict=CommandVerdict.REPEATED,
        revision=first.revision,
        run_id=first.run_id,
        first_command_id=first.command_id[:KEY_MAX],
    )


def of_refusal(command: Command, record: Record, error: RequestError, revision: int) -> Answered:
    """Nothing was done; ``revision`` is what stands."""
    return Answered(
        command_id=command.command_id[:KEY_MAX],
        offset=record.offset,
        verdict=CommandVerdict.REFUSED,
        revision=revision,
        problem=error.problem,
        message=error.message[:_TEXT_MAX],
        pointer=error.pointer[:_TEXT_MAX],
        hint=error.hint[:_TEXT_MAX],
        first_command_id=error.first_command_id[:KEY_MAX] if isinstance(error, KeyReused) else "",
    )


def _came_to(admission: Admission | None) -> dict[str, str]:
    """Why the run waits, or was dropped."""
    if admission is None or admission.fate is Fate.RUN:
        return {}
    return {"held" if admission.fate is Fate.HOLD else "skipped": admission.reason}
