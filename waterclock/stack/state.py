"""The state file of a local stack: who runs, where, and how it is; one JSON document in the data folder.

Written by the supervisor alone, in one step (a reader never sees half of it); read by ``status``, ``down``, ``logs``
and by every command that looks for the servers of this folder. A file whose supervisor is gone is history: a process
is known by its pid *and* its start time, for pids come again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from waterclock.model.errors import Conflict

from .trouble import StackTrouble

STATE_FILE = "state.json"
PARTIAL_FILE = "state.json.partial"
LOCK_FILE = "lock"
_ANOTHER_FOLDER = "Use another --data-dir (or WATERCLOCK_STACK__DATA_DIR): one in which you may write"


class ProcessState(NamedTuple):
    """One supervised process. ``life``: waiting, starting, ready, restarting, stopped. ``address``: of what listens."""

    name: str
    life: str
    pid: int
    restart_count: int
    log_path: str
    address: str = ""
    version: str = ""


class StackState(NamedTuple):
    """The whole stack. ``phase``: starting, ready, stopping. ``born``: the supervisor's start, as the kernel counts.

    ``api``: the address of the API, such as http://127.0.0.1:8080.
    """

    pid: int
    born: str
    phase: str
    started_at_s: float
    bootstrap: str
    contact_points: str
    cassandra_port: int
    processes: tuple[ProcessState, ...]
    api: str = ""

    @property
    def alive(self) -> bool:
        """Whether the supervisor that wrote it still runs."""
        return bool(self.born) and birth_of(self.pid) == self.born


def birth_of(pid: int) -> str:
    """When a process started (field 22 of its stat), "" where there is none; elsewhere than on Linux "?" if alive."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except OSError:
            return ""
        return "?"
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def write_state(data_dir: Path, state: StackState) -> None:
    """Replace the state file, in one step."""
    document = state._asdict() | {"processes": [process._asdict() for process in state.processes]}
    partial = data_dir / PARTIAL_FILE
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(data_dir / STATE_FILE)


def read_state(data_dir: Path) -> StackState | None:
    """What the last supervisor wrote, alive or not; None where there never was one (or its file is of another form)."""
    try:
        document = json.loads((data_dir / STATE_FILE).read_text())
        processes = tuple(ProcessState(**process) for process in document.pop("processes"))
        return StackState(**document, processes=processes)
    except (OSError, ValueError, TypeError, KeyError):
        return None


@contextmanager
def sole_owner(data_dir: Path) -> Iterator[None]:
    """Hold the data folder: two supervisors in one would fight over everything. Raises Conflict, StackTrouble."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / LOCK_FILE).open("a+")
    except OSError as error:
        raise StackTrouble(f"{data_dir} cannot hold a stack: {error.strerror}", hint=_ANOTHER_FOLDER) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            state = read_state(data_dir)
            # One that has not written its state yet leaves that of an earlier one, whose pid may be anybody's by now.
            who = f"pid {state.pid}" if state and state.alive else "it is just starting"
            raise Conflict(
                f"A stack runs in {data_dir} already ({who})", hint="Look with `waterclock status`"
            ) from None
        yield
