"""The short forms that a test session wants, run in processes of their own, some at a time.

One at a time while other tests are at work, so that these keep most of the cores and their time limits; ``LANES`` once
nothing else is left to do. Each starts servers of its own, and most of its minutes are waits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore
from typing import NamedTuple

from tests.acceptance.__main__ import CORE_SECONDS, checks
from tests.acceptance.real_stack import QUICK

ROOT = Path(__file__).resolve().parents[2]
LANES = 2
WITHIN_S = {check.name: check.short_timeout_s for check in checks() if check.short_form}


class Done(NamedTuple):
    """How a short form ended. ``core_seconds``: of all its processes; 0 where it fell short."""

    code: int
    said: str
    seconds: float = 0.0

    @property
    def core_seconds(self) -> float:
        told = (json.loads(line) for line in self.said.splitlines() if CORE_SECONDS in line)
        return next((figure["value"] for figure in told), 0.0)


class ShortForms:
    """The ends of the short forms ``names``, the ones with the longest time limit first; begun at once."""

    def __init__(self, names: Iterable[str]) -> None:
        self._room = Semaphore(1)
        self._is_wide = False
        self._lanes = ThreadPoolExecutor(LANES)
        # As it is now: tests that run beside them set variables of this process for a while.
        self._env = os.environ | {QUICK: "1"}
        ordered = sorted(names, key=lambda name: -WITHIN_S[name])
        self._ended: dict[str, Future[Done]] = {name: self._lanes.submit(self._run, name) for name in ordered}

    def end_of(self, name: str) -> Done:
        """Wait for it, in all lanes: whoever asks has nothing else to do. Raises TimeoutExpired."""
        if not self._is_wide:
            self._is_wide = True
            self._room.release(LANES - 1)
        return self._ended[name].result()

    def close(self) -> None:
        """Begin no further one, and wait for those that run."""
        self._lanes.shutdown(cancel_futures=True)

    def _run(self, name: str) -> Done:
        with self._room:
            began_s = time.monotonic()
            ended = subprocess.run(
                [sys.executable, "-m", "tests.acceptance", name, "--short"],
                cwd=ROOT,
                env=self._env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=WITHIN_S[name],
                check=False,
            )
            return Done(ended.returncode, ended.stdout, time.monotonic() - began_s)


def what_is_missing(name: str) -> str:
    """Why a short form can't run on this machine; "" where it can."""
    if name == "egress" and not (shutil.which("cc") or shutil.which("gcc")):
        return "a C compiler is needed: without the ledger under the worker its calls would go out to the world"
    return ""
