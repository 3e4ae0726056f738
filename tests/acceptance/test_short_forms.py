"""The short form of every acceptance check: few kills, no figure judged. Whole: ``make show NAME=...``.

Two at a time: each starts servers of its own, and most of its minutes are waits. The longest first.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.__main__ import checks

ROOT = Path(__file__).resolve().parents[2]
LANES = 2
WITHIN_S = {check.name: check.short_timeout_s for check in checks() if check.short_form}
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def ended(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Done]]]:
    """By name, the end of each short form that this session wants to see."""
    wanted = [item.callspec.params["name"] for item in request.session.items if item.fspath == request.fspath]
    with ThreadPoolExecutor(LANES) as lanes:
        yield {name: lanes.submit(_run, name) for name in sorted(wanted, key=lambda name: -WITHIN_S[name])}
        lanes.shutdown(cancel_futures=True)


@pytest.mark.servers
@pytest.mark.parametrize("name", WITHIN_S)
def test_short_form_shows_it(name: str, ended: dict[str, Future[Done]]) -> None:
    if name == "egress" and not _has_compiler():
        pytest.skip("a C compiler is needed: without the ledger under the worker its calls would go out to the world")
    done = ended[name].result()
    assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout[-8_000:]}"


def _run(name: str) -> Done:
    if name == "egress" and not _has_compiler():
        return subprocess.CompletedProcess([], 1, "")
    return subprocess.run(
        [sys.executable, "-m", "tests.acceptance", name, "--short"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S[name],
        check=False,
    )


def _has_compiler() -> bool:
    return bool(shutil.which("cc") or shutil.which("gcc"))
