"""Stops this process where a check asked for it: in mid-handler, or between produce and commit of a round.

An order is a file ``<instance>.handler`` or ``<instance>.commit`` in ``STOP_FOLDER``; whoever removes it obeys, so each
is obeyed once. The process stops itself with SIGSTOP, all its threads at once, and goes on at the check's SIGCONT. What
it held is noted first, in ``<instance>.stopped.jsonl``. Product code knows nothing of this: ``zombie_worker.py`` wraps
the producer.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_FOLDER = os.environ.get("STOP_FOLDER", "")
_INSTANCE = os.environ.get("WATERCLOCK_INSTANCE", "")


def in_a_handler(run_id: str, attempt: int) -> bool:
    """Stop here if it was ordered; a handler calls this. True: it was, and somebody woke us."""
    is_ordered = _obeys("handler")
    if is_ordered:
        _stop("handler", [f"{run_id}/{attempt}"])
    return is_ordered


def before_a_commit(effects: Sequence[str]) -> bool:
    """Whether a stop between produce and commit is ordered for this round; the caller makes its records stand first."""
    return bool(effects) and _obeys("commit")


def at_the_commit(effects: Sequence[str]) -> None:
    """Stop; ``effects`` are the ids of the records that stand in the log, uncommitted."""
    _stop("commit", effects)


def _obeys(where: str) -> bool:
    if not _FOLDER:
        return False
    try:
        os.unlink(f"{_FOLDER}/{_INSTANCE}.{where}")  # noqa: PTH108 - called for every attempt
    except FileNotFoundError:
        return False
    return True


def _stop(where: str, held: Sequence[str]) -> None:
    note = {"where": where, "held": list(held), "at": time.time_ns() // 1_000}
    with (Path(_FOLDER) / f"{_INSTANCE}.stopped.jsonl").open("a") as notes:
        notes.write(json.dumps(note) + "\n")
    # To this thread: it stops here, and all others with it. A signal to the process may stop another thread first.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
