"""The pipes of programs: they open as files do, end where they should, and none stays behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.executor_world import BOUND_S, Bench, bench_of
from waterclock.model.events import Outcome
from waterclock.model.executor import ShellCommand

SH = "/bin/sh"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bench_of(**_settings(tmp_path)) as bench:
        yield bench


def _settings(folder: Path) -> dict[str, Any]:
    return {"shell": {"enabled": True, "allow": (SH,), "working_dir": folder}}


def _open_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _sh(text: str, timeout_s: float = BOUND_S) -> ShellCommand:
    return ShellCommand((SH, "-c", text), timeout_s)


def test_a_program_may_open_its_three_streams_by_name(bench: Bench) -> None:
    ended = bench.run(_sh("cat /dev/stdin > /dev/stdout; echo trouble > /dev/stderr"), b"[1]")
    assert (ended.outcome, ended.error_trace) == (Outcome.SUCCEEDED, "")
    assert orjson.loads(ended.result or b"") == {"stdout": "[1]", "stderr": "trouble\n"}


def test_a_program_has_its_three_streams_and_nothing_else_of_the_worker(bench: Bench) -> None:
    with open(os.devnull, "rb") as mine:  # noqa: PTH123 - its descriptor is what counts
        os.set_inheritable(mine.fileno(), True)
        ended = bench.run(_sh("for fd in /proc/self/fd/*; do echo ${fd##*/}; done"))
    numbers = {int(each) for each in orjson.loads(ended.result or b"")["stdout"].split()}
    assert numbers - {3} == {0, 1, 2}  # 3: the shell's own look into the folder


def test_a_daemon_without_our_streams_holds_nothing_up(bench: Bench) -> None:
    """Given a program that starts a daemon, detached as it should be, then the attempt ends when the program does."""
    ended = bench.run(_sh("setsid sleep 5 </dev/null >/dev/null 2>&1 & sleep 0.2; echo started", 2.0))
    assert ended.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("daemon", "payload"),
    [("setsid sleep 5 &", b""), ("exec 3<&0; setsid sleep 5 <&3 >/dev/null 2>&1 &", b"x" * 200_000)],
    ids=["holds all", "takes no input"],
)
def test_no_descriptor_stays_behind_with_who_left_the_group(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, daemon: str, payload: bytes
) -> None:
    monkeypatch.setattr("waterclock.workers.executors.shell_command._END_WITHIN_S", 0.1)
    assert bench.run(_sh("true")).outcome is Outcome.SUCCEEDED
    before = _open_count()
    for _ in range(3):
        ended = bench.run(_sh(f"{daemon} sleep 0.2; echo started", 0.4), payload)
        assert ended.outcome is Outcome.TIMED_OUT
    until_s = time.monotonic() + 3.0
    while _open_count() > before:
        assert time.monotonic() < until_s, "descriptors are held as long as the one who left lives"
        time.sleep(0.02)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with bench_of(**_settings(missing)) as bench:
        ended = bench.run(_sh("true"))
    assert ended.error_class == "program-refused"
    assert f"{missing} (shell.working_dir)" in ended.error_message
