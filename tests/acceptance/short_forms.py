"""The short forms that a test session wants, run in processes of their own from the first that is asked for.

One at a time while the other lane of tests is still at work, ``AT_ONCE`` once nothing else is left to do. Each starts
servers of its own, on copies of empty ones (``empty_servers.py``), and half of its minutes are waits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from threading import Lock, Semaphore
from typing import NamedTuple

from tests.acceptance.__main__ import CORE_SECONDS, checks
from tests.acceptance.empty_servers import ORIGINALS
from tests.acceptance.real_stack import QUICK

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 2
_MADE_WITHIN_S, _WORTH_ORIGINALS = 180, 3
_LOOKS_EVERY_S = 1.0
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
    """The ends of the short forms ``names``, the ones with the longest time limit first.

    ``beside_others``: whether other tests are at work, which is asked again as long as they are.
    """

    def __init__(self, names: Iterable[str], beside_others: Callable[[], bool] = lambda: False) -> None:
        self._names = sorted(names, key=lambda name: -WITHIN_S[name])
        self._beside_others = beside_others
        self._room = Semaphore(1)
        self._is_wide = False
        self._running = ThreadPoolExecutor(AT_ONCE)
        self._originals = Path(tempfile.mkdtemp(prefix="empty-servers-"))
        # As it is now: other tests may set variables of this process for a while.
        self._env = os.environ | {QUICK: "1", ORIGINALS: str(self._originals)}
        self._is_made = len(self._names) < _WORTH_ORIGINALS
        self._making = Lock()
        self._ended: dict[str, Future[Done]] = {}

    def end_of(self, name: str) -> Done:
        """Wait for it; the first that is waited for begins them all. Raises TimeoutExpired."""
        if not self._ended:
            self._ended = {each: self._running.submit(self._run, each) for each in self._names}
        ended = self._ended[name]
        while not ended.done():  # bounded by the time limits of the short forms
            if not self._is_wide and not self._beside_others():
                self._is_wide = True
                self._room.release(AT_ONCE - 1)
            wait([ended], _LOOKS_EVERY_S)
        return ended.result()

    def close(self) -> None:
        """Begin no further one, and wait for those that run."""
        self._running.shutdown(cancel_futures=True)
        shutil.rmtree(self._originals)

    def _run(self, name: str) -> Done:
        with self._room:
            self._make_originals()
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

    def _make_originals(self) -> None:
        """Once; where that falls short, every stack makes its own, and says what is wrong."""
        with self._making:
            if not self._is_made:
                self._is_made = True
                command = [sys.executable, "-m", "tests.acceptance.empty_servers", str(self._originals)]
                with suppress(subprocess.TimeoutExpired):
                    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=_MADE_WITHIN_S, check=False)


def what_is_missing(name: str) -> str:
    """Why a short form can't run on this machine; "" where it can."""
    if name == "egress" and not (shutil.which("cc") or shutil.which("gcc")):
        return "a C compiler is needed: without the ledger under the worker its calls would go out to the world"
    return ""
