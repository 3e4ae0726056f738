"""The short form of every acceptance check: few kills, no figure judged. Whole: ``make show NAME=...``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.__main__ import checks

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.servers
@pytest.mark.parametrize(
    ("name", "within_s"), [(check.name, check.short_timeout_s) for check in checks() if check.short_form]
)
def test_short_form_shows_it(name: str, within_s: int) -> None:
    if name == "egress" and not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("a C compiler is needed: without the ledger under the worker its calls would go out to the world")
    command = [sys.executable, "-m", "tests.acceptance", name, "--short"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=within_s, check=False
    )
    assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout[-8_000:]}"
