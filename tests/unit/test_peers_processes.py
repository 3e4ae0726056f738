"""The peers' harness sees, weighs and ends all that a round starts, and refuses to begin beside what would spoil it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import __main__, processes

BUSY = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass\nprint('x', flush=True)"
WORKING = f"subprocess.run([sys.executable, '-c', {BUSY!r}])"
CHILD = f"import subprocess, sys; sys.stdin.readline(); {WORKING}; sys.stdin.read()"


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """At a line of ours its child works for 0.3 s of CPU, says so, and ends; the process itself stays."""
    env = {**os.environ, processes.MARK: "test"}
    process = processes.start([sys.executable, "-c", CHILD], env=env, log=tmp_path / "log", talking=True)
    yield process
    processes.end(process)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


def test_cpu_of_a_grandchild_that_ended_is_counted(parent: subprocess.Popen[str]) -> None:
    before = processes.cpu_s()
    _work(parent)
    assert processes.cpu_s() - before >= 0.2


def test_the_machine_counts_what_we_use_and_more(parent: subprocess.Popen[str]) -> None:
    before, all_before = processes.cpu_s(), processes.machine_cpu_s()
    _work(parent)
    used = processes.cpu_s() - before
    assert processes.machine_cpu_s() - all_before >= used * 0.8


def test_memory_of_children_is_counted(parent: subprocess.Popen[str]) -> None:
    _work(parent)
    assert processes.resident_mb() > 1


def test_ending_a_process_ends_what_it_started(tmp_path: Path) -> None:
    sleeper = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"
    process = processes.start([sys.executable, "-c", sleeper], env=os.environ, log=tmp_path / "log", talking=True)
    assert process.stdout is not None
    assert process.stdin is not None
    below = int(process.stdout.readline())
    processes.end(process)
    process.stdin.close()
    process.stdout.close()
    until = time.monotonic() + 10
    while _lives(below) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _lives(below)


def test_own_children_are_not_in_the_way(parent: subprocess.Popen[str]) -> None:
    assert [line for line in processes.in_the_way() if line.startswith(f"{parent.pid}:")] == []


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        (["sleep", "60"], {processes.MARK: "x"}, "left by an earlier round (sleep)"),
        (["bash", "-c", "read line", f"/x/{processes.FOLDER}1/data"], {}, "left by an earlier round (bash)"),
        (["bash", "-c", "read line", "kafka.Kafka"], {}, "a server of our own (bash)"),
        (["bash", "-c", "read line", "org.apache.cassandra.service.CassandraDaemon"], {}, "a server of our own (bash)"),
    ],
)
def test_a_leftover_and_a_server_of_ours_are_in_the_way(argv: list[str], env: dict[str, str], said: str) -> None:
    """Asked by a process that is not its parent, as the next round is not."""
    process = subprocess.Popen(argv, env={**os.environ, **env}, stdin=subprocess.PIPE)
    try:
        asking = "from bench.peers import processes; print(*processes.in_the_way(), sep='\\n')"
        until = time.monotonic() + 10
        found: list[str] = []
        while f"{process.pid}: {said}" not in found and time.monotonic() < until:
            asked = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True, check=True)
            found = asked.stdout.splitlines()
        assert f"{process.pid}: {said}" in found
    finally:
        process.kill()
        process.communicate()


def test_nothing_is_measured_beside_a_leftover(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "in_the_way", lambda: ["17: left by an earlier round (redis-server)"])
    assert __main__.main([]) == 2
    assert "17: left by an earlier round" in capsys.readouterr().err


def _work(parent: subprocess.Popen[str]) -> None:
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write("go\n")
    parent.stdin.flush()
    assert parent.stdout.readline() == "x\n"


def _lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
