"""``waterclock demo`` on real servers: it ends by itself when all was seen, it ends at Ctrl-C, and leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from waterclock.stack.jars import CASSANDRA, KAFKA, JarSource, have_jars
from waterclock.stack.java import find_java
from waterclock.stack.state import birth_of, read_state, write_state
from waterclock.stack.trouble import StackTrouble

pytestmark = pytest.mark.servers

WITHIN_S = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An empty folder; the second test goes on with the data of the first."""
    why = ""
    try:
        find_java()
    except StackTrouble as trouble:
        why = str(trouble)
    if not (have_jars(KAFKA, JarSource()) and have_jars(CASSANDRA, JarSource())):
        why = "the jars are not fetched"
    if why and os.environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    if why:
        pytest.skip(f"NOT TESTED: {why}")
    return tmp_path_factory.mktemp("demo")


def demo(folder: Path, *words: str) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("WATERCLOCK_")}
    command = [sys.executable, "-m", "waterclock.cli", "demo", *words]
    return subprocess.Popen(
        command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=1
    )


def nothing_is_left(folder: Path) -> bool:
    state = read_state(folder / ".waterclock")
    return state is not None and not state.alive and not any(birth_of(each.pid) for each in state.processes)


def test_unattended_it_ends_by_itself_once_a_run_of_each_kind_ended_as_it_should(folder):
    running = demo(folder, "--unattended")
    try:
        said, _ = running.communicate(timeout=WITHIN_S)
    finally:
        running.kill()
    assert running.returncode == 0, said
    assert "a run of each kind ended as it should (7 of 7)" in said
    assert re.search(r"First run: [\d.]+ s after the beginning, [\d.]+ s after the servers were started", said)
    assert "✗ FAILED    default:broken@" in said
    assert "waterclock topics tail run-events" in said
    assert re.search(r"Page +http://127\.0\.0\.1:\d+/", said)
    assert nothing_is_left(folder)


def test_ctrl_c_stops_everything_and_the_data_stays(folder):
    running = demo(folder)
    try:
        give_up_at = time.monotonic() + WITHIN_S
        for line in running.stdout:
            if "First run" in line:
                break
            assert time.monotonic() < give_up_at
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 0, said
    assert "Its data is kept in" in said
    assert nothing_is_left(folder)


def test_a_second_demo_in_one_folder_is_refused(folder):
    state = read_state(folder / ".waterclock")
    ours = state._replace(pid=os.getpid(), born=birth_of(os.getpid()))
    write_state(folder / ".waterclock", ours)
    try:
        refused = demo(folder)
        said, _ = refused.communicate(timeout=60)
    finally:
        write_state(folder / ".waterclock", state)
    assert refused.returncode == 4
    assert "A stack runs in" in said
    assert "waterclock down" in said
