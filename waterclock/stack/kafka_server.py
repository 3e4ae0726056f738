"""Kafka as a child process: one KRaft node, broker and controller in one JVM, ready in about three seconds.

Small and fast on purpose: four partitions for offsets and transactions (their number cannot change later), no delay
before the first rebalance, few threads, for each hand-over waits for a core. Topics are never made by accident
(``auto.create.topics.enable=false``).

Danger: not everything may be quick. Where timed-out transactions are looked for every half second, a broker that comes
back after such a time-out aborts them while it starts, before it can be reached: it notes them as aborted, and their
markers are never written. Readers of committed records then stand still for ever. With Kafka's own 10 s it is up first.

Danger: a broker that was killed and comes back replays the logs of its coordinators twice: when it has read that it was
the leader, and when its old registration is over (``broker.session.timeout.ms``, 9 s) and it leads anew. Kafka (4.3.1
and 4.4.0; CoordinatorRuntime, CompleteLoad) takes the end of any replay for the end of the newest. Where the first one
is not over by then, the coordinator serves groups from an empty or half-read log ("out of sync with the underlying
log"): committed positions are gone or old for a while, or it is given up (NOT_COORDINATOR until the next start).
So a replay is kept short: we write much into these logs (metadata beside each offset), only closed segments are
compacted, and of Kafka's own 100 MB none is closed for long. A longer time-out would make every start as long.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import uuid
from array import array
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from .child import Child
from .datafolder import claim_folder
from .jars import KAFKA, jars_of
from .kit import Kit
from .ports import PickedPort, pick_port
from .server import Server
from .trouble import StackTrouble

DEFAULT_PORT = 9092
_FORMAT_TIMEOUT_S = 60
_REPLAYS = "org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime"
"""Who tells of the replays: a few lines at a start."""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
offsets.topic.num.partitions=4
offsets.topic.segment.bytes=4194304
transaction.state.log.segment.bytes=4194304
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=300
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=1
num.io.threads=3
"""


class Doors(NamedTuple):
    """How a broker is entered that is not open to all: for trying TLS, SASL and rights.

    ``properties`` come last, and win; ``{port}`` and ``{controller_port}`` in them are filled in. ``users``: password
    by name, for SCRAM. ``client``: how its administrator gets in, which is how it is asked whether it is ready.
    ``cluster``: the id of the cluster that it is to be part of; "": one of its own.
    """

    properties: str = ""
    users: Mapping[str, str] = MappingProxyType({})
    client: Mapping[str, str] = MappingProxyType({})
    cluster: str = ""


OPEN = Doors()


def launch_kafka(data_dir: Path, kit: Kit, *, port: int, log_path: Path, doors: Doors = OPEN) -> Server:
    """Format the storage once, then start the broker; returns before it is ready. Raises StackTrouble."""
    claim_folder(data_dir, KAFKA)
    lib = jars_of(KAFKA, kit.jars)
    picked = pick_port(port)
    properties = _write_properties(data_dir, picked, doors)
    _format(kit, lib, data_dir, properties, doors)
    child = Child("kafka", _command(kit, lib, properties), log_path)
    return Server(KAFKA, child, picked, lambda: cluster_id(picked.port, client=doors.client))


def cluster_id(port: int, timeout_s: float = 2.0, *, client: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """The cluster id, if a broker answers a metadata request on 127.0.0.1:``port``; None if not."""
    if not _listens(port):
        return None  # spares librdkafka's back-off and its complaints
    quiet: dict[str, Any] = {"error_cb": lambda _: None, "log_level": 0, "client.id": "waterclock.ready"}
    admin = AdminClient({**client, "bootstrap.servers": f"127.0.0.1:{port}", **quiet})
    try:
        found = admin.list_topics(timeout=timeout_s)
    except KafkaException:
        return None
    return str(found.cluster_id) if found.brokers and found.controller_id >= 0 else None


def _write_properties(data_dir: Path, picked: PickedPort, doors: Doors) -> Path:
    properties = data_dir / "server.properties"
    controller = pick_port(picked.port + 1, taken=(picked.port,)).port
    text = _PROPERTIES.format(port=picked.port, controller_port=controller, data=_as_property(data_dir / "logs"))
    # Of a property that is there twice the last one counts.
    text += doors.properties.replace("{port}", str(picked.port)).replace("{controller_port}", str(controller))
    properties.write_text(text)
    return properties


def _as_property(folder: Path) -> str:
    """Java reads the file as Latin-1 and a backslash as an escape. Raises StackTrouble for a comma: two folders."""
    if "," in str(folder):
        raise StackTrouble(
            f"Kafka cannot keep its data in {folder}: it takes the comma for the end of a folder's name",
            hint="Use a --data-dir without a comma",
        )
    units = array("H", str(folder).encode("utf-16", "surrogatepass")[2:])
    return "".join(chr(unit) if 32 <= unit < 127 and unit != ord("\\") else f"\\u{unit:04x}" for unit in units)


def new_cluster_id() -> str:
    """A cluster id that nobody has."""
    new_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return f"w{new_id[1:]}"  # one that begins with a dash would be read as an option


def _format(kit: Kit, lib: Path, data_dir: Path, properties: Path, doors: Doors) -> None:
    """``StorageTool format`` (0.9 s), once for a data folder."""
    if (data_dir / "logs" / "meta.properties").exists():
        return
    cluster = doors.cluster or new_cluster_id()
    tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", cluster, "-c", str(properties)]
    for name, password in doors.users.items():
        tool += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
    quick = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    done = subprocess.run(  # noqa: S603 - a program of ours with words of ours
        [str(kit.java.program), *quick, "-cp", f"{lib}/*", *tool],
        capture_output=True,
        text=True,
        timeout=_FORMAT_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise StackTrouble(
            f"Kafka could not format its storage in {data_dir}:\n{said}", hint="Use another --data-dir, or free space"
        )


def _command(kit: Kit, lib: Path, properties: Path) -> list[str]:
    return [
        str(kit.java.program),
        f"-Xms{kit.heaps.kafka_mb * 3 // 4}m",
        f"-Xmx{kit.heaps.kafka_mb}m",
        f"-Xmn{kit.heaps.kafka_mb * 3 // 8}m",
        "-XX:+UseParallelGC",  # everybody waits for its pauses: half as long, and half as often, as by the serial one
        *kit.compiler_options,
        *kit.class_options(KAFKA, lib),
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        f"-Dorg.slf4j.simpleLogger.log.{_REPLAYS}=info",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "-cp",
        f"{lib}/*",
        "kafka.Kafka",
        str(properties),
    ]


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5):
            return True
    except OSError:
        return False
