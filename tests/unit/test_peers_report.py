"""Results of the peers: every round is kept, medians and ranges follow from them, and what is missing is named."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import __main__, installing, processes
from bench.peers.registry import PEERS, chosen
from bench.peers.report import Figure, Report, figures, spread
from bench.peers.trial import Sizes
from bench.plots.__main__ import draw, kept
from bench.plots.bars import Bar, chart
from bench.plots.table import BEGIN, END, written

HERE = installing.HERE


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """As they were: main() takes them for itself."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _report(path: Path, values: list[float]) -> Report:
    report = Report(path)
    for number, value in enumerate(values, 1):
        report.add("arq", number, Figure("burst.runs_per_s", value, "1/s", 100))
    return report


def test_rounds_are_kept_even_when_the_run_is_cut_short(tmp_path: Path) -> None:
    _report(tmp_path / "peers-1.jsonl", [3.0, 1.0])
    lines = (tmp_path / "peers-1.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [3.0, 1.0]


def test_the_figure_is_the_median_and_says_its_range(tmp_path: Path) -> None:
    _report(tmp_path / "peers-1.jsonl", [3.0, 1.0, 2.0]).close()
    last = json.loads((tmp_path / "peers-1.jsonl").read_text().splitlines()[-1])
    assert last == {
        "bench": "peer.arq.burst.runs_per_s",
        "value": 2.0,
        "unit": "1/s",
        "vs": "median of 3, 1.0 to 3.0",
        "ratio": 3.0,
        "n": 100,
    }


def test_rounds_of_several_runs_count_together(tmp_path: Path) -> None:
    _report(tmp_path / "peers-1.jsonl", [3.0]).close()
    _report(tmp_path / "peers-2.jsonl", [1.0, 2.0]).close()
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert spread(figures(lines)["arq", "burst.runs_per_s"]) == (2.0, 1.0, 3.0)


def test_a_peer_that_cannot_be_installed_is_named_and_told_by_the_exit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_peer: object) -> None:
        raise installing.NotInstalled("there is no go on this machine")

    monkeypatch.setattr(__main__, "install", refuse)
    monkeypatch.setattr(processes, "adopt_orphans", lambda: None)
    assert __main__.main(["--smoke", "--only", "river-tuned"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["bench"] == "peer.river-tuned.missing"
    assert "missing: river-tuned: there is no go" in err


def test_a_peer_that_fails_is_missing_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing:
        def __init__(self, peer: object, sizes: Sizes, folder: Path) -> None:
            self.name = getattr(peer, "name", "")

        def run(self) -> list[Figure]:
            if self.name == "arq":
                raise TimeoutError("stuck at 3 of 4 tasks")
            return [Figure("rss_mb", 1.0, "MB", 1)]

    monkeypatch.setattr(__main__, "Trial", Failing)
    monkeypatch.setattr(processes, "end_all", lambda: None)
    report = Report(None)
    __main__.measure(chosen("arq celery-redis"), Sizes(), 1, report)
    report.close()
    assert report.missing == {"arq": "round 1: stuck at 3 of 4 tasks"}
    assert '"peer.celery-redis.rss_mb"' in capsys.readouterr().out


def test_an_interrupted_run_tells_the_medians_of_what_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut_short(_peers: object, _sizes: object, _rounds: int, report: Report) -> None:
        report.add("arq", 1, Figure("rss_mb", 1.0, "MB", 1))
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "measure", cut_short)
    monkeypatch.setattr(__main__, "install", lambda _peer: None)
    monkeypatch.setattr(processes, "adopt_orphans", lambda: None)
    assert __main__.main(["--smoke"]) == 3
    assert '"peer.arq.rss_mb"' in capsys.readouterr().out


def test_an_unknown_peer_is_refused_with_the_names_of_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["--only", "cron"]) == 2
    assert "celery-redis" in capsys.readouterr().err


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_peer_says_why_it_is_configured_so_and_pins_what_it_needs(peer: object) -> None:
    folder = HERE / getattr(peer, "folder", "")
    assert "A herd is" in (folder / "README.md").read_text()
    pins = folder / "requirements.txt"
    if pins.exists():
        assert all(re.fullmatch(r"[\w.-]+==\S+", line) for line in pins.read_text().splitlines())
    else:
        assert (folder / "go.sum").exists() or "<version>" in (folder / "pom.xml").read_text()


def test_every_peer_is_in_the_overview() -> None:
    text = (HERE / "README.md").read_text()
    assert [peer.name for peer in PEERS if peer.name not in text] == []


def test_a_chart_shows_every_bar_and_its_range() -> None:
    drawn = chart("Runs", "1/s", [Bar("arq", 500, 400, 1000), Bar("a<b", 1000, 900, 1000)])
    assert "a&lt;b" in drawn
    assert 'width="250.0"' in drawn
    assert 'x1="370.0"' in drawn


@pytest.mark.parametrize("bars", [[], [Bar("zero", 0, 0, 0)]])
def test_a_chart_of_nothing_is_refused(bars: list[Bar]) -> None:
    with pytest.raises(ValueError, match=r"without|logarithm"):
        chart("Runs", "1/s", bars, logarithmic=True)


def test_plots_are_drawn_from_the_rounds_that_are_kept(tmp_path: Path) -> None:
    _report(tmp_path / "peers-1.jsonl", [3.0, 1.0, 2.0]).close()
    drawn = draw(kept(tmp_path), tmp_path / "img")
    assert [path.name for path in drawn] == ["peers-burst.svg"]
    assert ">2.0<" in drawn[0].read_text()


def test_the_table_replaces_what_stood_between_its_marks(tmp_path: Path) -> None:
    _report(tmp_path / "peers-1.jsonl", [300.0, 100.0, 200.0])
    page = written(f"before\n{BEGIN}\nold\n{END}\nafter\n", kept(tmp_path), ["peers-burst"])
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "old" not in page
    assert "| arq | 200 (100 to 300) |" in page
    assert "![peers-burst](img/peers-burst.svg)" in page
    assert written(page, kept(tmp_path), ["peers-burst"]) == page


def test_a_page_without_the_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="has no"):
        written("text", {}, [])


def test_plots_of_nothing_say_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make bench-peers"):
        kept(tmp_path)
