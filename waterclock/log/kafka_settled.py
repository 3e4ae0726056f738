"""What a group has committed, once no round that moves it is open.

Why beside ``committed_of``: a broker does not wait for a round that is being committed, and neither does the client. It
answers with an error for each partition that the round moves, and such a partition was left out, as if nothing had
ever been committed for it (measured: for as long as a round is open, and for a moment behind its commit). Asked
without ``require_stable`` it tells what stood before the round: so a partition that shows there alone is asked for
again. How it fails: BackendDown where a round stays open for 10 s.
"""

from __future__ import annotations

import time
from threading import Event

from confluent_kafka.admin import AdminClient

from waterclock.model.errors import BackendDown

from .kafka_errors import BACKEND
from .kafka_groups import TIMEOUT_S, committed_of
from .port import Committed, TopicPartition

_ASK_AGAIN_S = 0.02


def settled_positions(admin: AdminClient, group: str) -> dict[TopicPartition, Committed]:
    """Every position of ``group``, each as of a moment at which no round was moving it. Raises BackendDown."""
    until_s = time.monotonic() + TIMEOUT_S
    found = committed_of(admin, group)
    while moving := committed_of(admin, group, stable=False).keys() - found.keys():
        if time.monotonic() >= until_s:
            places = ", ".join(f"{at.topic}[{at.partition}]" for at in sorted(moving))
            raise BackendDown(
                BACKEND, f"{group}: a round has been moving its positions for {TIMEOUT_S:.0f} s: {places}"
            )
        Event().wait(_ASK_AGAIN_S)  # time.sleep fails (EINVAL) where a wall clock is faked under the process
        found |= committed_of(admin, group)
    return found
