"""Which process yields the processors to which, and from when on."""

from __future__ import annotations

import subprocess
import sys

_ROLE = """
import os, signal, threading
from waterclock.process import run_role

class Core:
    ready = False
    def __init__(self):
        self.thread = threading.Thread(target=threading.Event().wait, daemon=True)
        self.thread.start()
    def step(self):
        both = threading.get_native_id(), self.thread.native_id
        print("niceness", self.ready, *(os.getpriority(os.PRIO_PROCESS, each) for each in both), flush=True)
        if self.ready:
            os.kill(os.getpid(), signal.SIGTERM)
        self.ready = True
    def drain(self):
        return False
    def close(self):
        pass

run_role("recorder", lambda _: Core(), niceness=os.nice(0) + 3)
print("began with", os.nice(0) - 3)
"""


def test_nobody_takes_more_by_giving_way() -> None:
    given = (
        "import os; from waterclock.niceness import give_way; before = os.nice(2); give_way(os.getpid(), before - 1)"
    )
    told = subprocess.run(
        [sys.executable, "-c", f"{given}; print(os.nice(0) - before)"], capture_output=True, timeout=60, check=True
    )
    assert int(told.stdout) == 0


def test_a_role_gives_way_with_all_of_its_threads_once_it_is_ready() -> None:
    """Whoever takes over is to be as quick as anybody."""
    told = subprocess.run([sys.executable, "-c", _ROLE], capture_output=True, text=True, timeout=60, check=True).stdout
    lines = told.splitlines()
    began = int(next(line for line in lines if line.startswith("began with")).split()[-1])
    steps = [line for line in lines if line.startswith("niceness")]
    assert steps == [f"niceness False {began} {began}", f"niceness True {began + 3} {began + 3}"]
