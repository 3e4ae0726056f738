"""The stage of real fire: both servers behind proxies, on ports and data that they come back to, and all roles.

The broker has two doors: one that only the roles and clients know, whose address is the proxy's, so that every
connection of theirs goes through it; and a plain one for whoever looks on. So no answer needs rewriting, and what a
check reads is not disturbed by what it does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.real_stack import RealStack, kit, wait_for
from tests.chaos.rights import Rights, faked, mount_small_disk, unmount
from tests.chaos.schedule import CASSANDRA, KAFKA
from tests.free_ports import free_port
from waterclock.stack import leash as leash_program
from waterclock.stack.kafka_server import Doors, new_cluster_id
from waterclock.stack.server import Server
from waterclock.stack.servers import launch_kafka

DISK_MB = 3_000
"""Of the broker's data. Nothing fills it but the fault that is to."""

_BROKER = """\
process.roles=broker
node.id=2
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{{port}},PROXIED://127.0.0.1:{proxied}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},PROXIED://127.0.0.1:{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
"""
_CONTROLLER = """\
process.roles=controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{{port}}
listeners=CONTROLLER://127.0.0.1:{{port}}
advertised.listeners=CONTROLLER://127.0.0.1:{{port}}
broker.session.timeout.ms=3000
"""
"""A process of its own, that is left alone: it sees that the broker is gone before that comes back, so the broker does
not lead twice at its start, which would set off a bug of Kafka's (``waterclock/stack/kafka_server.py``)."""

_CONTROLLER_MB = 128
_OUT_OF_SYNC = "out of sync with the underlying log"


class Proxy:
    """The process of one proxy, seen from here."""

    def __init__(self, folder: Path, server: str, port: int, upstream_port: int) -> None:
        self.port = port
        self._notes = folder / f"proxy-{server}.jsonl"
        leash = [sys.executable, "-I", "-S", leash_program.__file__, str(os.getpid())]
        words = [str(port), str(upstream_port), str(self._notes), server]
        with (folder / f"proxy-{server}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*leash, sys.executable, "-m", "tests.chaos.proxy", *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        wait_for(lambda: self._notes.exists() and self._notes.read_text(), f"the proxy of {server}")

    def order(self, **what: object) -> None:
        """See ``proxy.Weather.obey``. Raises BrokenPipeError where the proxy is gone: nothing may count then."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()

    def notes(self) -> list[dict[str, Any]]:
        """Which orders it has obeyed, and what it did to EndTxn requests."""
        return [json.loads(line) for line in self._notes.read_text().splitlines()]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Stage(RealStack):
    """Servers and roles of a play of real fire."""

    def __init__(self, folder: Path, *, partitions: int, rights: Rights) -> None:
        self.rights = rights
        self.proxies: dict[str, Proxy] = {}
        self._proxied_port, self._proxy_port, self._controller_port = free_port(), free_port(), free_port()
        self._cluster = new_cluster_id()
        self._controller: Server | None = None
        if rights.own_mounts:
            mount_small_disk(folder / "kafka", DISK_MB)
        super().__init__(folder, partitions=partitions)
        self.proxies[KAFKA] = Proxy(folder, KAFKA, self._proxy_port, self._proxied_port)
        self.proxies[CASSANDRA] = Proxy(folder, CASSANDRA, free_port(), self.cassandra.port)

    def launch_kafka(self, port: int) -> Server:
        if self._controller is None:
            self._controller = self._launch_controller()
        properties = _BROKER.format(
            proxied=self._proxied_port, proxy=self._proxy_port, controller=self._controller_port
        )
        # Its log stands elsewhere: it has to tell that the disk is full.
        log, doors = self.folder / "kafka.log", Doors(properties, cluster=self._cluster)
        return launch_kafka(self.folder / "kafka", port=port, kit=kit(), log_path=log, doors=doors)

    def _launch_controller(self) -> Server:
        usual = kit()
        small = usual._replace(heaps=usual.heaps._replace(kafka_mb=_CONTROLLER_MB))
        log, doors = self.folder / "controller.log", Doors(_CONTROLLER.format(), cluster=self._cluster)
        folder = self.folder / "controller"
        return launch_kafka(folder, port=self._controller_port, kit=small, log_path=log, doors=doors)

    def server(self, name: str) -> Server:
        return self.kafka if name == KAFKA else self.cassandra

    def forgotten_positions(self) -> list[str]:
        """The broker's own words for each time that it served groups without having read what they had committed."""
        lines = (self.folder / "kafka.log").read_text(errors="replace").splitlines()
        return [line for line in lines if _OUT_OF_SYNC in line]

    def relaunch(self, name: str) -> None:
        """Start a server that has ended on its own port and data; returns before it is ready."""
        if name == KAFKA:
            self.kafka = self.launch_kafka(self.kafka.port)
        else:
            self.cassandra = self.launch_cassandra(self.cassandra.port)
        if self.server(name).picked.holder is not None:
            raise RuntimeError(f"{name}: somebody took its port: {self.server(name).picked.holder}")

    @property
    def env(self) -> dict[str, str]:
        """Of roles and clients: they know the proxies alone."""
        return {
            **super().env,
            "WATERCLOCK_KAFKA__BOOTSTRAP": f"127.0.0.1:{self._proxy_port}",
            "WATERCLOCK_CASSANDRA__PORT": str(self.proxies[CASSANDRA].port),
        }

    @property
    def faked_clock(self) -> Path:
        """What it holds is how far the faked role's clock is off."""
        return self.folder / "clock-offset"

    def faked_env(self) -> dict[str, str]:
        """Of the role whose clock jumps; empty where that cannot be had."""
        self.faked_clock.write_text("+0\n")
        return faked(self.rights.faketime, file=self.faked_clock) if self.rights.faketime else {}

    def role_of(self, instance: str) -> str:
        """``dispatcher-2`` -> ``dispatcher``; the module of that name runs it."""
        word = instance.rpartition("-")[0].replace("-", "_")
        return {"worker": "workers"}.get(word, word)

    def close(self) -> None:
        """Whoever still runs is killed: a play that broke off has nothing to drain, and many to wait for."""
        for role in self.roles.values():
            if role.process is not None and role.process.poll() is None:
                role.kill()
        super().close()
        if self._controller is not None:
            self._controller.stop()
        for proxy in self.proxies.values():
            proxy.close()
        if self.rights.own_mounts:
            unmount(self.folder / "kafka")
