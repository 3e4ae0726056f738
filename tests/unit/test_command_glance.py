"""Which job a command makes anew, told without reading the whole of it; never another answer than the whole gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dispatcher_world import START, every
from waterclock.model.job import MUST_BE_NEW, Command, CommandKind
from waterclock.wire import codec
from waterclock.wire.command_glance import new_job_at_a_glance

_TEXT = st.text(max_size=200)


@given(st.sampled_from(CommandKind), _TEXT, _TEXT, _TEXT, st.sampled_from((MUST_BE_NEW, 0, 7)))
def test_a_glance_tells_of_a_new_job_what_the_whole_command_does(
    kind: CommandKind, job_id: str, command_id: str, actor: str, expected: int
) -> None:
    command = Command(kind, job_id, command_id, actor, START, expected_revision=expected, spec=every(10))
    is_new = kind is CommandKind.CREATE and expected == MUST_BE_NEW
    assert new_job_at_a_glance(codec.encode_command(command)) == (job_id if is_new else None)


@given(st.binary(max_size=60), st.integers(0, 200))
def test_whatever_bytes_there_are_a_glance_raises_nothing(tail: bytes, kept: int) -> None:
    data = codec.encode_command(
        Command(CommandKind.CREATE, "t:a", "c1", "test", START, expected_revision=MUST_BE_NEW, spec=every(10))
    )
    assert new_job_at_a_glance(data[:kept] + tail) in (None, "t:a") or kept < len(data)
    assert new_job_at_a_glance(tail) is None
