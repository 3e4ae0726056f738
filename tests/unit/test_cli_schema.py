"""``waterclock schema``: says beforehand what the intake says, with the intake's own code, and writes the contract."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import contextmanager

import pytest

from tests.unit.intake_world import NAMES, PING, IntakeWorld
from waterclock import cli
from waterclock.commands import schema
from waterclock.model.job import CommandKind
from waterclock.model.job_event import JobEvent
from waterclock.wire import schemata
from waterclock.wire.codec import encode_job_event


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith(("WATERCLOCK_", "SCHEMA_REGISTRY")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def waterclock(monkeypatch, capsys):
    """Runs a command in this process: (exit code, stdout, stderr)."""

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["waterclock", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_a_good_document_is_shown_as_the_intake_understands_it(waterclock):
    code, out, err = waterclock("schema", "check", "-", "-o", "json", stdin=json.dumps(PING).encode())
    assert code == 0, err
    shown = json.loads(out)
    assert (shown["kind"], shown["job"], shown["every"], shown["tier"]) == ("CREATE", "default:ping", "5s", "medium")
    assert "takes it" in err


def test_a_bad_document_names_the_place_and_what_to_do(waterclock):
    code, out, err = waterclock("schema", "check", "-", stdin=b'{"name":"a","handler":"h","cron":"0 0 30 2 *"}')
    assert (code, out) == (1, "")
    assert "(at /cron)" in err
    assert "can never occur" in err
    assert "try: " in err


def test_avro_bytes_of_a_file_are_checked_too(waterclock, tmp_path):
    event = JobEvent(CommandKind.CREATE, name="ping", handler="demo.ping", every_us=5_000_000)
    (tmp_path / "event.avro").write_bytes(encode_job_event(event))
    code, out, _ = waterclock("schema", "check", "event.avro", "-o", "json")
    assert (code, json.loads(out)["job"]) == (0, "default:ping")
    (tmp_path / "event.avro").write_bytes(encode_job_event(event._replace(every_us=1)))
    code, _, err = waterclock("schema", "check", "event.avro")
    assert code == 1
    assert "/every_us" in err


def test_the_topic_names_the_tenant_as_it_does_for_the_intake(waterclock, monkeypatch):
    monkeypatch.setenv("WATERCLOCK_INTAKE__TENANTS", '{"waterclock.job-events.acme": "acme"}')
    document = json.dumps(PING).encode()
    _, out, _ = waterclock("schema", "check", "-", "--topic", "job-events.acme", "-o", "json", stdin=document)
    assert json.loads(out)["job"] == "acme:ping"
    code, _, err = waterclock("schema", "check", "-", "--topic", "job-events.other", stdin=document)
    assert code == 3
    assert "does not read" in err


def test_a_topic_outside_the_prefix_is_tried_by_the_name_that_it_has(waterclock, monkeypatch):
    monkeypatch.setenv("WATERCLOCK_INTAKE__TENANTS", '{"acme-jobs": "acme", "job-events": "bare"}')
    document = json.dumps(PING).encode()
    for words, job in (
        (("--topic", "acme-jobs"), "acme:ping"),
        (("--topic", "job-events"), "bare:ping"),
        (("--topic", "waterclock.job-events"), "default:ping"),
        ((), "default:ping"),
    ):
        code, out, err = waterclock("schema", "check", "-", *words, "-o", "json", stdin=document)
        assert code == 0, err
        assert json.loads(out)["job"] == job


def test_headers_count_as_they_do_on_the_topic(waterclock):
    document = json.dumps(PING).encode()
    code, _, err = waterclock("schema", "check", "-", "-H", "content-type=application/avro", stdin=document)
    assert code == 1
    assert "content-type" in err
    _, out, _ = waterclock("schema", "check", "-", "-H", "ce_id=evt-1", "-o", "json", stdin=document)
    assert json.loads(out)["command_id"] == "evt-1"


@pytest.mark.parametrize("words", [(), ("a.json", "--reject", "0:1"), ("--reject", "zero"), ("missing.json",)])
def test_a_question_that_cannot_be_answered_is_a_usage_error(waterclock, words):
    code, _, err = waterclock("schema", "check", *words)
    assert code == 2
    assert "try: " in err


def test_a_refused_record_is_read_back_whole_and_tried_again(waterclock, monkeypatch):
    world = IntakeWorld()
    world.send(b'{"name":"Ping","handler":"h","every":"5s"}', (("x-from", b"billing"),))
    world.turn(world.intake())
    [record] = world.records(NAMES.rejects)

    @contextmanager
    def open_log(_settings):
        yield world.log

    monkeypatch.setattr(schema, "open_log", open_log)
    code, _, err = waterclock("schema", "check", "--reject", f"{record.partition}:{record.offset}")
    assert code == 1
    for word in ("refused by intake", "/name", '{"name":"Ping"', "x-from=billing", f"{NAMES.job_events}[0]@0"):
        assert word in err
    code, _, err = waterclock("schema", "check", "--reject", f"{record.partition}:{record.offset + 10}")
    assert code == 3


def test_export_writes_what_is_published_and_overwrites_nothing_unasked(waterclock, tmp_path):
    code, out, err = waterclock("schema", "export", "out", "-o", "json")
    assert code == 0, err
    rows = {row["file"]: row["fingerprint"] for row in json.loads(out)}
    assert rows["out/job_event.avsc"] == schemata.current("job_event").fingerprint.hex()
    written = {path.stem: json.loads(path.read_bytes()) for path in (tmp_path / "out").iterdir()}
    assert written == {kind: schemata.published(kind) for kind in schemata.KINDS}
    assert waterclock("schema", "export", "out")[0] == 0
    (tmp_path / "out" / "job_event.avsc").write_text("{}")
    code, _, err = waterclock("schema", "export", "out")
    assert code == 2
    assert "--force" in err
    assert waterclock("schema", "export", "out", "--force")[0] == 0


def test_export_to_where_nothing_can_be_written_says_where(waterclock, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "job_event.avsc").mkdir(parents=True)
    for folder, place in (("file", "file"), ("file/below", "file/below"), ("taken", "taken/job_event.avsc")):
        code, out, err = waterclock("schema", "export", folder)
        assert (code, out) == (2, "")
        assert f"error: {place}" in err
        assert "cannot be written" in err
        assert "try: Give another DIR" in err


def test_export_without_a_folder_keeps_out_of_the_sources_of_a_checkout(waterclock, tmp_path):
    assert waterclock("schema", "export")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["avro-schemas"]
