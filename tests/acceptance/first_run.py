"""From a fresh clone to the first run that succeeded, seen from outside, within a minute.

HEAD is cloned into an empty folder and ``make demo UNATTENDED=1`` is typed there. The clock runs from the end of
``git clone`` until a raw consumer of this check reads the first committed ``run.succeeded`` from run-events; the
start of the servers is what the kernel says of their processes. The machine's own work is printed beside the seconds
(load before, CPU of everything that the demo started), because on a busy machine seconds alone tell little.

Caches are filled beforehand, and that is not counted: Maven's by a clone that is thrown away, pip's by a folder of
wheels (an index that forbids caching leaves pip's own cache empty). Limit: so the network's part is not measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.acceptance.dumps import reader
from tests.acceptance.evidence import FallsShort
from waterclock.stack.cql_probe import release_version

SHORT_FORM = False

ROOT = Path(__file__).resolve().parents[2]
CLONE_TO_RUN_S_MAX = 60.0
SERVERS_TO_RUN_S_MAX = 20.0

_TOPIC = "waterclock.run-events"
_SUCCEEDED = b"io.waterclock.run.succeeded"
_GIVE_UP_S = 400.0
_END_WITHIN_S = 240.0
_TICKS = os.sysconf("SC_CLK_TCK")
_OURS = ("WATERCLOCK_", "MAKE", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH", "PYTEST_", "CI")


def main(short: bool = False) -> None:
    """Raises FallsShort where a bound is not kept or the demo does not end well."""
    if short:
        print("first-run has no short form")
        return
    folder = Path(tempfile.mkdtemp(prefix="first-run-"))
    try:
        shortfalls = _show(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if shortfalls:
        raise FallsShort("first-run: " + "; ".join(shortfalls))


def _show(folder: Path) -> list[str]:
    wheels = _wheels()
    _clone(folder / "thrown-away")
    _run(["make", "jars"], folder / "thrown-away", _environment(wheels))
    shutil.rmtree(folder / "thrown-away")

    _figure("commit", _clone(folder / "clone"))
    _figure("load average before", os.getloadavg()[0])
    began_s = time.time()
    with _demo(folder / "clone", _environment(wheels)) as demo:
        state = _first_success(folder / "clone", demo)
        seen_s = time.time()
        cpu_s = _cpu_s_below(demo.pid)
        servers_s = min(_born_s(process["pid"]) for process in state["processes"] if process["address"])
        _figure("cassandra release", release_version(state["cassandra_port"]))
        _figure("clone to servers started, s", round(servers_s - began_s, 1))
        _figure("servers started to first run, s", round(seen_s - servers_s, 1), bound=SERVERS_TO_RUN_S_MAX)
        _figure("clone to first run, s", round(seen_s - began_s, 1), bound=CLONE_TO_RUN_S_MAX)
        _figure("cpu seconds until then", round(cpu_s, 1))
        code = demo.wait(_END_WITHIN_S)
        _figure("exit code of the demo", code)
        _figure("clone to end of the demo, s", round(time.time() - began_s, 1))
    told = {
        f"first run after {seen_s - began_s:.1f} s": seen_s - began_s > CLONE_TO_RUN_S_MAX,
        f"first run {seen_s - servers_s:.1f} s after the servers": seen_s - servers_s > SERVERS_TO_RUN_S_MAX,
        f"the demo ended with {code}": code != 0,
    }
    return [shortfall for shortfall, holds in told.items() if holds]


# Setting the stage --------------------------------------------------------------------------------------------------


def _wheels() -> Path:
    """A folder with every wheel that the clone will ask for, filled once for each set of pins."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    pins = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    folder = ROOT / "build" / f"wheels-{hashlib.sha256(json.dumps(pins).encode()).hexdigest()[:12]}"
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        _run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(partial), *pins], ROOT, None)
        partial.rename(folder)
    return folder


def _environment(wheels: Path) -> dict[str, str]:
    """That of a stranger's shell: nothing of this checkout, and pip's packages at hand."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return plain | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}


def _clone(place: Path) -> str:
    """Clone what is committed here. Returns the commit."""
    _run(["git", "clone", "--quiet", str(ROOT), str(place)], ROOT, None)
    return _run(["git", "rev-parse", "--short", "HEAD"], place, None).strip()


def _run(command: list[str], folder: Path, environment: dict[str, str] | None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _demo(clone: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """``make demo UNATTENDED=1``, in a session of its own; what it says is printed at the end."""
    log_path = clone / "demo.log"
    with log_path.open("wb") as log:
        demo = subprocess.Popen(
            ["make", "demo", "UNATTENDED=1"],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield demo
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGTERM)  # the demo stops its stack
            demo.wait(60)
        print(log_path.read_text(), flush=True)


# Looking on ---------------------------------------------------------------------------------------------------------


def _first_success(clone: Path, demo: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait until the first success can be read by anybody. Returns the state file as of then."""
    give_up_at = time.monotonic() + _GIVE_UP_S
    consumer = None
    while time.monotonic() < give_up_at:
        if demo.poll() is not None:
            raise FallsShort(f"first-run: the demo ended with {demo.returncode} before a run succeeded")
        state = _state(clone)
        if state is None:
            time.sleep(0.1)  # the demo is installing and starting: a look costs the core that it needs
            continue
        consumer = consumer or _consumer(state["bootstrap"])
        if consumer is None:
            time.sleep(0.1)  # the same: the broker is not up yet
        elif _reads_a_success(consumer):
            _figure("kafka cluster id", consumer.list_topics(timeout=10).cluster_id)
            consumer.close()
            return _state(clone) or state
    raise FallsShort(f"first-run: no run succeeded within {_GIVE_UP_S:.0f} s")


def _state(clone: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((clone / ".waterclock" / "state.json").read_text())
    except (OSError, ValueError):
        return None
    return found


def _consumer(bootstrap: str) -> Consumer | None:
    """A consumer of all partitions from their beginning; None while there is no such topic."""
    consumer = reader(bootstrap, committed=True, reconnect_backoff_max_ms=250)
    try:
        topic = consumer.list_topics(_TOPIC, timeout=1).topics[_TOPIC]
    except KafkaException:
        topic = None
    if topic is None or topic.error is not None or not topic.partitions:
        consumer.close()
        return None
    consumer.assign([TopicPartition(_TOPIC, partition, 0) for partition in topic.partitions])
    return consumer


def _reads_a_success(consumer: Consumer) -> bool:
    messages = consumer.consume(500, 0.1)
    return any(("ce_type", _SUCCEEDED) in (message.headers() or ()) for message in messages if not message.error())


# What the kernel says -----------------------------------------------------------------------------------------------


def _stat(pid: int | str) -> list[str]:
    """The fields of ``/proc/<pid>/stat`` from the third on; [] where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _born_s(pid: int) -> float:
    """When a process was started, seconds since the epoch."""
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up_s + int(_stat(pid)[19]) / _TICKS


def _cpu_s_below(root: int) -> float:
    """CPU time of a process and all that it has started, the ended ones included."""
    stats = {int(path.name): _stat(path.name) for path in Path("/proc").glob("[0-9]*")}
    family = {root}
    grown = True
    while grown:
        grown = False
        for pid, stat in stats.items():
            if stat and pid not in family and int(stat[1]) in family:
                family.add(pid)
                grown = True
    return sum(sum(map(int, stats[pid][11:15])) for pid in family if stats.get(pid)) / _TICKS


def _figure(name: str, value: object, **more: object) -> None:
    print(json.dumps({"check": "first-run", "figure": name, "value": value, **more}), flush=True)
