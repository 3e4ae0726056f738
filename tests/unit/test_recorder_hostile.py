"""Commands that anybody may produce: whatever decodes, the recorder goes on, and the audit has a line of it."""

from __future__ import annotations

import orjson
import pytest

from tests.unit.test_recorder import COMMANDS, JOB, NAMES, Counting, World
from waterclock.model.executor import HttpCall, ShellCommand
from waterclock.model.ids import make_run_id
from waterclock.model.job import Command, CommandKind, Every, JobSpec
from waterclock.recorder.projection import discarded_row
from waterclock.store.port import AuditRow
from waterclock.wire.messages import command_message

_EVERY = Every(5_000_000)
_NO_URL = JobSpec("", _EVERY, executor=HttpCall("http://[of nobody"))
_NO_PROGRAM = JobSpec("", _EVERY, executor=ShellCommand(()))


def _audited(world: World, command: Command) -> AuditRow:
    """The line of one command; the one behind it is written as well."""
    store = Counting(world.store)
    world.append(command_message(NAMES, command))
    world.append(command_message(NAMES, Command(CommandKind.PAUSE, JOB, "c-2", "ann", world.clock.now())))
    world.turn(world.recorder(store=store))
    line, behind = [row for history in store.histories for row in history.audit]
    assert behind.action == "pause"
    assert world.committed(COMMANDS) == 2
    return line


def _command(kind: CommandKind, **parts: object) -> Command:
    return Command(kind, JOB, "c-1", "eve", 0)._replace(**parts)


@pytest.mark.parametrize("at", [2**63 - 1, -(2**63), 253_402_351_199_000_000])
def test_an_instant_without_a_text_is_a_number_in_the_audit(at: int) -> None:
    line = _audited(World(), _command(CommandKind.BACKFILL, from_at=at, to_at=at))
    told = orjson.loads(line.detail)
    assert (told["from"], told["to"]) == (str(at), str(at))


@pytest.mark.parametrize("spec", [_NO_URL, _NO_PROGRAM], ids=["no URL", "no program"])
def test_a_spec_that_nobody_has_checked_has_its_line_without_a_name(spec: JobSpec) -> None:
    assert "handler" not in orjson.loads(_audited(World(), _command(CommandKind.CREATE, spec=spec)).detail)


def test_a_job_id_too_long_for_a_key_is_cut_in_the_audit() -> None:
    line = _audited(World(), _command(CommandKind.PAUSE, job_id="a" * 70_000))
    assert len(line.job_id) < 256


def test_a_series_that_no_table_can_hold_discards_no_letter() -> None:
    at = 1_795_251_600_000_000
    for series, is_known in ((2**63 - 1, True), (2**63, False)):
        command = _command(CommandKind.DISCARD, run_id=make_run_id(JOB, at, series))
        assert (discarded_row(command, at) is not None) is is_known
