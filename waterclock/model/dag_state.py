"""What the DAG engine keeps of open DagRuns in its state topic, under their run ids and those of their nodes.

One record for each DagRun and one for each of its nodes, written anew in the round that reads what has changed it:
nothing is ever written for a whole DagRun, so an end of a node costs the same in a Dag of any size. Both say only what
was read from run-events. Values, on-disk format.
"""

from __future__ import annotations

from typing import NamedTuple

from .ids import Instant


class KeptDagRun(NamedTuple):
    """An open DagRun. ``state``: a ``known_state`` text; its events below ``folded_to`` are in it.

    ``first_offset``: of its PENDING (or HELD, while it waits) on run-events; ``began_at``: when that PENDING was
    written, from when on its age counts. ``payload``, ``rerun_from``: see ``DagStart``. ``linked_run``: the DagRun of
    which this one is a rerun.
    """

    run_id: str
    first_offset: int
    state: str
    folded_to: int
    revision: int
    fire_at: Instant
    began_at: Instant
    payload: bytes | None = None
    rerun_from: tuple[str, ...] = ()
    linked_run: str = ""


class KeptNode(NamedTuple):
    """A node run that is known. ``counts_as``: a ``NodeEnd``, 0 while it is open.

    ``result``: of one that succeeded, where some other node asks for it, or NOT_KEPT.
    """

    run_id: str
    first_offset: int
    state: str
    folded_to: int
    counts_as: int = 0
    result: bytes | None = None
