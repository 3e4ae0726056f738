"""What run events say of Dags alone. Values; on-disk format like all of ``events.py``."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NOT_KEPT = b""
"""In place of a result, which is JSON: there is one, and it was too large to be kept, or no JSON. None is none."""


class NodeEnd(IntEnum):
    """What a node counts as once it has ended; the numbers are on-disk format. A cancelled run has FAILED."""

    SUCCEEDED = 1
    FAILED = 2
    SKIPPED = 3
    UPSTREAM_FAILED = 4
    """It never ran, because something that it needs has failed: its status is SKIPPED, and it fails its DagRun."""


class DagStart(NamedTuple):
    """What tells the PENDING of a DagRun from that of a run: no work record goes with it.

    ``payload``: what its nodes are given where they have none of their own; None: the job's. ``rerun_from``: the nodes
    that a rerun of ``Pending.linked_run`` begins with; what does not come after them is kept as it was.
    """

    payload: bytes | None = None
    rerun_from: tuple[str, ...] = ()


class NodeSkipped(NamedTuple):
    """Detail of NODE_SKIPPED: what the node counts as for those behind it, and for its DagRun.

    ``result``: of a node that a rerun keeps, as JSON; NOT_KEPT where it was not kept, None where there is none.
    """

    counts_as: NodeEnd
    result: bytes | None = None
