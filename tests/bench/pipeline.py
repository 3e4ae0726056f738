"""The whole pipeline under load: both servers and the roles on this machine, judged from topics and tables.

Three measurements of the first bars (``bench-first``), each on fresh servers (leftover partitions lengthen the broker's
pauses):

* ``throughput``: interval jobs of 2 s with one start; from their first instant until all runs stand SUCCEEDED in
  Cassandra;
* ``steady``: 1,667 runs a second, spread evenly; from due to STARTED as a separate read_committed consumer sees it, and
  to the handler's first line;
* ``herd``: 5,000 runs in one instant.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

import psutil
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import tuple_factory
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.acceptance.real_stack import RealStack, RoleProcess, kit, wait_for
from tests.bench.figures import Figures, quantiles
from tests.oracle.records import decode
from waterclock.model.job import MUST_BE_NEW, Command, CommandKind, Every, JobSpec
from waterclock.stack.servers import Server, launch_cassandra
from waterclock.store.drawers import drawer_of
from waterclock.wire import messages

US = 1_000_000
ROLES = (
    ("dispatcher", "dispatcher-1"),
    ("workers", "worker-1"),
    ("retry_router", "retry-router-1"),
    ("recorder", "recorder-1"),
)


AS_A_REPLICA: dict[str, object] = {
    "commitlog_sync": "periodic",
    "commitlog_sync_period": "10000ms",
    "concurrent_writes": 8,
}
"""Cassandra's own default, with which the nodes of a cluster run: what one of them loses when it is killed, the others
have. Our local node is alone and syncs before it answers (``batch``)."""

ALONE: dict[str, object] = {}
"""As ``waterclock up`` starts it."""


class _Stack(RealStack):
    """One whose node has these keys of cassandra.yaml."""

    def __init__(self, folder: Path, node: Mapping[str, object], partitions: int) -> None:
        self._node = node
        super().__init__(folder, partitions=partitions)

    def launch_cassandra(self, port: int) -> Server:
        return launch_cassandra(self.folder / "cassandra", port=port, kit=kit(), overrides=self._node)


class Pipeline:
    """A running stack with the roles ``roles`` (one process of each of the first four, unless told otherwise)."""

    def __init__(
        self,
        *,
        slots: int = 4_000,
        sink: bool = False,
        node: Mapping[str, object] = MappingProxyType(AS_A_REPLICA),
        roles: Sequence[tuple[str, str]] = ROLES,
        partitions: int = 4,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``env`` is told to every role, and wins. ``sink``: the handler notes in a file when it ran."""
        self.folder = Path(tempfile.mkdtemp(prefix="waterclock-bench-"))
        self.sink = self.folder / "handler.txt"
        self._ended: dict[str, float] = {}
        self._created = 0
        self.stack = _Stack(self.folder, node, partitions)
        self.env = {"WATERCLOCK_WORKER__APP": "tests.bench.noop_app:app", "WATERCLOCK_WORKER__SLOTS": str(slots)}
        self.env |= {"WATERCLOCK_WORKER__ROUND_RECORDS": "2000", "WATERCLOCK_LOG_LEVEL": "warning"}
        if sink:
            self.env["WATERCLOCK_BENCH_SINK"] = str(self.sink)
        self.env |= env
        try:
            self.roles = self.begin(roles)
            self.cluster = Cluster(
                ["127.0.0.1"],
                port=self.stack.cassandra.port,
                protocol_version=4,
                connect_timeout=60,
                control_connection_timeout=60,
                execution_profiles={
                    EXEC_PROFILE_DEFAULT: ExecutionProfile(
                        row_factory=tuple_factory, consistency_level=ConsistencyLevel.ONE, request_timeout=60
                    )
                },
            )
            self.session = self.cluster.connect("waterclock")
        except BaseException:
            self.stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, trouble: object, *_: object) -> None:
        self.cluster.shutdown()
        self.stack.close()
        if trouble is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"logs are kept: {self.folder}", flush=True)

    def of(self, role: str) -> list[RoleProcess]:
        """The processes of a role that were started."""
        return [process for process in self.stack.roles.values() if process.role == role]

    def begin(self, roles: Sequence[tuple[str, str]], **more: str) -> list[RoleProcess]:
        """Start these (role, instance), and wait until all of them are ready."""
        begun = [self.stack.role(role, instance, **{**self.env, **more}) for role, instance in roles]
        for role in begun:
            role.wait_ready()
        return begun

    def create(self, specs: dict[str, JobSpec], within_s: float = 180.0) -> None:
        """Append CREATE for each job, and wait until every job's row stands in Cassandra."""
        producer = Producer(
            {
                "bootstrap.servers": self.stack.bootstrap,
                "partitioner": "murmur2_random",
                "acks": "all",
                "queue.buffering.max.messages": 200_000,
            }
        )
        now = time.time_ns() // 1_000
        for job_id, spec in specs.items():
            command = Command(
                CommandKind.CREATE, job_id, job_id, "bench", now, expected_revision=MUST_BE_NEW, spec=spec
            )
            message = messages.command_message(self.stack.names, command)
            producer.produce(message.topic, message.value, message.key, headers=list(message.headers))
            producer.poll(0)
        producer.flush(60)
        self._created += len(specs)
        wait_for(lambda: self.count("SELECT job_id FROM jobs") >= self._created, "jobs in Cassandra", within_s, 3.0)

    def count(self, query: str) -> int:
        return sum(1 for _ in self.session.execute(query))

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far of every process, servers included."""
        pids = {"kafka": self.stack.kafka.pid, "cassandra": self.stack.cassandra.pid}
        living = (role for role in self.stack.roles.values() if role.instance not in self._ended)
        pids |= {role.instance: role.pid for role in living}
        return self._ended | {name: _cpu_s(pid) for name, pid in pids.items()}

    def end(self, role: RoleProcess) -> None:
        """Stop one; what it has used is kept."""
        self._ended[role.instance] = _cpu_s(role.pid)
        role.stop()

    def end_load(self, last: int) -> None:
        """Stop the dispatcher once its cursors have passed ``last``: interval jobs would fire for ever.

        Else it would go on taking the two cores from those that have still to run and to record.
        """
        group, topic = self.stack.names.group("dispatcher"), self.stack.names.commands
        # Uncommitted: else no answer comes while any of the partitions is within a round, and of 256 one always is.
        asker = Consumer(
            {"bootstrap.servers": self.stack.bootstrap, "group.id": group, "isolation.level": "read_uncommitted"}
        )
        places = [TopicPartition(topic, partition) for partition in range(self.stack.partitions)]

        def passed() -> bool:
            if time.time() < last / US + 1:
                return False
            cursors = [place.metadata or "" for place in asker.committed(places, 10)]
            return all(cursor and int(cursor.split("|")[1]) > last for cursor in cursors)

        wait_for(passed, "cursors past the last fire", 300, 0.1)
        asker.close()
        for role in self.of("dispatcher"):
            self.end(role)

    def succeeded(self, job_ids: list[str], day: int, fires: int) -> bool:
        """Whether each of these jobs has ``fires`` SUCCEEDED rows."""
        query = self.session.prepare("SELECT status FROM runs_by_drawer WHERE day=? AND drawer=? AND job_id=?")
        for job_id in job_ids:
            rows = list(self.session.execute(query, (day, drawer_of(job_id), job_id)))
            if sum(1 for row in rows if row[0] == 3) < fires:
                return False
        return True


def _cpu_s(pid: int) -> float:
    spent = psutil.Process(pid).cpu_times()
    return spent.user + spent.system


class Seen(threading.Thread):
    """A read_committed consumer of run-events: when each STARTED was seen, by this machine's clock."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench.seen",
                "fetch.wait.max.ms": 100,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(topic, part, 0) for part in range(partitions)])
        self._ended = threading.Event()
        self._raw: list[tuple[int, bytes]] = []

    def run(self) -> None:
        while not self._ended.is_set():
            first = self._consumer.poll(0.05)
            batch = [first, *self._consumer.consume(2_000, 0)] if first is not None else []
            now = time.time_ns() // 1_000
            self._raw += [(now, message.value()) for message in batch if message.error() is None]
        self._consumer.close()

    def stop(self) -> list[tuple[int, dict[str, object]]]:
        """(seen at, event) of everything; decoded only now."""
        self._ended.set()
        self.join()
        return [(seen_at, decode(value)[1]) for seen_at, value in self._raw]


