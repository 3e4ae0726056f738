"""The good jobs of the check with hostile input run, so that the check waits for something that comes."""

from __future__ import annotations

from waterclock.dispatcher.commands import Place, apply

from tests.acceptance.hostile_input import job_at_once
from waterclock.clock import SystemClock
from waterclock.model.document import spec_from_document
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Once

LATE_US = 600 * US_PER_S
"""How long a busy machine may take from the send to the command."""


def test_a_job_that_is_to_run_at_once_runs_however_late_its_command_comes() -> None:
    document = job_at_once("good-1")
    spec = spec_from_document({key: part for key, part in document.items() if key != "name"})
    now = SystemClock().now()
    command = Command(CommandKind.CREATE, "default:good-1", "c", "test", now, spec=spec)
    for appended_at in (now, now + LATE_US):
        applied = apply(command, Place(1, 0, 1, appended_at), [], appended_at)
        assert isinstance(spec.schedule, Once)
        assert (applied.behind, applied.skipped) == ((spec.schedule.at,), ())
