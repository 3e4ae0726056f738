"""What handlers and programs print, from real role processes to the command line; and that state never carries it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.acceptance import dumps
from tests.acceptance.real_stack import RoleProcess
from tests.conftest import Running
from tests.oracle.records import decode
from waterclock.clock import SystemClock
from waterclock.log.kafka_topics import ensure_topics
from waterclock.store.migrate import migrate
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers

COMMAND_S = 60.0
SCRIPT = "echo one; echo two; printf 'h\\303\\244lf'; echo bad >&2; exit 4"


class Stack:
    """The roles that a run needs, and the command line."""

    def __init__(self, kafka: Running, cassandra: Running, prefix: str, keyspace: str, folder: Path) -> None:
        self.bootstrap, self.names, self.folder = kafka.address, Names(prefix), folder
        self.env = {
            "WATERCLOCK_KAFKA__BOOTSTRAP": kafka.address,
            "WATERCLOCK_KAFKA__PREFIX": prefix,
            "WATERCLOCK_CASSANDRA__CONTACT_POINTS": cassandra.host,
            "WATERCLOCK_CASSANDRA__PORT": str(cassandra.port),
            "WATERCLOCK_CASSANDRA__KEYSPACE": keyspace,
            "WATERCLOCK_PARTITIONS": "2",
            "WATERCLOCK_SHELL__ENABLED": "true",
            "WATERCLOCK_SHELL__ALLOW": "/bin/sh",
        }
        ensure_topics(kafka.address, topic_specs(self.names, 2))
        migrate([cassandra.host], cassandra.port, keyspace, SystemClock(), replication=1)
        self.roles = [self.role(name) for name in ("dispatcher", "workers", "retry_router", "recorder")]

    def role(self, name: str) -> RoleProcess:
        """One that is not started yet."""
        instance, folder = f"{name.replace('_', '-')}-1", self.folder
        return RoleProcess(name, instance, self.env, folder / f"{name}.log", folder / f"{name}.ready")

    @contextmanager
    def running(self) -> Iterator[Self]:
        """All of its roles are up, until it is left."""
        try:
            for role in self.roles:
                role.start()
            for role in self.roles:
                role.wait_ready()
            yield self
        finally:
            for role in reversed(self.roles):
                if role.process is not None:
                    role.stop()

    def command(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        """(exit code, JSON lines, stderr) of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "waterclock.cli", *words],
            env={**os.environ, **self.env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def run_of(self, name: str, document: dict[str, Any], *words: str) -> str:
        """A job of that document, triggered with these words; its run."""
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({"every": "12h", **document}))
        code, _, said = self.command("job", "create", name, "--file", str(file))
        assert code == 0, said
        code, (shown,), said = self.command("job", "trigger", name, *words)
        assert code == 0, said
        run: str = shown["run"]
        return run


@pytest.fixture(scope="module")
def stack(
    request: pytest.FixtureRequest,
    kafka_server: Running,
    cassandra_server: Running,
    fresh_prefix: str,
    fresh_keyspace: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """Roles of its own for each module that imports this; its ``STACK``, if it has one, is which kind of stack."""
    kind: type[Stack] = getattr(request.module, "STACK", Stack)
    folder = tmp_path_factory.mktemp("roles")
    with kind(kafka_server, cassandra_server, fresh_prefix, fresh_keyspace, folder).running() as stack:
        yield stack


def test_the_command_line_shows_what_a_handler_logged_and_no_event_carries_it(stack: Stack) -> None:
    run = stack.run_of("sleeper", {"handler": "demo.sleep", "payload": 0.2})

    code, lines, said = stack.command("run", "logs", "-f", run)

    assert code == 0, said
    assert [(line["attempt"], line["stream"], line["text"]) for line in lines] == [
        (1, "log", "INFO going to sleep seconds=0.2")
    ]
    records = [record for record in dumps.dump(stack.bootstrap, stack.names.run_logs) if record["key"] == run.encode()]
    kind, log = decode(records[0]["value"])
    assert (kind, len(records), log["run_id"], log["attempt"]) == ("run_log", 1, run, 1)
    events = dumps.dump(stack.bootstrap, stack.names.run_events)
    assert events
    assert not any(b"going to sleep" in record["value"] for record in events)


def test_the_command_line_shows_what_a_program_printed_and_how_its_run_ended(stack: Stack) -> None:
    program = {"shell": {"argv": ["/bin/sh", "-c", SCRIPT]}, "retry": {"max_attempts": 1}}
    run = stack.run_of("program", program)

    code, lines, said = stack.command("run", "logs", "-f", run)

    assert code == 7, said
    assert "ended FAILED" in said
    by_stream = {
        stream: [line["text"] for line in lines if line["stream"] == stream] for stream in ("stdout", "stderr")
    }
    assert by_stream == {"stdout": ["one", "two", "hälf"], "stderr": ["bad"]}


def test_each_attempt_keeps_its_own_lines(stack: Stack) -> None:
    failing = {"handler": "demo.fail", "retry": {"max_attempts": 2, "backoff": "list", "delays": ["1s"]}}
    run = stack.run_of("failing", failing)

    code, lines, said = stack.command("run", "logs", "-f", run)

    assert code == 7, said
    assert [(line["attempt"], line["text"]) for line in lines] == [
        (1, "attempt 1 is about to fail"),
        (2, "attempt 2 is about to fail"),
    ]
