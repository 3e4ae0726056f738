"""The hash of an HTTP request in commands and kept intentions: also beside releases that do not know it."""

from __future__ import annotations

import io

import pytest
from fastavro import schemaless_writer
from waterclock.dispatcher.keys import Keys, check_body, intention_of

from waterclock.model.errors import KeyReused
from waterclock.model.job import Command, CommandKind, Every, JobSpec
from waterclock.model.role_state import KeyState
from waterclock.wire import codec, schemata
from waterclock.wire.messages import key_of_state

HASH = bytes(range(16))
COMMAND = Command(
    CommandKind.UPDATE, "t:j", "c1", "ann", 5, spec=JobSpec("demo.noop", Every(60)), idempotency_key="k", answer=True
)
STATE = KeyState("t:j", "k", b"body", "c1", 7, 9, "", 5)


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> dict[str, schemata.Schema]:
    """Schemas of a release that did not know the hash, and whose records this one reads."""
    made = {}
    for kind in ("command", "key_state"):
        document = schemata.published(kind)
        document["fields"] = [field for field in document["fields"] if field["name"] != "request_hash"]
        made[kind] = schemata.prepare(kind, document)
    known = schemata._by_fingerprint() | {schema.fingerprint: schema for schema in made.values()}
    monkeypatch.setattr(schemata, "_by_fingerprint", lambda: known)
    return made


def written_by(earlier: schemata.Schema, data: bytes) -> bytes:
    """The record as the earlier release would have written it."""
    writer = schemata.written_with(data[2:10])
    out = io.BytesIO()
    schemaless_writer(out, earlier.parsed, codec._read_with(data, writer.parsed, None))
    return earlier.frame + out.getvalue()


def test_it_survives_its_bytes() -> None:
    asked, state = COMMAND._replace(request_hash=HASH), STATE._replace(request_hash=HASH)
    assert codec.decode_command(codec.encode_command(asked)) == asked
    assert codec.decode_key_state(codec.encode_key_state(state)) == state


def test_records_of_an_earlier_release_have_an_empty_one(before: dict[str, schemata.Schema]) -> None:
    asked, state = COMMAND._replace(request_hash=HASH), STATE._replace(request_hash=HASH)
    command = codec.decode_command(written_by(before["command"], codec.encode_command(asked)))
    assert command == COMMAND
    assert type(command.request_hash) is bytes
    kept = codec.decode_key_state(written_by(before["key_state"], codec.encode_key_state(state)))
    assert kept == STATE
    assert type(kept.request_hash) is bytes
    assert codec.decode_key_state(codec.encode_key_state(kept)) == kept


def test_a_command_of_the_first_release_has_an_empty_one() -> None:
    earlier = schemata.prepare("command", schemata.released()[1]["command"])
    plain = Command(CommandKind.PAUSE, "t:j", "c1", "ann", 5)
    assert codec.decode_command(written_by(earlier, codec.encode_command(plain))) == plain


def test_an_earlier_release_reads_past_it(before: dict[str, schemata.Schema]) -> None:
    for kind, data in (
        ("command", codec.encode_command(COMMAND._replace(request_hash=HASH))),
        ("key_state", codec.encode_key_state(STATE._replace(request_hash=HASH))),
    ):
        writer = schemata.written_with(data[2:10])
        found = codec._read_with(data, writer.parsed, before[kind].parsed)
        assert found["command_id"] == "c1"
        assert "request_hash" not in found


def test_what_an_earlier_release_kept_is_compared_by_its_body(before: dict[str, schemata.Schema]) -> None:
    """Given: an intention that it served. When: the API of this release repeats it, or says something else."""
    asked = intention_of(COMMAND._replace(request_hash=HASH))
    other = intention_of(COMMAND._replace(request_hash=HASH, spec=JobSpec("demo.noop", Every(5))))
    assert asked is not None
    assert other is not None
    state = codec.encode_key_state(STATE._replace(body_hash=asked.body_hash))
    kept = Keys()
    kept.keep(key_of_state("t:j", "k", "c1"), written_by(before["key_state"], state))
    first = kept.get(asked.state_key)
    assert first is not None
    check_body(first, asked)
    with pytest.raises(KeyReused):
        check_body(first, other)
    check_body(first._replace(request_hash=HASH), other)
