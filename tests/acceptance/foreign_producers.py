"""Services in Java and Go, and plain kcat, schedule jobs that run; what a Java transaction aborts schedules nothing.

The programs are those of the recipes (``docs/recipes/``), built by their own tools and run as they stand. Java takes
three orders, each in a transaction with the job event of its reminder: one commits, one aborts, one commits behind it
in the same partition. The last one's run is the proof that the aborted event was passed, not waited for. kcat's job
event lies in a partition that is not the job's own: kcat's partitioner is another one.

The short form leaves Go out (a first build fetches and compiles for longer than the check itself takes), and kcat where
it is not installed; it says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tests.acceptance import dumps
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.real_stack import RealStack, wait_for
from tests.oracle import runs as reducer
from tests.oracle.records import decode
from waterclock.model.ids import partition_of
from waterclock.stack.java import find_java

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = ROOT / "tests" / "acceptance" / "foreign"
SCHEMA = ROOT / "schemas" / "avro" / "job_event.avsc"
ORDERS = "shop.orders"
ROLES = {"intake-1": "intake", "dispatcher-1": "dispatcher", "worker-1": "workers"}

_BUILD_S = 600.0
_PRODUCE_S = 60.0
_RUNS_WITHIN_S = 60.0
_US_PER_MS = 1_000


class Cast(NamedTuple):
    """The jobs. ``wanted`` must run, ``aborted`` must never have been; ``kcat``, ``go``: "" where it takes no part."""

    committed: str
    aborted: str
    marker: str
    kcat: str
    go: str

    @property
    def wanted(self) -> list[str]:
        return [job for job in (self.committed, self.marker, self.kcat, self.go) if job]


def main(short: bool = False) -> None:
    _build_java()
    if not short:
        _build_go()
    with on_stage("foreign-producers") as (stack, evidence):
        _start(stack)
        cast = _cast(stack.partitions, short=short)
        _produce(stack, evidence, cast)
        wait_for(lambda: not _missing(stack, cast), f"a run of each of {cast.wanted}", _RUNS_WITHIN_S, every_s=0.5)
        _judge_runs(stack, evidence, cast)
        _judge_abort(stack, evidence, cast)
        _judge_keys(stack, evidence, cast)


# Building -----------------------------------------------------------------------------------------------------------


def _build_java() -> None:
    settings = ROOT / "compose" / "target" / "settings.xml"  # made by `make jars` where a mirror is set
    mirror = ["-s", str(settings)] if os.environ.get("WATERCLOCK_STACK__MAVEN_URL") and settings.exists() else []
    words = ["mvn", "--batch-mode", "--quiet", *mirror, "dependency:copy-dependencies", "-DoutputDirectory=target/lib"]
    _run(words, FOREIGN / "java", _BUILD_S)


def _build_go() -> None:
    _run(["go", "build", "-o", "target/schedule", "."], FOREIGN / "go", _BUILD_S)


def _run(words: list[str], folder: Path, timeout_s: float) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:4])} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


# Setting the stage --------------------------------------------------------------------------------------------------


def _start(stack: RealStack) -> None:
    admin = AdminClient(dumps.client(stack.bootstrap))
    for made in admin.create_topics([NewTopic(ORDERS, 1, 1)]).values():
        made.result(10)
    for instance, role in ROLES.items():
        stack.role(role, instance)
    for process in stack.roles.values():
        process.wait_ready()


def _cast(partitions: int, *, short: bool) -> Cast:
    """Names such that the marker lies behind the aborted event, in one partition of job-events."""
    aborted = "default:remind-o-2"
    marker = next(job for job in _orders_from(3) if partition_of(job, partitions) == partition_of(aborted, partitions))
    kcat = "" if short and shutil.which("kcat") is None else "default:by-kcat"
    return Cast("default:remind-o-1", aborted, marker, kcat, "" if short else "default:by-go")


def _orders_from(first: int) -> Iterator[str]:
    return (f"default:remind-o-{number}" for number in count(first))


def _produce(stack: RealStack, evidence: Evidence, cast: Cast) -> None:
    orders = [
        f"{job.removeprefix('default:remind-')}={amount}"
        for job, amount in ((cast.committed, 40), (cast.aborted, 0), (cast.marker, 12))
    ]
    java = [str(find_java().program), "-cp", "target/lib/*", "PlaceOrders.java", stack.bootstrap, str(SCHEMA)]
    evidence.figure("java said", _run([*java, *orders], FOREIGN / "java", _PRODUCE_S).split("\n")[:-1])
    if cast.go:
        _run(["target/schedule", stack.bootstrap, str(SCHEMA), _name(cast.go)], FOREIGN / "go", _PRODUCE_S)
    if not cast.kcat:
        evidence.figure("left out", "kcat is not installed (Debian: apt install kcat)")
        return
    wrong = (partition_of(cast.kcat, stack.partitions) + 1) % stack.partitions
    _run(["./schedule.sh", stack.bootstrap, _name(cast.kcat), "-p", str(wrong)], FOREIGN / "kcat", _PRODUCE_S)


def _name(job: str) -> str:
    return job.removeprefix("default:")


# Judging ------------------------------------------------------------------------------------------------------------


def _succeeded(stack: RealStack) -> dict[str, int]:
    """Runs that ended well, by job."""
    runs, _, _ = reducer.follow(dumps.dump(stack.bootstrap, stack.names.run_events))
    done = [run["job_id"] for run in runs.values() if run["status"] == "SUCCEEDED"]
    return {job: done.count(job) for job in set(done)}


def _missing(stack: RealStack, cast: Cast) -> list[str]:
    done = _succeeded(stack)
    return [job for job in cast.wanted if not done.get(job)]


def _judge_runs(stack: RealStack, evidence: Evidence, cast: Cast) -> None:
    done = _succeeded(stack)
    evidence.figure("runs that succeeded", {job: done.get(job, 0) for job in cast.wanted})
    evidence.none_of((job for job in done if job not in cast.wanted), "jobs that nobody asked for ran")
    rejects = dumps.dump(stack.bootstrap, stack.names.rejects)
    evidence.none_of((str(decode(each["value"])[1])[:300] for each in rejects), "records were refused")


def _judge_abort(stack: RealStack, evidence: Evidence, cast: Cast) -> None:
    """The aborted event was written, before the marker in its partition, and left no trace anywhere."""
    topic = stack.names.job_events
    committed = dumps.dump(stack.bootstrap, topic)
    kept = {(each["partition"], each["offset"]) for each in committed}
    everything = list(dumps.messages(stack.bootstrap, topic, committed=False))
    gone = [each for each in everything if (each.partition(), each.offset()) not in kept]
    evidence.figure("job events committed", len(committed), aborted=len(gone))
    names = [decode(each.value())[1]["name"] for each in gone]
    evidence.demand(names == [_name(cast.aborted)], f"the aborted job events are {names}")
    marker = [each for each in committed if each["key"] == cast.marker.encode()]
    behind = [each for each in gone if marker and each.partition() == marker[0]["partition"]]
    evidence.demand(
        bool(behind) and behind[0].offset() < marker[0]["offset"], "the marker does not lie behind the aborted event"
    )
    traces = [
        f"{place}[{each.partition()}] at {each.offset()}"
        for place in (stack.names.commands, stack.names.run_events, stack.names.rejects)
        for each in dumps.messages(stack.bootstrap, place, committed=False)
        if each.key() == cast.aborted.encode()
    ]
    evidence.none_of(traces, "records about the aborted job")
    jobs = {row.job_id for row in dumps.rows(stack.cassandra.port, "SELECT job_id FROM jobs")}
    evidence.demand(jobs == set(cast.wanted), f"the jobs in Cassandra are {sorted(jobs)}")
    orders = sorted(each["key"].decode() for each in dumps.dump(stack.bootstrap, ORDERS))
    placed = sorted(_name(job).removeprefix("remind-") for job in (cast.committed, cast.marker))
    evidence.demand(orders == placed, f"the orders that stand beside their reminders are {orders}")


def _judge_keys(stack: RealStack, evidence: Evidence, cast: Cast) -> None:
    """Where each job event lay, and that its command lies where the job belongs."""
    events = _first_by_key(dumps.dump(stack.bootstrap, stack.names.job_events))
    commands = _first_by_key(dumps.dump(stack.bootstrap, stack.names.commands))
    for job in cast.wanted:
        home = partition_of(job, stack.partitions)
        event, command = events[job], commands.get(job)
        evidence.demand(command is not None and command["partition"] == home, f"{job}: the command is {command}")
        if command is not None:
            evidence.figure(
                f"{job}: milliseconds from the job event to the command",
                (command["timestamp_us"] - event["timestamp_us"]) // _US_PER_MS,
                lay_in=event["partition"],
                belongs_in=home,
            )
    elsewhere = [job for job in cast.wanted if events[job]["partition"] != partition_of(job, stack.partitions)]
    evidence.demand(bool(elsewhere) or not cast.kcat, "every job event lay in its job's own partition")


def _first_by_key(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {(each["key"] or b"").decode(): each for each in reversed(records)}
