"""Peers in the rounds of our own series; nobody is installed or started here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.peers import __main__ as harness
from bench.peers import processes
from bench.peers.registry import Peer
from bench.peers.report import Figure, Report
from bench.peers.trial import Sizes
from tests.bench import peers
from tests.bench.beside import Beside

NAMES = "celery-redis dramatiq-rabbitmq river-tuned"


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[Peer]]:
    """Who was measured, round by round: each makes as many runs/s as its round's number says, from 1 on."""
    measured: list[list[Peer]] = []

    def one_round(who: Sequence[Peer], _sizes: Sizes, number: int, report: Report) -> None:
        measured.append(list(who))
        for peer in who:
            what = "burst.runs_per_s" if peer.tasks else "herd-5000.p99_ms"
            report.add(peer.name, number + 1, Figure(what, float(number + 1), "1/s", peer.tasks))

    monkeypatch.setattr(harness, "one_round", one_round)
    monkeypatch.setattr(harness, "installed", lambda who, _report: who)
    monkeypatch.setattr(processes, "adopt_orphans", lambda: None)
    monkeypatch.setattr(processes, "in_the_way", list)
    return measured


def test_each_round_begins_with_another_peer_and_the_medians_are_what_bars_are_held_against(
    rounds: list[list[Peer]], tmp_path: Path
) -> None:
    beside = Beside(NAMES, results=tmp_path)
    for _ in range(3):
        beside.round()
    found = beside.close()
    assert [who[0].name for who in rounds] == NAMES.split()
    assert found.best(peers.called("celery-redis"), "burst.runs_per_s") == ("celery-redis", 2.0)
    assert beside.lacks() == []


def test_a_herd_alone_has_no_burst_and_is_not_drawn_with_those_that_have(
    rounds: list[list[Peer]], tmp_path: Path
) -> None:
    beside = Beside(NAMES, herds_alone=True, results=tmp_path)
    beside.round()
    assert [peer.tasks for peer in rounds[0]] == [0, 0, 0]
    assert beside.lacks() == []
    assert list(tmp_path.glob("peers-*")) == []


def test_a_peer_that_cannot_be_installed_is_lacking(
    rounds: list[list[Peer]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(who: Sequence[Peer], report: Report) -> list[Peer]:
        report.miss("river-tuned", "there is no go on this machine")
        return [peer for peer in who if peer.name != "river-tuned"]

    monkeypatch.setattr(harness, "installed", installed)
    beside = Beside(NAMES, results=tmp_path)
    beside.round()
    assert beside.lacks() == ["river-tuned: 0 of 1 rounds", "river-tuned: there is no go on this machine"]


def test_peers_are_not_measured_beside_a_server_of_ours(
    rounds: list[list[Peer]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = Beside(NAMES, results=tmp_path)
    monkeypatch.setattr(processes, "in_the_way", lambda: ["7: a server of our own"])
    beside.round()
    assert rounds == []
    assert [each for each in beside.lacks() if "7: a server of our own" in each]
    with pytest.raises(RuntimeError, match="7: a server of our own"):
        Beside(NAMES, results=tmp_path)
