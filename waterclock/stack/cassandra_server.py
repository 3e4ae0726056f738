"""Cassandra as a child process: one node, one token, ready in about seven seconds.

Small on purpose. ``unsafe_system`` (tests only) skips the flushes of schema changes: a table is made in 50 ms.
Killing it is safe: a write is answered when the commit log has it (``commitlog_sync: batch``). With ``periodic`` a log
is read again only up to its last mark, which is set ten times a second, less often on a busy machine: in an hour of
kills 23 rows of runs went back to what they had been, because what was answered behind the mark was gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from .child import Child
from .cql_probe import listening, release_version
from .datafolder import claim_folder
from .jars import CASSANDRA, jars_of
from .kit import Kit
from .memory import Heaps
from .ports import pick_port
from .server import Server

DEFAULT_PORT = 9042
_NICENESS = 4
"""Not 10: a machine that was busy with other things starved it, and its node took too long to agree on a table."""

_TIMER_SLACK_NS = 1_000_000
"""Its idle workers look for work every 10 us (SEPWorker.doWaitSpin), which Linux makes 60, until 10 ms after the last
request: 24,000 wake-ups a second by 190 requests, 0.15 of a core, and each pushes somebody else off. So they look every
1 ms, and so long a request may wait for one of them."""

_STORAGE_PORT = 7000

_EXPORTS = """
    java.base/jdk.internal.misc java.base/java.lang.ref java.management.rmi/com.sun.jmx.remote.internal.rmi
    java.rmi/sun.rmi.registry java.rmi/sun.rmi.server java.sql/java.sql jdk.unsupported/sun.misc
    jdk.compiler/com.sun.tools.javac.file jdk.attach/sun.tools.attach
""".split()  # noqa: SIM905 - a column of forty quoted names is harder to compare with the manual

_OPENS = """
    java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref java.base/jdk.internal.reflect
    java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar java.base/sun.nio.ch
    java.base/java.io java.base/java.lang java.base/java.lang.reflect java.base/java.util java.base/java.nio
    java.base/java.util.concurrent java.base/java.util.concurrent.atomic
    jdk.management/com.sun.management.internal jdk.compiler/com.sun.tools.javac
""".split()  # noqa: SIM905 - the same

_LOGBACK = """\
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5level [%thread] %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""


def launch_cassandra(
    data_dir: Path,
    kit: Kit,
    *,
    port: int,
    unsafe_system: bool,
    log_path: Path,
    overrides: Mapping[str, object] = MappingProxyType({}),
) -> Server:
    """Write the configuration and start the node; returns before it is ready. Raises StackTrouble.

    ``overrides``: keys of cassandra.yaml. One with passwords counts as ready when it listens.
    """
    claim_folder(data_dir, CASSANDRA)
    lib = jars_of(CASSANDRA, kit.jars)
    picked = pick_port(port)
    storage_port = pick_port(picked.port - DEFAULT_PORT + _STORAGE_PORT if picked.port > DEFAULT_PORT else 7000).port
    conf = data_dir / "conf"
    conf.mkdir(exist_ok=True)
    (data_dir / "tmp").mkdir(exist_ok=True)
    # JSON is YAML; Cassandra's reader wants one document.
    settings = _settings(picked.port, storage_port, kit.heaps) | dict(overrides)
    (conf / "cassandra.yaml").write_text(json.dumps(settings, indent=1) + "\n")
    (conf / "logback.xml").write_text(_LOGBACK)
    command = _command(kit, lib, data_dir, unsafe_system=unsafe_system)
    child = Child("cassandra", command, log_path, timer_slack_ns=_TIMER_SLACK_NS)
    answers = listening if "authenticator" in overrides else release_version
    # Nothing that fires waits for it: due rows are loaded a minute ahead, history is written behind. Kafka it must not
    # hold up: p99 of due to started was 316 ms with equal shares and 141 so (two busy cores, interleaved).
    return Server(CASSANDRA, child, picked, lambda: answers(picked.port), niceness=_NICENESS)


def _settings(port: int, storage_port: int, heaps: Heaps) -> dict[str, object]:
    seeds = [{"seeds": f"127.0.0.1:{storage_port}"}]
    return {
        "cluster_name": "waterclock",
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "num_tokens": 1,
        "initial_token": "0",
        "endpoint_snitch": "SimpleSnitch",
        "commitlog_sync": "batch",
        "commitlog_segment_size": "16MiB",
        "commitlog_total_space": "256MiB",
        "storage_compatibility_mode": "NONE",
        "listen_address": "127.0.0.1",
        "rpc_address": "127.0.0.1",
        "storage_port": storage_port,
        "native_transport_port": port,
        "start_native_transport": True,
        "auto_snapshot": False,
        "auto_bootstrap": False,
        "concurrent_reads": 8,
        "concurrent_writes": 32,  # each waits for its sync, and one sync is for all that wait
        "concurrent_counter_writes": 2,
        "disk_access_mode": "mmap_index_only",
        "memtable_heap_space": f"{heaps.memtable_mb}MiB",
        "memtable_offheap_space": f"{heaps.memtable_mb}MiB",
        "cas_contention_timeout": "3000ms",
        "paxos_variant": "v2",
        # History goes out in batches of 20-30 rows of many partitions: one node, no fan-out, nothing to warn of.
        "batch_size_warn_threshold": "64KiB",
        "unlogged_batch_across_partitions_warn_threshold": 50,
        "sai_options": {"segment_write_buffer_size": "64MiB"},
        "seed_provider": [{"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": seeds}],
    }


def _command(kit: Kit, lib: Path, data_dir: Path, *, unsafe_system: bool) -> list[str]:
    conf = data_dir / "conf"
    scratch = data_dir / "tmp"
    return [
        str(kit.java.program),
        f"-Xms{kit.heaps.cassandra_mb}m",
        f"-Xmx{kit.heaps.cassandra_mb}m",
        "-XX:+UseSerialGC",
        *kit.compiler_options,
        *kit.class_options(CASSANDRA, lib),
        "-XX:+ExitOnOutOfMemoryError",
        *(f"--add-exports={module}=ALL-UNNAMED" for module in _EXPORTS),
        *(f"--add-opens={module}=ALL-UNNAMED" for module in _OPENS),
        *(f"-javaagent:{jar}" for jar in lib.glob("jamm-*.jar")),
        *kit.java.security_manager_options,
        "-Djdk.attach.allowAttachSelf=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.maxOrder=11",
        f"-Dcassandra.config={(conf / 'cassandra.yaml').as_uri()}",
        f"-Dcassandra.storagedir={data_dir}/data",
        "-Dcassandra-foreground=yes",
        "-Dcassandra.ring_delay_ms=1",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.superuser_setup_delay_ms=0",
        *(["-Dcassandra.unsafesystem=true"] if unsafe_system else []),
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlogback.configurationFile={conf}/logback.xml",
        "-cp",
        f"{lib}/*",
        "org.apache.cassandra.service.CassandraDaemon",
    ]
