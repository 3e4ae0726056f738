"""Real servers and all roles under 300 kills and every other fault: no run lost, none doubled, no order forgotten.

An hour by one seed (``make chaos SEED=...`` plays another, as long as you like): SIGKILL and SIGSTOP of every
role, of the broker and of Cassandra; a proxy before each that cuts, delays, stops one way, and lets EndTxn come late;
a clock that jumps, a full disk, members that come and go. What this machine does not allow is left out, and printed.
Then nothing but waiting, and the judges of ``tests/oracle`` over topics, tables, the sink's ledger and what a client
outside was told. ``tests/chaos/`` is the machinery.
"""

from __future__ import annotations

from tests.chaos.happened import EFFECTS
from tests.chaos.play import Size, play, size_of

SHORT_FORM = False
"""Not in ``make test`` before a clean clone was timed with it: it takes seven minutes of a machine's whole."""

SHORT_TIMEOUT_S = 900
"""Of the short form: four minutes of faults, and the way to rest."""

WHOLE = Size(
    minutes=63.0,
    runs_per_s=90.0,
    runs=100_000,
    at_least={
        **size_of(63.0).at_least,
        **dict.fromkeys(EFFECTS, 1),
        "kill": 300,
        "kill-kafka": 20,
        "kill-cassandra": 20,
        "stop": 50,
    },
)
SHORT = size_of(4.1, 40.0)


def main(short: bool = False, seed: int | None = None) -> None:
    play(seed, SHORT if short else WHOLE)
