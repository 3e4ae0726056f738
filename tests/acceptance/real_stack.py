"""Real servers and real role processes for the acceptance checks, started and killed by pid.

Nothing here looks into a role: what a check judges comes from ``dumps.py`` (topics) and from tables.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from tests.acceptance.empty_servers import lay_out
from tests.free_ports import free_port
from waterclock.clock import SystemClock
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import TopicSpec
from waterclock.stack import leash as leash_program
from waterclock.stack.kit import Kit
from waterclock.stack.servers import Server, find_kit, launch_cassandra, launch_kafka
from waterclock.store.migrate import migrate
from waterclock.wire.names import Names, topic_specs

WAIT_S = 60.0
QUICK = "WATERCLOCK_TEST_QUICK_SERVERS"
"""Set for a short form that measures nothing: its servers live for a minute, and compile their code lightly."""


def kit() -> Kit:
    """What the servers of a check are started with."""
    return find_kit()._replace(quick=bool(os.environ.get(QUICK)))


def stamped_by_the_broker(names: Names, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
    """The topics, with append time where judges hold records of one against those of another.

    A writer's stamp says when it spoke, and its clock may be wrong; a zombie that was stopped between the two is told
    by when its record arrived. No role decides anything by the stamps of these topics.
    """
    stamped, by_arrival = (names.run_events, names.control, names.leases), {"message.timestamp.type": "LogAppendTime"}
    return [spec._replace(config=spec.config | by_arrival) if spec.name in stamped else spec for spec in specs]


def wait_for(condition, what: str, timeout_s: float = WAIT_S, every_s: float = 0.05):
    """The first true value of ``condition()``; a TimeoutError that says what did not happen."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(every_s)
    raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")


@dataclass
class RoleProcess:
    """One role process: its pid, its log file, and how to start it again."""

    role: str
    instance: str
    env: dict[str, str]
    log_path: Path
    ready_path: Path
    args: list[str] = field(default_factory=list)
    module: str = ""
    process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] | None = None

    def start(self) -> RoleProcess:
        self.ready_path.unlink(missing_ok=True)
        self._log = self.log_path.open("ab")
        env = {**os.environ, **self.env, "WATERCLOCK_INSTANCE": self.instance}
        env["WATERCLOCK_READY_FILE"] = str(self.ready_path)
        # On the leash: a check that is killed leaves no role behind.
        leash = [sys.executable, "-I", "-S", leash_program.__file__, str(os.getpid())]
        command = [*leash, sys.executable, "-m", self.module or f"waterclock.{self.role}", *self.args]
        self.process = subprocess.Popen(command, env=env, stdout=self._log, stderr=self._log)
        return self

    @property
    def is_ready(self) -> bool:
        """Whether it has said so. Raises RuntimeError, with the end of its log, where it has ended by itself."""
        assert self.process is not None
        if self.process.poll() is not None:
            tail = self.log_path.read_text()[-2000:]
            raise RuntimeError(f"{self.instance} ended with {self.process.returncode}:\n{tail}")
        return self.ready_path.exists()

    def wait_ready(self, timeout_s: float = WAIT_S) -> None:
        wait_for(lambda: self.is_ready, f"{self.instance} ready", timeout_s)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, by pid."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()

    def ask_to_stop(self) -> None:
        """SIGTERM, once: a second one ends the drain."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()

    def stop(self, timeout_s: float = 20.0) -> int:
        """SIGTERM, and wait for the drain."""
        self.ask_to_stop()
        return self.end(timeout_s)

    def end(self, timeout_s: float = 20.0) -> int:
        """Wait for its end, and kill it where that does not come; its exit code."""
        assert self.process is not None
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._close()
        return self.process.returncode

    def _close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


class RealStack:
    """Kafka, Cassandra, topics and tables in ``folder``; roles are added one by one."""

    def __init__(self, folder: Path, *, partitions: int = 4, prefix: str = "waterclock") -> None:
        self.folder = folder
        self.partitions = partitions
        self.names = Names(prefix)
        self.roles: dict[str, RoleProcess] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.cassandra: Server | None = None
        self.kafka: Server | None = None
        try:
            self.cassandra = self.launch_cassandra(free_port())
            self.kafka = self.launch_kafka(free_port())
            self.kafka.wait_ready()
            ensure_topics(self.bootstrap, stamped_by_the_broker(self.names, topic_specs(self.names, partitions)))
            self.cassandra.wait_ready()
            migrate(["127.0.0.1"], self.cassandra.port, "waterclock", SystemClock(), replication=1)
        except BaseException:
            self.close()
            raise

    def launch_cassandra(self, port: int) -> Server:
        """A node on its way, on the data that is there; a check may have it otherwise."""
        lay_out("cassandra", self.folder)
        return launch_cassandra(self.folder / "cassandra", port=port, kit=kit())

    def launch_kafka(self, port: int) -> Server:
        """The same for the broker."""
        lay_out("kafka", self.folder)
        return launch_kafka(self.folder / "kafka", port=port, kit=kit())

    @property
    def kafka_data(self) -> Path:
        """Where the broker keeps its partitions, a folder each."""
        return self.folder / "kafka" / "logs"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.kafka.port}"

    @property
    def env(self) -> dict[str, str]:
        return {
            "WATERCLOCK_KAFKA__BOOTSTRAP": self.bootstrap,
            "WATERCLOCK_KAFKA__PREFIX": self.names.prefix,
            "WATERCLOCK_CASSANDRA__PORT": str(self.cassandra.port),
            "WATERCLOCK_PARTITIONS": str(self.partitions),
        }

    def role(self, role: str, instance: str, *, module: str = "", args: Sequence[str] = (), **env: str) -> RoleProcess:
        """Start a role process (``dispatcher``, ``workers``, ``retry_router``, ``recorder``).

        ``module`` runs in the role's place where a check wraps it, with these ``args``.
        """
        log, ready = self.folder / f"{instance}.log", self.folder / f"{instance}.ready"
        process = RoleProcess(role, instance, {**self.env, **env}, log, ready, list(args), module)
        self.roles[instance] = process
        return process.start()

    def close(self) -> None:
        left = [each for each in self.roles.values() if each.process is not None and each.process.poll() is None]
        for role in left:  # all of them at once: their drains are waits
            role.ask_to_stop()
        for role in left:
            role.end()
        # Nobody reads what they hold any more; Cassandra takes five seconds to put it down.
        for server in (self.kafka, self.cassandra):
            if server is not None:
                server.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
