"""Ends a stack from another terminal, and deletes its data when that is asked for.

Touches only the supervisor that the state file of this folder names, and only if it is still that very process.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from .jars import CASSANDRA, KAFKA
from .state import LOCK_FILE, PARTIAL_FILE, STATE_FILE, birth_of, read_state, sole_owner
from .trouble import StackTrouble

_LOOK_AGAIN_S = 0.05
_OURS = {STATE_FILE, PARTIAL_FILE, LOCK_FILE, "logs", "ready", "failing-plans", KAFKA.name, CASSANDRA.name}
"""All that a data folder holds."""


def stop_stack(data_dir: Path, *, within_s: float = 15.0) -> bool:
    """SIGTERM to the supervisor, which drains and stops its children. False: nothing ran.

    Raises StackTrouble, and Conflict where one is just starting.
    """
    state = read_state(data_dir)
    if state is None or not state.alive:
        if os.access(data_dir / LOCK_FILE, os.W_OK):
            with sole_owner(data_dir):  # Conflict: one is starting, which cannot be told to stop yet
                pass
        return False
    try:
        os.kill(state.pid, signal.SIGTERM)
    except ProcessLookupError:  # it ended meanwhile
        return True
    except PermissionError as error:
        raise StackTrouble(
            f"The stack in {data_dir} (pid {state.pid}) belongs to another user",
            hint="Stop it as that user, or as root",
        ) from error
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
    strange = _not_ours(data_dir)
    if strange:
        raise StackTrouble(
            f"{data_dir} does not look like a data folder of ours ({strange}): nothing deleted",
            hint="Check --data-dir; what a stack has put there can be deleted by hand",
        )
    with sole_owner(data_dir):
        shutil.rmtree(data_dir)
    return True


def _not_ours(folder: Path) -> str:
    """What lies in it that we did not put there, "": nothing. A home, too, may hold a ``kafka`` or a ``state.json``."""
    if not folder.is_dir():
        return "it is no folder"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name not in _OURS)
    return f"it holds {names[0]}" if names else ""