def throughput(
    figures: Figures,
    *,
    jobs: int = 12_000,
    fires: int = 18,
    lead_s: int = 85,
    prepared: Callable[[RealStack], None] = lambda _: None,
    node: Mapping[str, object] = MappingProxyType(AS_A_REPLICA),
    label: str = "",
) -> float:
    """Runs per second from stored due rows until counted in Cassandra. ``prepared`` sees the stack first."""
    with Pipeline(node=node) as pipeline:
        prepared(pipeline.stack)
        start_at = (time.time_ns() // 1_000_000_000 + lead_s) * US
        spec = JobSpec("bench.noop", Every(2 * US, start_at))
        names = [f"bench:job-{number}" for number in range(jobs)]
        pipeline.create(dict.fromkeys(names, spec))
        left_s = start_at / US - time.time()
        figures.add(f"{label}created_ahead_s", left_s, "s")
        if left_s < 3:
            raise RuntimeError(f"the jobs stood only {left_s:.1f} s before their first instant: nothing was provoked")
        time.sleep(left_s)
        before = pipeline.cpu_s()
        last = start_at + (fires - 1) * 2 * US
        pipeline.end_load(last)
        sample, day = names[:: max(1, jobs // 300)], start_at // (86_400 * US)
        wait_for(lambda: pipeline.succeeded(sample, day, fires), "all runs in Cassandra", 300, 0.25)
        took_s = time.time() - start_at / US
        spent = {name: after - before[name] for name, after in pipeline.cpu_s().items()}
        query = "SELECT status, fire_at FROM runs_by_drawer"
        statuses = Counter(status for status, fire_at in pipeline.session.execute(query) if fire_at <= last)
        total = jobs * fires
        if statuses != {3: total}:
            raise RuntimeError(f"wanted {total} SUCCEEDED rows, found {dict(statuses)}")
        figures.add(f"{label}runs_per_s", total / took_s, "runs/s", n=total)
        for name, cpu_s in spent.items():
            figures.add(f"{label}cpu_us_per_run.{name}", cpu_s / total * US, "us", n=total)
        figures.add(f"{label}cpu_us_per_run.all", sum(spent.values()) / total * US, "us", n=total)
        return total / took_s


def delays(
    pipeline: Pipeline, seen: Seen, figures: Figures, label: str, *, warm_from: int, until: int
) -> dict[str, float]:
    """Due to STARTED seen, and due to the handler's first line, in ms; of runs due from ``warm_from`` to ``until``.

    What was due before is told apart as ``cold``: servers that have just been started compile while they serve.
    """
    events = seen.stop()
    pipeline.of("workers")[0].stop()  # its handler's notes are flushed when it ends
    due = {event["run_id"]: event["pending"]["due_at"] for _, event in events if event["kind"] == "PENDING"}
    due = {run_id: at for run_id, at in due.items() if at <= until}
    started = {event["run_id"]: at for at, event in events if event["kind"] == "STARTED"}
    lines = (line.split() for line in pipeline.sink.read_text().splitlines())
    handled = {run_id: int(at) for at, run_id in lines}
    missing = due.keys() - (started.keys() & handled.keys())
    if missing:
        raise RuntimeError(f"{len(due)} runs, but {len(missing)} were not started or did not reach the handler")
    for phase, wanted in (("cold.", lambda at: at < warm_from), ("", lambda at: at >= warm_from)):
        of_phase = [run_id for run_id, at in due.items() if wanted(at)]
        for what, ends in (("started", started), ("handler", handled)):
            found = quantiles([(ends[run_id] - due[run_id]) / 1_000 for run_id in of_phase])
            for name, value in found.items():
                figures.add(f"{label}.{phase}due_to_{what}.{name}", value, "ms", n=len(of_phase))
            if what == "started":
                judged = found
    return judged


def steady(figures: Figures, *, jobs: int = 10_002, warm_up_s: int = 30, seconds: int = 60) -> dict[str, float]:
    """1,667 runs/s, one every 600 us; the first ``warm_up_s`` are told apart."""
    with Pipeline(sink=True) as pipeline:
        start_at = (time.time_ns() // 1_000_000_000 + 60) * US
        specs = {
            f"bench:job-{number}": JobSpec("bench.noop", Every(6 * US, start_at + number * 6 * US // jobs))
            for number in range(jobs)
        }
        pipeline.create(specs)
        seen = _at_start(pipeline, start_at)
        time.sleep(2 + warm_up_s)
        before = pipeline.cpu_s()
        time.sleep(seconds)
        spent = {name: after - before[name] for name, after in pipeline.cpu_s().items()}
        for name, cpu_s in spent.items():
            figures.add(f"steady.cores.{name}", cpu_s / seconds, "cores")
        figures.add("steady.cores.all", sum(spent.values()) / seconds, "cores")
        warm_from = start_at + warm_up_s * US
        time.sleep(2)  # the last runs of the window start; one that has not by then raises in delays()
        return delays(pipeline, seen, figures, "steady", warm_from=warm_from, until=warm_from + seconds * US)


def herd(figures: Figures, *, runs: int = 5_000, warm_up: int = 3, herds: int = 8) -> dict[str, float]:
    """``runs`` in one instant, every 5 s; the first ``warm_up`` instants are told apart, ``herds`` are judged."""
    with Pipeline(sink=True) as pipeline:
        start_at = (time.time_ns() // 1_000_000_000 + 45) * US
        spec = JobSpec("bench.noop", Every(5 * US, start_at))
        pipeline.create({f"bench:job-{number}": spec for number in range(runs)})
        seen = _at_start(pipeline, start_at)
        last = start_at + (warm_up + herds - 1) * 5 * US
        time.sleep(last / US - time.time() + 4)
        return delays(pipeline, seen, figures, "herd", warm_from=start_at + warm_up * 5 * US, until=last)


def _at_start(pipeline: Pipeline, start_at: int) -> Seen:
    """Wait until 2 s before ``start_at``, and begin to watch."""
    left_s = start_at / US - time.time()
    if left_s < 3:
        raise RuntimeError("the jobs were made too late: nothing was provoked")
    time.sleep(left_s - 2)
    seen = Seen(pipeline.stack.bootstrap, pipeline.stack.names.run_events, 4)
    seen.start()
    return seen
