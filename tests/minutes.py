"""A pytest plugin of ``make test``: prints the minutes that each part of the tests took, and the total.

The parts are the folders under ``tests/``. What ran before pytest (setting up, check) comes as ``name:seconds`` pairs
in ``WATERCLOCK_TEST_PARTS``. The start of the servers counts for the part that asked for them first.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

_seconds: Counter[str] = Counter()


def pytest_configure() -> None:
    for part in filter(None, os.environ.get("WATERCLOCK_TEST_PARTS", "").split(",")):
        name, _, seconds = part.rpartition(":")
        _seconds[name] += float(seconds)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    folders = report.nodeid.partition("::")[0].split("/")[1:-1]
    _seconds[folders[0] if folders else "tidy"] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("minutes per part")
    for name, seconds in (*_seconds.items(), ("total", _seconds.total())):
        terminalreporter.write_line(f"{seconds / 60:6.2f}  {name}")
