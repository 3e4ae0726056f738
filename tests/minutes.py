"""A pytest plugin of ``make test``: prints the minutes that each part of the tests took, and the total.

The parts are the folders under ``tests/``. What ran before pytest (setting up, check) comes as ``name:seconds`` pairs
in ``WATERCLOCK_TEST_PARTS``. The start of the servers counts for the part that asked for them first. Where the kernel
tells (Linux), the share of the machine's cores that was busy meanwhile stands beside it: what a part could save by
waiting less, and what only by doing less. Tests that run processes beside one another tell what each took.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

TOOK = "took"
"""The property in which a test tells its (seconds, core seconds), where those of its call say nothing."""

_STAT = Path("/proc/stat")
_seconds: Counter[str] = Counter()
_busy: Counter[str] = Counter()
_idle: Counter[str] = Counter()
_last = [(0, 0)]
_took: dict[str, tuple[float, float]] = {}


def pytest_configure() -> None:
    for part in filter(None, os.environ.get("WATERCLOCK_TEST_PARTS", "").split(",")):
        name, _, seconds = part.rpartition(":")
        _seconds[name] += float(seconds)
    _last[0] = _ticks()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    folders = report.nodeid.partition("::")[0].split("/")[1:-1]
    part = folders[0] if folders else "tidy"
    _seconds[part] += report.duration
    (busy, idle), (busy_before, idle_before) = _ticks(), _last[0]
    _last[0] = busy, idle
    _busy[part] += busy - busy_before
    _idle[part] += idle - idle_before
    for name, value in report.user_properties if report.when == "call" else ():
        if name == TOOK:
            _took[report.nodeid.rpartition("[")[2].rstrip("]")] = value


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("minutes per part")
    for name, seconds in (*_seconds.items(), ("total", _seconds.total())):
        ticks = _busy[name] + _idle[name]
        share = f"  (cores {100 * _busy[name] / ticks:.0f} % busy)" if ticks else ""
        terminalreporter.write_line(f"{seconds / 60:6.2f}  {name}{share}")
    for name, (seconds, core_seconds) in sorted(_took.items(), key=lambda each: -each[1][0]):
        terminalreporter.write_line(f"{seconds:6.1f} s, {core_seconds:6.1f} s of the cores  {name}")


def _ticks() -> tuple[int, int]:
    """(busy, idle) ticks of all cores since the machine started; nothing where the kernel does not tell."""
    if not _STAT.exists():
        return 0, 0
    user, nice, system, idle, wait, *others = map(int, _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:9])
    return user + nice + system + sum(others), idle + wait
