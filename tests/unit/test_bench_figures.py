"""What benches make of what they measured: quantiles, medians, scaling, comparison with peers, owed runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import amount, burst, leftover, load, overload, peers, recovery, scale, series, sight, watched
from tests.bench.figures import Figures, quantiles
from tests.bench.raw_records import of_run
from waterclock.model.ids import US_PER_S, format_instant
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event, decode_work

NOON = 1_795_003_200 * US_PER_S


def test_quantiles_are_values_that_were_measured() -> None:
    assert quantiles([float(number) for number in range(1, 101)]) == {
        "p50": 50.5,
        "p95": 96.0,
        "p99": 100.0,
        "max": 100.0,
    }
    assert quantiles([7.0]) == {"p50": 7.0, "p95": 7.0, "p99": 7.0, "max": 7.0}


def test_on_a_slow_machine_rates_are_scaled_up_and_times_down_and_shares_not_at_all() -> None:
    half = series.REFERENCE_RUNS_PER_S / 2
    assert series.scaled(100.0, "runs/s", half) == 200.0
    assert series.scaled(100.0, "ms", half) == 50.0
    assert series.scaled(0.7, "x", half) == 0.7


def test_a_series_tells_each_round_then_median_range_and_scaled() -> None:
    figures = Figures("bench-x")
    found = series.Series(figures)
    for rate, raw in ((10.0, 1.0), (30.0, 2.0), (20.0, 1.0)):
        found.raw(raw * series.REFERENCE_RUNS_PER_S)
        found.take("runs_per_s", rate, "runs/s", n=5)
    assert found.judged("runs_per_s") == (20.0, 10.0, 30.0, 15.0)
    told = {str(line["bench"]): line for line in figures.lines}
    assert told["bench-x:runs_per_s.round-2"]["value"] == 30.0
    assert told["bench-x:runs_per_s"]["n"] == 15
    assert told["bench-x:runs_per_s.scaled"]["value"] == 15.0
    assert set(told["bench-x:runs_per_s"]) == {"bench", "value", "unit", "vs", "ratio", "n"}


def _peers(folder: Path, **figures: float) -> peers.Peers:
    lines = [json.dumps({"bench": f"peer.{bench}", "value": value, "unit": ""}) for bench, value in figures.items()]
    path = folder / "peers-20261123T000000Z.jsonl"
    path.write_text("\n".join(lines))
    return peers.Peers(path)


def test_a_bar_is_held_against_the_best_peer_of_its_kind(tmp_path: Path) -> None:
    rates = {"celery-redis.burst.runs_per_s": 900.0, "celery-redis-threads.burst.runs_per_s": 1_100.0}
    waits = {"river-tuned.herd-5000.p99_ms": 90.0, "arq.herd-5000.p99_ms": 4_000.0, "taskiq.herd-5000.p99_ms": 2_000.0}
    found = _peers(tmp_path, **rates, **waits)
    assert found.best(peers.called("celery-redis"), "burst.runs_per_s") == ("celery-redis-threads", 1_100.0)
    assert found.best(peers.in_python, "herd-5000.p99_ms", lowest=True) == ("taskiq", 2_000.0)
    assert found.best(peers.called("river"), "herd-5000.p99_ms", lowest=True) == ("river-tuned", 90.0)


def test_a_file_without_the_figure_is_nothing_to_compare_with(tmp_path: Path) -> None:
    found = _peers(tmp_path, **{"celery-redis.burst.runs_per_s": 1.0})
    with pytest.raises(peers.NoPeers, match=r"peers-20261123T000000Z.jsonl has no peer figure 'drain.runs_per_s'"):
        found.best(peers.called("river-tuned"), "drain.runs_per_s")


def test_a_beat_owes_the_runs_that_are_due_in_the_span() -> None:
    beat = load.Beat("bench:job-1", NOON + 7, 6 * US_PER_S)
    assert beat.runs(NOON, NOON + 12 * US_PER_S) == [
        f"bench:job-1@{format_instant(NOON + 7)}",
        f"bench:job-1@{format_instant(NOON + 7 + 6 * US_PER_S)}",
    ]
    assert beat.runs(NOON + 8, NOON + 9) == []
    assert len(load.owed(load.spread(10_002, 6, NOON), NOON, NOON + 6 * US_PER_S)) == 10_002
    assert [sight.fire_at(run_id) for run_id in beat.runs(NOON, NOON + US_PER_S)] == [NOON + 7]


def test_a_run_that_never_began_or_began_twice_is_an_error_and_no_figure() -> None:
    beats = load.together(3, 1, NOON)
    span = watched.Span(NOON, NOON + US_PER_S)
    seen = [sight.Glimpse(sight.STARTED, run, NOON, NOON + 5_000) for run in sorted(load.owed(beats, *span))]
    assert watched.judged(beats, seen, span)["p99"] == 5.0
    with pytest.raises(RuntimeError, match="of 3 runs 1 never began, 0 twice"):
        watched.judged(beats, seen[1:], span)
    with pytest.raises(RuntimeError, match="of 3 runs 0 never began, 1 twice"):
        watched.judged(beats, [*seen, seen[0]], span)


def test_the_worst_beginning_after_a_kill_is_told_kill_by_kill() -> None:
    second = US_PER_S
    seen = [
        sight.Glimpse(
            sight.STARTED, f"bench:job-1@{format_instant(NOON + at * second)}", 0, NOON + (at + late) * second
        )
        for at, late in ((1, 0), (9, 4), (11, 6), (19, 1), (21, 2))
    ]
    kills = [NOON + 10 * second, NOON + 20 * second]
    assert recovery.worst_after(seen, kills, NOON + 30 * second) == [6.0, 2.0]


def test_the_raw_loops_send_what_the_roles_would() -> None:
    run = of_run("bench:job-1", NOON)
    run_id = f"bench:job-1@{format_instant(NOON)}"
    assert decode_work(run.work[1]).run_id == run_id
    for raw, word in ((run.pending, "pending"), (run.started, "started"), (run.succeeded, "succeeded")):
        assert decode_event(raw[1]).run_id == run_id
        assert raw[3][:2] == [("ce_type", f"io.waterclock.run.{word}".encode()), ("ce_subject", run_id.encode())]


def test_an_overload_asks_for_five_times_what_the_slots_serve_and_high_alone_fits() -> None:
    asked = overload.asked(4)
    assert sum(asked.values()) == 2_000
    assert asked[Tier.HIGH] == 100


def test_a_cost_that_does_not_grow_has_the_exponent_0_and_one_in_proportion_1() -> None:
    assert scale.exponent([(1, 5.0), (10, 5.0), (100, 5.0)]) == pytest.approx(0.0)
    assert scale.exponent([(1, 5.0), (10, 50.0), (100, 500.0)]) == pytest.approx(1.0)


def test_a_quick_look_is_never_taken_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(amount.ROUNDS, raising=False)
    monkeypatch.delenv(amount.PART, raising=False)
    assert (amount.rounds(), amount.part(600), amount.is_whole()) == (5, 600, True)
    monkeypatch.setenv(amount.ROUNDS, "1")
    assert (amount.rounds(), amount.is_whole(), amount.is_whole(1)) == (1, False, True)
    monkeypatch.setenv(amount.PART, "0.1")
    assert (amount.part(600), amount.part(5, least=2), amount.is_whole(1)) == (60, 2, False)


def test_no_bench_starts_while_a_process_of_an_earlier_round_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(leftover.MARK, "1")
    before = leftover.living()
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert set(leftover.living()) - set(before) == {left.pid}
        with pytest.raises(leftover.RoundStillLives, match=rf"{left.pid} .*End them, then measure"):
            leftover.refuse()
    finally:
        left.communicate(b"\n")
    assert left.pid not in leftover.living()
    assert os.environ[leftover.MARK] == str(os.getpid())


def test_the_bursts_are_large_enough_for_the_bar() -> None:
    assert burst.WHOLE.jobs >= 10_000
    assert burst.WHOLE.jobs * burst.WHOLE.fires >= 200_000
