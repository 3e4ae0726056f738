"""Ends a stack from another terminal, and deletes its data when that is asked for.

Touches only the supervisor that the state file of this folder names, and only if it is still that very process.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from .state import STATE_FILE, birth_of, read_state, sole_owner
from .trouble import StackTrouble

_LOOK_AGAIN_S = 0.05


def stop_stack(data_dir: Path, *, within_s: float = 15.0) -> bool:
    """SIGTERM to the supervisor, which drains and stops its children. False: nothing ran. Raises StackTrouble."""
    state = read_state(data_dir)
    if state is None or not state.alive:
        return False
    os.kill(state.pid, signal.SIGTERM)
    give_up_at = time.monotonic() + within_s
    while birth_of(state.pid) == state.born:
        if time.monotonic() > give_up_at:
            raise StackTrouble(
                f"The supervisor (pid {state.pid}) still runs after {within_s:.0f} s",
                hint=f"End it with kill -9 {state.pid}: its processes die with it, and nothing acknowledged is lost",
            )
        time.sleep(_LOOK_AGAIN_S)
    return True


def purge(data_dir: Path) -> bool:
    """Delete the data folder of a stack that does not run. False: there was none. Raises Conflict, StackTrouble."""
    if not data_dir.exists():
        return False
    if not (data_dir / STATE_FILE).exists() and not (data_dir / "kafka").exists() and any(data_dir.iterdir()):
        raise StackTrouble(
            f"{data_dir} does not look like a data folder of ours: nothing deleted", hint="Check --data-dir"
        )
    with sole_owner(data_dir):
        shutil.rmtree(data_dir)
    return True
