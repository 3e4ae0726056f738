"""``waterclock up`` and the commands, on real servers and real roles; two clones side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from waterclock.stack.jars import CASSANDRA, KAFKA, JarSource, have_jars
from waterclock.stack.java import find_java
from waterclock.stack.state import birth_of, read_state
from waterclock.stack.trouble import StackTrouble

pytestmark = pytest.mark.servers


class Clone:
    """A folder in which commands are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / ".waterclock"
        folder.mkdir()

    def run(self, *words: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("WATERCLOCK_")}
        return subprocess.run(
            [sys.executable, "-m", "waterclock.cli", *words],
            cwd=self.folder,
            env=env | {"HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def lines(self, *words: str) -> list[dict]:
        done = self.run(*words, "-o", "jsonl")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def up(self, *words: str) -> str:
        done = self.run("up", "--detach", "--quick", "--workers", "1", "--dispatchers", "1", *words, timeout_s=400)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def pid_of(self, name: str) -> int:
        return next(process.pid for process in read_state(self.data_dir).processes if process.name == name)

    def runs(self, job: str) -> list[dict]:
        return self.lines("run", "list", job)


def wait_until(condition, within_s: float = 30.0):
    give_up_at = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"not within {within_s} s"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    """Two clones, both up: the second one finds the usual ports taken by the first."""
    try:
        find_java()
    except StackTrouble as trouble:
        _missing(str(trouble))
    if not (have_jars(KAFKA, JarSource()) and have_jars(CASSANDRA, JarSource())):
        _missing("the jars are not fetched")
    place = tmp_path_factory.mktemp("clones")
    both = Clone(place / "one"), Clone(place / "two")
    try:
        told = [clone.up() for clone in both]
        yield (*both, told)
    finally:
        for clone in both:
            clone.run("down", "--purge")


def _missing(why: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(f"NOT TESTED: {why}")


def test_a_start_tells_each_step_and_where_to_look(clones):
    _, _, told = clones
    for part in (
        "kafka ready",
        "cassandra ready",
        "topics 23/23",
        "schema 1..",
        "worker-1 ready",
        "all ready",
        "Ctrl-C",
    ):
        assert part in told[0]


def test_two_clones_run_side_by_side_on_ports_of_their_own(clones):
    one, two, told = clones
    first, second = read_state(one.data_dir), read_state(two.data_dir)
    assert first.alive
    assert second.alive
    assert first.bootstrap != second.bootstrap
    assert first.cassandra_port != second.cassandra_port
    assert f"taken by java kafka.Kafka (pid {one.pid_of('kafka')})" in told[1]
    one.lines("job", "create", "only-here", "--every", "1h", "--handler", "demo.ping")
    assert [row["job"] for row in one.lines("job", "list")] == ["default:only-here"]
    assert two.lines("job", "list") == []


def test_down_stops_everything_within_ten_seconds_and_purge_deletes(clones):
    _, two, _ = clones
    state = read_state(two.data_dir)
    asked_at = time.monotonic()
    assert two.run("down").returncode == 0
    assert time.monotonic() - asked_at < 12.0  # ten for the stack, the rest for the command's own start
    assert not [process.name for process in state.processes if birth_of(process.pid)]
    assert two.run("status").returncode == 1
    assert two.run("down", "--purge").returncode == 0
    assert not two.data_dir.exists()


def test_a_second_up_in_the_same_folder_is_refused(clones):
    one, _, _ = clones
    done = one.run("up", "--detach")
    assert done.returncode == 4, "a conflict"
    assert "runs in" in done.stderr
    assert read_state(one.data_dir).alive


def test_status_tells_each_process_and_ends_with_0_when_all_is_ready(clones):
    one, _, _ = clones
    rows = one.lines("status")
    roles = ("dispatcher-1", "worker-1", "api-1", "intake-1", "retry-router-1", "dag-engine-1", "recorder-1")
    assert {row["name"]: row["life"] for row in rows} == dict.fromkeys(("kafka", "cassandra", *roles), "ready")


def test_a_job_runs_is_paused_resumed_and_deleted(clones):
    one, _, _ = clones
    (created,) = one.lines("job", "create", "tick", "--every", "1s", "--handler", "demo.echo", "--payload", '{"n":1}')
    assert created["status"] == "active"
    assert len(created["next_fires"]) == 5
    done = wait_until(lambda: [run for run in one.runs("tick") if run["status"] == "SUCCEEDED"])
    (run,) = one.lines("run", "show", done[0]["run"])
    assert run["result"] == {"n": 1}
    assert one.lines("job", "pause", "tick")[0]["status"] == "paused"
    assert one.lines("job", "resume", "tick")[0]["status"] == "active"
    assert one.lines("job", "delete", "tick")[0]["status"] == "deleted"
    assert one.run("job", "show", "tick").returncode == 3
    assert one.run("job", "pause", "tick").returncode == 3


def test_a_trigger_waits_for_its_run_and_ends_as_the_run_did(clones):
    one, _, _ = clones
    one.lines("job", "create", "good", "--every", "1h", "--handler", "demo.ping")
    one.lines("job", "create", "bad", "--every", "1h", "--handler", "demo.fail")
    good = one.run("job", "trigger", "good", "--wait", "20s")
    assert good.returncode == 0, good.stderr
    bad = one.run("job", "trigger", "bad", "--wait", "20s")
    assert bad.returncode == 7
    assert "on purpose" in bad.stderr
    failed = wait_until(lambda: one.lines("run", "list", "--failed"))
    assert failed[0]["run"].startswith("default:bad@")


def test_a_dead_role_is_back_within_a_second_and_the_run_that_it_held_is_tried_again(clones):
    one, _, _ = clones
    one.lines("job", "create", "long", "--in", "1s", "--handler", "demo.sleep", "--payload", "60")
    (run,) = wait_until(lambda: [run for run in one.runs("long") if run["status"] == "RUNNING"])
    (alive,) = one.lines("run", "show", run["run"])
    assert alive["worker_alive"] is True

    killed = one.pid_of("worker-1")
    os.kill(killed, signal.SIGKILL)
    killed_at = time.monotonic()
    wait_until(lambda: one.pid_of("worker-1") != killed and birth_of(one.pid_of("worker-1")))
    assert time.monotonic() - killed_at < 1.0
    wait_until(lambda: one.run("status").returncode == 0)

    def tried_again() -> dict[str, Any] | None:
        (card,) = one.lines("run", "show", run["run"])
        return card if card["status"] == "RUNNING" and card["attempt"] == 2 else None

    again = wait_until(tried_again)
    assert again["worker_alive"] is True
    assert "lost" in again["attempts"][0]


def test_lag_is_told_for_every_group_and_reads_zero_when_nothing_is_outstanding(clones):
    one, _, _ = clones
    rows = wait_until(lambda: (found := one.lines("lag")) and not any(row["lag"] for row in found) and found)
    assert {row["group"] for row in rows} >= {
        "waterclock.dispatcher",
        "waterclock.recorder",
        "waterclock.retry-router",
        "waterclock.workers.high",
    }
    assert {row["partition"] for row in rows} == {0, 1, 2, 3}


def test_topics_tail_decodes_what_the_log_says(clones):
    one, _, _ = clones
    one.lines("job", "create", "told", "--every", "1h", "--handler", "demo.ping")
    assert one.run("job", "trigger", "told", "--wait", "20s").returncode == 0
    records = one.lines("topics", "tail", "run-events", "--from-start", "--no-follow")
    kinds = [record["value"]["kind"] for record in records if record["key"] == "default:told"]
    assert kinds == ["REVISED", "ANSWERED", "PENDING", "ANSWERED", "STARTED", "ATTEMPT_SUCCEEDED"]
    assert {record["kind"] for record in records} == {"RunEvent"}
    text = one.run("topics", "tail", "run-events", "--from-start", "--no-follow").stdout
    assert "ATTEMPT_SUCCEEDED  default:told@" in text


def test_a_worker_whose_app_is_not_there_says_so(clones):
    one, _, _ = clones
    (one.folder / "mine.py").write_text(
        "from waterclock import App\napp = App()\n@app.handler('mine')\ndef mine(ctx):\n    return 'mine'\n"
    )
    refused = one.run("worker", "mine:nothing")
    assert refused.returncode in (1, 2, 3)
    assert "error:" in refused.stderr


def test_logs_are_printed_by_process(clones):
    one, _, _ = clones
    assert '"event":"ready"' in one.run("logs", "recorder-1", "-n", "200").stdout
    assert one.run("logs", "nobody").returncode == 3
