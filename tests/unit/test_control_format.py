"""What control over jobs keeps on disk: the cell of a pause, and what an earlier release finds in our records."""

from __future__ import annotations

import pytest

from waterclock.model.job import Command, CommandKind, JobSpec, JobStatus, JobVersion, Once, Pause
from waterclock.model.job_state import JobState
from waterclock.store import rows
from waterclock.wire import codec, schemata

PAUSE = Pause("ann@acme", "the bank is shut", 1_795_000_000_000_000, 1_795_003_600_000_000)
CELL = '["ann@acme","the bank is shut",1795000000000000,1795003600000000]'
SPEC = JobSpec("demo.ping", Once(5))
VERSION = JobVersion("a:b", 7, SPEC, JobStatus.PAUSED, "ann", 1, 2, 3, 4, "pause", "why", PAUSE, 0)


def test_the_cell_of_a_pause_is_that_of_the_format() -> None:
    assert rows.version_values(VERSION)[-2] == CELL
    assert rows.version_values(VERSION._replace(pause=None))[-2] == ""


def test_a_pause_is_read_back_also_with_parts_of_a_later_release() -> None:
    values = rows.version_values(VERSION)[1:]
    assert rows.version_of("a:b", values) == VERSION
    later = CELL[:-1] + ',"later"]'
    assert rows.version_of("a:b", (*values[:-2], later, values[-1])) == VERSION


def test_a_version_of_an_earlier_release_says_nothing_of_who_and_why() -> None:
    values = rows.version_values(VERSION)[1:]
    assert rows.version_of("a:b", (*values[:-4], None, None, None, None)) == JobVersion(*VERSION[:9])


@pytest.mark.parametrize("release", sorted(schemata.released()))
def test_an_earlier_release_reads_a_rollback_as_unknown_and_a_pause_without_its_end(release: int) -> None:
    documents = schemata.released()[release]
    command = schemata.prepare("command", documents["command"])
    state = schemata.prepare("job_state", documents["job_state"])
    rollback = codec.encode_command(Command(CommandKind.ROLLBACK, "a:b", "c", "ann", 1, to_revision=9))
    pause = codec.encode_command(Command(CommandKind.PAUSE, "a:b", "c", "ann", 1, note="why", resume_at=9))
    kept = codec.encode_job_state(JobState("a:b", 5, True, 8, 9, 7))

    assert _as_read_by(command, rollback)["kind"] == "UNKNOWN"
    assert (_as_read_by(command, pause)["kind"], _as_read_by(command, pause)["note"]) == ("PAUSE", "why")
    assert _as_read_by(state, kept)["decided_at"] == 5


def _as_read_by(reader: schemata.Schema, data: bytes) -> dict[str, object]:
    writer = schemata.written_with(data[2:10])
    return codec._read_with(data, writer.parsed, reader.parsed)
