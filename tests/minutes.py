"""A pytest plugin of ``make test``: prints the minutes that each part of the tests took, and the total.

The parts are the folders under ``tests/``. What ran before pytest (setting up, check) comes as ``name:seconds`` pairs
in ``WATERCLOCK_TEST_PARTS``. The start of the servers counts for the part that asked for them first. Parts of two lanes
(``lanes.py``) pass beside one another: the total is less than their sum. Where the kernel tells (Linux), the share of
the machine's cores that was busy meanwhile stands beside it: what could be saved by waiting less, and what only by
doing less. Tests that run processes beside one another tell what each took.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

TOOK = "took"
"""The property in which a test tells its (seconds, core seconds), where those of its call say nothing."""

_STAT = Path("/proc/stat")
_before: Counter[str] = Counter()
_seconds: Counter[str] = Counter()
_ended_s: dict[str, float] = {}
_began_s = time.monotonic()
_took: dict[str, tuple[float, float]] = {}


def pytest_configure() -> None:
    for part in filter(None, os.environ.get("WATERCLOCK_TEST_PARTS", "").split(",")):
        name, _, seconds = part.rpartition(":")
        _before[name] += float(seconds)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    folders = report.nodeid.partition("::")[0].split("/")[1:-1]
    part = folders[0] if folders else "tidy"
    _seconds[part] += report.duration
    _ended_s[part] = time.monotonic() - _began_s
    for name, value in report.user_properties if report.when == "call" else ():
        if name == TOOK:
            _took[report.nodeid.rpartition("[")[2].rstrip("]")] = value


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    took_s = time.monotonic() - _began_s
    (busy, idle), (busy_before, idle_before) = _ticks(), _TICKS_BEFORE
    ticks = busy - busy_before + idle - idle_before
    terminalreporter.section("minutes per part")
    for name, seconds in _before.items():
        terminalreporter.write_line(f"{seconds / 60:6.2f}  {name}")
    for name, seconds in _seconds.items():
        terminalreporter.write_line(f"{seconds / 60:6.2f}  {name}, until minute {_ended_s[name] / 60:.2f} of the tests")
    share = f"  (cores {100 * (busy - busy_before) / ticks:.0f} % busy in the tests)" if ticks else ""
    terminalreporter.write_line(f"{(took_s + _before.total()) / 60:6.2f}  total{share}")
    for name, (seconds, core_seconds) in sorted(_took.items(), key=lambda each: -each[1][0]):
        terminalreporter.write_line(f"{seconds:6.1f} s, {core_seconds:6.1f} s of the cores  {name}")


def _ticks() -> tuple[int, int]:
    """(busy, idle) ticks of all cores since the machine started; nothing where the kernel does not tell."""
    if not _STAT.exists():
        return 0, 0
    user, nice, system, idle, wait, *others = map(int, _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:9])
    return user + nice + system + sum(others), idle + wait


_TICKS_BEFORE = _ticks()
