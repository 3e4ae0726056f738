"""Peers in the rounds of our own series: after each of ours one of each of theirs, on fresh servers.

So the ratio to a peer is of the same hour: the same machine is now faster, now slower. What they made is kept beside
our own results, in a file of its own, and judged by that file alone. A peer that cannot be installed here, or lacks a
round, is told by ``lacks``: a bar must not pass because the best peer was away.
"""

from __future__ import annotations

import time
from pathlib import Path

from bench.peers import __main__ as harness
from bench.peers import processes
from bench.peers.registry import chosen
from bench.peers.report import Report
from bench.peers.trial import Sizes
from tests.bench.figures import RESULTS
from tests.bench.peers import Peers

_BURST = "burst.runs_per_s"
_HERD = "herd-5000.p99_ms"


class Beside:
    """These peers, by name, all that each can do, as ``make bench-peers`` keeps it; ``herds_alone``: nothing but the
    herd, in a file that the plots of peers pass over. Raises RuntimeError: others work here."""

    def __init__(self, names: str, *, herds_alone: bool = False, results: Path = RESULTS) -> None:
        _refuse_company()
        made_at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.path = results / f"{'herds-of-peers' if herds_alone else 'peers'}-{made_at}.jsonl"
        self._report = Report(self.path)
        self._judged = _HERD if herds_alone else _BURST
        self._wanted = chosen(names)
        processes.adopt_orphans()
        peers = harness.installed(self._wanted, self._report)
        self._peers = [peer._replace(tasks=0) for peer in peers] if herds_alone else peers
        self._rounds = 0

    def round(self) -> None:
        """One more round, which begins with another peer than the one before."""
        try:
            _refuse_company()
        except RuntimeError as trouble:  # our own rounds are not thrown away for it
            self._report.miss(f"round-{self._rounds + 1}", str(trouble))
        else:
            harness.one_round(harness.turned(self._peers, self._rounds), Sizes(), self._rounds, self._report)
        self._rounds += 1

    def close(self) -> Peers:
        """Keep the medians; what bars are held against."""
        self._report.close()
        return Peers(self.path)

    def lacks(self) -> list[str]:
        """What is missing of so many rounds of each peer, with the reasons."""
        made = {peer.name: len(self._report.rounds(peer.name, self._judged)) for peer in self._wanted}
        few = [f"{name}: {count} of {self._rounds} rounds" for name, count in made.items() if count < self._rounds]
        return [*few, *(f"{name}: {reason}" for name, reason in self._report.missing.items())]


def _refuse_company() -> None:
    spoilers = processes.in_the_way()
    if spoilers:
        raise RuntimeError("these processes would take the peers' share: " + "; ".join(spoilers))
