"""What the command line does before it asks a server, and while none answers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.unit.in_process import documents_of, run_command
from waterclock.clock import SystemClock
from waterclock.clusters import doctor_cassandra, doctor_kafka
from waterclock.clusters.finding import Finding, State
from waterclock.commands import cancel, dlq, doctor, saving
from waterclock.model.errors import BackendDown
from waterclock.settings import Settings
from waterclock.stack.state import StackState, birth_of, write_state
from waterclock.store.session import connect

STACK = Path(".waterclock")


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("WATERCLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    STACK.mkdir()


def away(*_: object, **__: object) -> NoReturn:
    raise BackendDown("cassandra", "away")


def test_what_a_driver_grumbles_is_not_told_beside_the_error() -> None:
    program = (
        "import logging, sys\n"
        "from waterclock.log import kafka_lag\n"
        "from waterclock.model.errors import BackendDown\n"
        "def away(*_, **__):\n"
        "    logging.getLogger('waterclock.kafka').error('connection refused')\n"
        "    logging.getLogger('cassandra.pool').warning('connection refused')\n"
        "    logging.getLogger('asyncio').error('a bug')\n"
        "    raise BackendDown('kafka', 'away')\n"
        "kafka_lag.group_lags = away\n"
        "sys.argv = ['waterclock', 'lag']\n"
        "from waterclock import cli\n"
        "cli.main()\n"
    )
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 5
    lines = done.stderr.splitlines()
    assert lines[:2] == ["a bug", "error: No answer from kafka: away"]
    assert len(lines) == 3


def test_the_doctor_waits_once_for_a_cassandra_that_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def kafka_away(*_: object) -> Iterator[Finding]:
        yield Finding("kafka", State.UNREACHABLE, "away", "")

    monkeypatch.setattr(doctor_kafka, "examine", kafka_away)
    monkeypatch.setattr(doctor_cassandra, "look", away)
    monkeypatch.setattr(doctor, "open_store", lambda _: pytest.fail("asked again"))
    code, out, err = run_command(monkeypatch, capsys, "doctor", "-o", "jsonl")
    found = {row["check"]: row["state"] for row in documents_of(out)}
    assert (code, found["cassandra"]) == (5, "unreachable")
    assert "1 warn, 2 unreachable" in err


def test_a_cassandra_whose_name_has_no_address_is_one_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(BackendDown, match="cassandra-0 port 9042 in 0 s: no such host"):
        connect(("cassandra-0",), 9042, SystemClock(), deadline_s=0.0)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "cancel"),
        ("run", "cancel", "--job", "j", "--status", "failed"),
        ("run", "cancel", "--job", "j", "--after", "there"),
        ("run", "cancel", "no run"),
        ("dlq", "redrive"),
        ("dlq", "discard", "--state", "all"),
    ],
)
def test_a_wrong_use_is_refused_before_a_server_is_asked(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (cancel, dlq):
        monkeypatch.setattr(module, "open_store", away)
        monkeypatch.setattr(module, "open_log", away)
    code, out, _ = run_command(monkeypatch, capsys, *words)
    assert (code, out) == (2, "")


CREATE = ("job", "create", "hello", "--every", "1h", "--handler", "demo.ping", "--dry-run")


@pytest.mark.parametrize("options", [("--jitter", "10m", "--placement", "balanced"), ("-f", "job.json")])
def test_a_dry_run_that_asks_cassandra_asks_that_of_this_folder(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def store(settings: Settings) -> NoReturn:
        asked.append(settings.cassandra.port)
        away()

    monkeypatch.setattr(saving, "open_store", store)
    me = os.getpid()
    state = StackState(me, birth_of(me), "ready", 1.0, "127.0.0.1:19092", "127.0.0.1", 19042, ())
    write_state(STACK, state)
    Path("job.json").write_text(json.dumps({"calendars": ["holidays"]}))
    assert run_command(monkeypatch, capsys, *CREATE, *options)[0] == 5
    assert asked == [19042]


def test_a_dry_run_that_asks_nobody_needs_no_stack_that_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(STACK, StackState(1, "0", "stopped", 0.0, "127.0.0.1:9092", "127.0.0.1", 9042, ()))
    assert run_command(monkeypatch, capsys, *CREATE)[0] == 0


@pytest.mark.parametrize("words", [("ledger", "verify", "--from", "1w"), ("dlq", "list", "--since", "2026-11-21")])
def test_a_span_that_cannot_be_read_names_both_ways_to_say_it(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run_command(monkeypatch, capsys, *words)
    assert code == 2
    assert words[-1] in err
    assert "7d; or RFC 3339" in err
