"""Peers in the rounds of our own series: after each of ours one of each of theirs, on fresh servers.

So the ratio to a peer is of the same hour: the same machine is now faster, now slower. What they made is kept like
that of ``make bench-peers``, in a file of its own, which ``peers.newest`` then finds. A peer that cannot be installed
here is a line that says why, and the bar that names it falls short.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers import __main__ as harness
from bench.peers import processes
from bench.peers.registry import Peer, chosen
from bench.peers.report import RESULTS, Report
from bench.peers.trial import Sizes


class Beside:
    """These peers, by name, all that each can do; ``herds_alone``: nothing but the herd."""

    def __init__(self, names: str, *, herds_alone: bool = False, results: Path = RESULTS) -> None:
        self._report = Report(results / time.strftime("peers-%Y%m%dT%H%M%SZ.jsonl", time.gmtime()))
        processes.adopt_orphans()
        peers = harness.installed(chosen(names), self._report)
        self._peers = [peer._replace(tasks=0) for peer in peers] if herds_alone else peers
        self._rounds = 0

    def round(self) -> None:
        """One more round, which begins with another peer than the one before. Raises RuntimeError: others work here."""
        spoilers = processes.in_the_way()
        if spoilers:
            raise RuntimeError("these processes would take the peers' share: " + "; ".join(spoilers))
        harness.one_round(self._turned(), Sizes(), self._rounds, self._report)
        self._rounds += 1

    def close(self) -> None:
        """Keep the medians."""
        self._report.close()

    def _turned(self) -> Sequence[Peer]:
        turn = self._rounds % max(1, len(self._peers))
        return [*self._peers[turn:], *self._peers[:turn]]
