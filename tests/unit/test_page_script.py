"""The page's script by Node alone, without a browser or a server (``tests/browser/alone.test.js`` has the promises)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ALONE = Path(__file__).resolve().parents[1] / "browser" / "alone.test.js"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_page_bears_surroundings_that_are_not_as_they_should_be():
    done = subprocess.run(
        ["node", "--test", "--test-reporter=spec", str(ALONE)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8_000:]
