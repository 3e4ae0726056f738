"""Measures peers in interleaved rounds: `python -m bench.peers [--rounds N] [--only NAMES] [--smoke]`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers import processes
from bench.peers.installing import NotInstalled, install
from bench.peers.registry import Peer, chosen
from bench.peers.report import RESULTS, Report
from bench.peers.servers import Lacking
from bench.peers.trial import Sizes, Trial

ROUNDS = 5
SMOKE = Sizes(tasks=300, herd=200, warm=50)
"""Shows that everything works, measures nothing: nothing of it is kept, and others may work beside it."""


def main(argv: list[str]) -> int:
    """The exit status: 0, 2 when nothing was measured, 3 when peers are missing."""
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, help="without it five, and one of --smoke")
    parser.add_argument("--only", default="", help="names of peers, separated by blanks or commas")
    parser.add_argument("--smoke", action="store_true", help="tiny, and not kept")
    asked = parser.parse_args(argv)
    try:
        peers = chosen(asked.only)
    except ValueError as unknown:
        print(unknown, file=sys.stderr)
        return 2
    if (spoilers := processes.in_the_way()) and not asked.smoke:
        print("not measured, these processes would take their share:", *spoilers, sep="\n  ", file=sys.stderr)
        return 2
    for asking in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs in the background deaf to the first
        signal.signal(asking, signal.default_int_handler)
    processes.adopt_orphans()
    name = time.strftime("peers-%Y%m%dT%H%M%SZ.jsonl", time.gmtime())
    report = Report(None if asked.smoke else RESULTS / name)
    try:
        rounds = asked.rounds or (1 if asked.smoke else ROUNDS)
        measure(installed(peers, report), SMOKE if asked.smoke else Sizes(), rounds, report)
    except KeyboardInterrupt:
        report.miss("later-rounds", "interrupted")
    report.close()
    for peer, reason in report.missing.items():
        print(f"missing: {peer}: {reason}", file=sys.stderr)
    return 3 if report.missing else 0


def measure(peers: list[Peer], sizes: Sizes, rounds: int, report: Report) -> None:
    """Interleaved: each round begins with another peer, so that none always follows the same one."""
    for number in range(rounds):
        one_round(turned(peers, number), sizes, number, report)


def turned(peers: Sequence[Peer], number: int) -> list[Peer]:
    """The order of a round, counted from 0."""
    turn = number % len(peers) if peers else 0
    return [*peers[turn:], *peers[:turn]]


def one_round(peers: Sequence[Peer], sizes: Sizes, number: int, report: Report) -> None:
    """Each of them once, in this order, on fresh servers; nothing of it lives on. ``number`` counts from 0."""
    for peer in peers:
        print(f"round {number + 1}: {peer.name}", flush=True)
        with tempfile.TemporaryDirectory(prefix=processes.FOLDER, ignore_cleanup_errors=True) as folder:
            try:
                for measured in Trial(peer, sizes, Path(folder)).run():
                    report.add(peer.name, number + 1, measured)
            except (ValueError, TimeoutError, Lacking) as trouble:
                report.miss(peer.name, f"round {number + 1}: {trouble}")
            finally:
                processes.end_all()


def installed(peers: list[Peer], report: Report) -> list[Peer]:
    """Those that can be had on this machine, made ready; why others cannot, the report says."""
    ready = []
    for peer in peers:
        try:
            install(peer)
        except NotInstalled as trouble:
            report.miss(peer.name, str(trouble))
        else:
            ready.append(peer)
    return ready


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
