"""A process ends with the exit code that it means, whatever its clients' threads are at."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _end_of(body: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys\nfrom waterclock.leaving import leave_after\ndef main():\n    {body}\nleave_after(main)\n"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("pass", 0),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('no such pool')", 1),
        ("raise ValueError('a bug')", 1),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_a_process_ends_with_the_code_that_it_means(body: str, code: int) -> None:
    assert _end_of(body).returncode == code


def test_what_ends_a_process_is_told() -> None:
    assert "no such pool" in _end_of("sys.exit('no such pool')").stderr
    assert "ValueError: a bug" in _end_of("raise ValueError('a bug')").stderr


def test_what_was_registered_for_the_end_runs_and_is_printed() -> None:
    ended = _end_of("import atexit; atexit.register(print, 'flushed'); sys.stdout.write('said '); sys.exit(4)")
    assert (ended.returncode, ended.stdout) == (4, "said flushed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="of Linux")
@pytest.mark.parametrize(("code", "told"), [(0, 1), (4, 4)])
def test_what_cannot_be_printed_any_more_fails_and_keeps_nobody(code: int, told: int) -> None:
    program = "import sys\nfrom waterclock.leaving import leave_after\n"
    program += f"leave_after(lambda: sys.stdout.write('said') and sys.exit({code}))\n"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", program]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, cwd=ROOT, env=env, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (told, b"")


def test_streams_that_were_closed_at_the_start_lead_nowhere() -> None:
    program = "import sys\nfrom waterclock.leaving import leave_after\n"
    program += "leave_after(lambda: print(sys.stdin.read(), sys.stdout.isatty()))\n"
    shell = ["/bin/sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, program]
    assert subprocess.run(shell, cwd=ROOT, timeout=60, check=False).returncode == 0


def test_threads_of_our_own_are_awaited() -> None:
    body = "import threading as t; t.Thread(target=lambda: t.Event().wait(0.2) or print('done')).start()"
    assert _end_of(body).stdout == "done\n"


def test_the_interpreter_is_not_taken_down_under_threads_of_clients() -> None:
    body = "sys.kept = type('Kept', (), {'__del__': lambda _: print('taken down')})()"
    assert _end_of(body).stdout == ""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("sys.stdout = None", 0),
        ("sys.stdout = open('/dev/full', 'w'); sys.stdout.write('lost')", 1),
        ("sys.stdout = open('/dev/full', 'w'); sys.stdout.write('lost'); sys.exit(4)", 4),
        ("sys.stdout.close()", 1),
    ],
)
def test_what_cannot_be_said_leaves_the_interpreter_up_as_well(body: str, code: int) -> None:
    ended = _end_of(
        f"sys.kept = type('Kept', (), {{'__del__': lambda _: __import__('os').write(2, b'down')}})(); {body}"
    )
    assert (ended.returncode, ended.stderr) == (code, "")


def test_a_thread_of_user_code_is_awaited_for_as_long_as_was_said() -> None:
    """Given a call that was handed to a thread and does not end, then the process does, with its code."""
    body = (
        "import time; from concurrent.futures import ThreadPoolExecutor; from waterclock.leaving import await_threads; "
        "ThreadPoolExecutor().submit(time.sleep, 30); await_threads(0.2); sys.stdout.write('said'); sys.exit(3)"
    )
    began_s = time.monotonic()
    ended = _end_of(body)
    assert (ended.returncode, ended.stdout) == (3, "said")
    assert time.monotonic() - began_s < 20.0


def test_what_was_registered_for_the_end_has_its_own_time() -> None:
    """Given user code that sends what it has traced at exit, then the time for its threads does not cut that off."""
    body = (
        "import atexit, time; from waterclock.leaving import await_threads; "
        "atexit.register(lambda: time.sleep(1.5) or print('sent')); await_threads(0.5); sys.exit(3)"
    )
    ended = _end_of(body)
    assert (ended.returncode, ended.stdout) == (3, "sent\n")
