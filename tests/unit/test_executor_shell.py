"""Programs of jobs: real processes, what they get, and that nothing of them outlives its attempt."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop
from waterclock.workers.executors import shell_command

from tests.unit.executor_world import BOUND_S, CLOCK, Bench, attempt_of, bench_of
from waterclock.model.events import Outcome
from waterclock.model.executor import ShellCommand

SH = "/bin/sh"
ENV = "/usr/bin/env"
HERE = Path(__file__).resolve().parents[2]

MARKS = [
    *(";", "|", "||", "&", "&&", "$(touch CANARY)", "`touch CANARY`", "\n", "\r\n", ">CANARY", "<CANARY", ">>CANARY"),
    *("${IFS}", "$IFS", "*", "?", "[a]", "~", "!", "#", "\\", "'", '"', "(", "{touch,CANARY}", "%s", "\t", "\x1b[2J"),
    *("é", "--"),
]
AROUND = [("", ""), ("x", "touch CANARY"), ("$(", ")"), ("'", "'"), ('"', '"'), ("a ", " touch CANARY"), ("\\", "")]
METACHARACTERS = [f"{before}{mark}{after}" for mark in MARKS for before, after in AROUND]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bench_of(**_settings(tmp_path)) as bench:
        yield bench


def _settings(folder: Path) -> dict[str, Any]:
    return {"shell": {"enabled": True, "allow": (SH, ENV, "/nowhere/at-all"), "working_dir": folder}}


def _sh(text: str, timeout_s: float = 20.0) -> ShellCommand:
    return ShellCommand((SH, "-c", text), timeout_s)


def _wait_for(condition: Callable[[], object], what: str) -> None:
    until_s = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < until_s, what
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_payload_is_the_input_and_the_output_is_kept(bench: Bench) -> None:
    ended = bench.run(_sh("cat; echo trouble >&2"), b'{"a":1}')
    assert ended.outcome is Outcome.SUCCEEDED
    assert orjson.loads(ended.result or b"") == {"stdout": '{"a":1}', "stderr": "trouble\n"}


def test_the_environment_is_the_runs_identity_and_nothing_of_ours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_WEBHOOK__SECRETS__DEFAULT", "hush")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    ended = bench.run(ShellCommand((ENV,)))
    lines = dict(line.split("=", 1) for line in orjson.loads(ended.result or b"")["stdout"].splitlines())
    lines.pop("LC_CTYPE", None)
    assert lines == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "WATERCLOCK_RUN_ID": "acme:j@20261118T104640Z~1",
        "WATERCLOCK_RUN_ATTEMPT": "1",
        "WATERCLOCK_RUN_FENCE": "281474976710656",
        "WATERCLOCK_RUN_FIRE_TIME": "2026-11-18T10:46:40Z",
    }


def test_off_by_default_and_says_where_to_switch_it_on() -> None:
    with bench_of() as bench:
        ended = bench.run(_sh("true"))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "executor-off")
    assert "shell.enabled" in ended.error_message


@pytest.mark.parametrize("program", ["/bin/cat", "sh", "/bin/../bin/sh", "/bin/sh ", "/BIN/SH"])
def test_only_listed_programs_run(bench: Bench, program: str) -> None:
    ended = bench.run(ShellCommand((program, "-c", "true")))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "program-refused")


def test_arguments_reach_the_program_as_they_are_and_no_shell_sees_them(bench: Bench, tmp_path: Path) -> None:
    assert len(METACHARACTERS) >= 200
    show = 'for given in "$@"; do printf "%s\\0" "$given"; done > seen'
    for at in range(0, len(METACHARACTERS), 60):
        given = tuple(METACHARACTERS[at : at + 60])
        assert bench.run(ShellCommand((SH, "-c", show, "sh", *given))).outcome is Outcome.SUCCEEDED
        assert (tmp_path / "seen").read_bytes() == "".join(f"{each}\0" for each in given).encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen"]


def test_a_zero_byte_is_refused(bench: Bench) -> None:
    assert bench.run(ShellCommand((SH, "-c", "true\0false"))).error_class == "executor-refused"


@pytest.mark.parametrize(
    ("text", "error_class"),
    [("echo late >&2; exit 3", "exit-3"), ("kill -9 $$", "signal-SIGKILL"), ("kill -TERM $$", "signal-SIGTERM")],
)
def test_how_it_ended_is_the_class_and_the_end_of_its_output_the_trace(
    bench: Bench, text: str, error_class: str
) -> None:
    ended = bench.run(_sh(text))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, error_class)
    assert ended.error_trace == ("late\n" if "late" in text else "")


def test_a_program_that_ends_before_it_is_fed_ends_as_it_says() -> None:
    async def feed_late() -> int:
        process = await asyncio.create_subprocess_exec(SH, "-c", "exit 0", stdin=-1, stdout=-1, stderr=-1)
        assert process.stdin is not None
        await process.wait()
        await shell_command._feed(process.stdin, b"too late")
        return process.returncode or 0

    with closing(uvloop.new_event_loop()) as loop:
        assert loop.run_until_complete(feed_late()) == 0


def test_a_program_that_is_not_there_fails_the_attempt(bench: Bench) -> None:
    ended = bench.run(ShellCommand(("/nowhere/at-all",)))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "exit-127")
    assert "No such file" in ended.error_trace


def test_a_program_gets_no_more_rights_than_the_worker_has(bench: Bench) -> None:
    ended = bench.run(_sh("grep NoNewPrivs /proc/self/status; ulimit -c"))
    assert orjson.loads(ended.result or b"")["stdout"].split() == ["NoNewPrivs:", "1", "0"]


def test_signals_are_as_a_program_expects_them(bench: Bench) -> None:
    ended = bench.run(_sh("grep -E 'Sig(Blk|Ign)' /proc/self/status"))
    _, blocked, _, ignored = orjson.loads(ended.result or b"")["stdout"].split()
    ordinary = 2**31 - 1  # signals 1 to 31: those above may come from whoever started us, and the C library keeps two
    assert int(blocked, 16) & ordinary == 0
    assert int(ignored, 16) & ordinary == 0


def test_at_the_timeout_the_whole_group_is_killed(bench: Bench, tmp_path: Path) -> None:
    text = "sleep 600 & echo $! > child; (trap '' TERM; sleep 601 & echo $! > stubborn; wait) & wait"
    ended = bench.run(_sh(text, timeout_s=1.0))
    assert (ended.outcome, ended.error_class) == (Outcome.TIMED_OUT, "timed-out")
    for name in ("child", "stubborn"):
        pid = int((tmp_path / name).read_text())
        _wait_for(lambda pid=pid: not _alive(pid), f"{name} is still alive")


def test_what_a_program_leaves_running_ends_with_it(bench: Bench, tmp_path: Path) -> None:
    ended = bench.run(_sh("sleep 600 & echo $! > child; echo done"))
    assert ended.outcome is Outcome.SUCCEEDED
    _wait_for(lambda: not _alive(int((tmp_path / "child").read_text())), "a child was left behind")


@pytest.mark.parametrize("how", ["forget", "lease", "stop"])
def test_a_forgotten_attempt_is_killed(tmp_path: Path, how: str) -> None:
    with bench_of(**_settings(tmp_path)) as bench:
        bench.executors.submit([attempt_of(_sh("sleep 600 & echo $! > tmp; mv tmp child; wait"))])
        _wait_for((tmp_path / "child").exists, "it did not start")
        pid = int((tmp_path / "child").read_text())
        if how == "forget":
            bench.executors.forget()
        elif how == "lease":
            bench.executors.allow_until(CLOCK.monotonic_s() - 1)
        else:
            bench.executors.stop(4.0)
        _wait_for(lambda: not _alive(pid), "it is still alive")
        assert how == "stop" or bench.executors.take_ended() == []


def test_a_program_dies_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    worker = (
        "import sys, time; from tests.unit.executor_world import bench_of, attempt_of\n"
        "from waterclock.model.executor import ShellCommand\n"
        f"with bench_of(shell={{'enabled': True, 'allow': ('{SH}',), 'working_dir': '{tmp_path}'}}) as bench:\n"
        f"    text = 'sleep 600 & echo $! > tmp; mv tmp child; wait'\n"
        f"    bench.executors.submit([attempt_of(ShellCommand(('{SH}', '-c', text)))])\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", worker], cwd=HERE)
    try:
        _wait_for((tmp_path / "child").exists, "it did not start")
        pid = int((tmp_path / "child").read_text())
        assert _alive(pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(BOUND_S)
    _wait_for(lambda: not _alive(pid), "a program outlived its worker")


def test_endless_output_is_stopped_and_its_end_kept(bench: Bench) -> None:
    ended = bench.run(_sh("yes 0123456789"))
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "output-too-long")
    assert "0123456789" in ended.error_trace
    assert len(ended.error_trace) <= 4_096


def test_a_long_output_keeps_its_end(bench: Bench) -> None:
    ended = bench.run(_sh("seq 1 100000"))
    assert ended.outcome is Outcome.SUCCEEDED
    assert len(ended.result or b"") <= 8_192
    assert orjson.loads(ended.result or b"")["stdout"].endswith("99999\n100000\n")


def test_a_program_that_reads_no_input_is_within_its_rights(bench: Bench) -> None:
    assert bench.run(_sh("exec true"), b"x" * 65_536).outcome is Outcome.SUCCEEDED


def test_many_programs_at_once_all_end_once(bench: Bench) -> None:
    bench.executors.submit([attempt_of(_sh("cat >/dev/null"), number=number) for number in range(24)])
    ended = bench.ends(24)
    assert {end.outcome for end in ended} == {Outcome.SUCCEEDED}


def test_a_program_is_asked_by_sigterm_and_may_end_in_its_own_way(bench: Bench, tmp_path: Path) -> None:
    attempt = attempt_of(_sh("trap 'echo asked >&2; exit 7' TERM; touch up; while :; do sleep 0.05; done"))
    bench.executors.submit([attempt])
    _wait_for((tmp_path / "up").exists, "it did not start")
    bench.executors.ask([attempt])
    (ended,) = bench.ends(1)
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "exit-7")
    assert "asked" in ended.error_trace


def test_a_program_that_heeds_sigterm_with_exit_code_0_has_not_succeeded(bench: Bench, tmp_path: Path) -> None:
    attempt = attempt_of(_sh("trap 'echo asked >&2; exit 0' TERM; touch up; while :; do sleep 0.05; done"))
    bench.executors.submit([attempt])
    _wait_for((tmp_path / "up").exists, "it did not start")
    bench.executors.ask([attempt])
    (ended,) = bench.ends(1)
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "exit-0")
    assert "asked" in ended.error_trace


def test_a_program_that_does_not_heed_is_killed_by_force_with_all_that_it_started(bench: Bench, tmp_path: Path) -> None:
    attempt = attempt_of(_sh("trap '' TERM; sleep 600 & echo $! > tmp; mv tmp child; while :; do sleep 0.05; done"))
    bench.executors.submit([attempt])
    _wait_for((tmp_path / "child").exists, "it did not start")
    bench.executors.ask([attempt])
    pid = int((tmp_path / "child").read_text())
    assert _alive(pid)
    bench.executors.force([attempt])
    (ended,) = bench.ends(1)
    assert ended.attempt is attempt
    _wait_for(lambda: not _alive(pid), "it is still alive")


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.002, 0.004])
def test_a_program_that_was_asked_to_stop_while_it_was_started_does_not_run_on(bench: Bench, after_s: float) -> None:
    attempt = attempt_of(_sh("exec sleep 5"))
    bench.executors.submit([attempt])
    time.sleep(after_s)
    bench.executors.ask([attempt])
    begun_s = time.monotonic()
    (ended,) = bench.ends(1)
    assert ended.outcome is Outcome.FAILED
    assert time.monotonic() - begun_s < 4.0


def test_what_was_asked_to_stop_before_its_turn_is_not_called(bench: Bench, tmp_path: Path) -> None:
    attempt = attempt_of(_sh("touch effect"))
    bench.executors.ask([attempt])
    bench.executors.submit([attempt])
    (ended,) = bench.ends(1)
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "AttemptStopped")
    assert not ended.has_begun
    assert not (tmp_path / "effect").exists()
