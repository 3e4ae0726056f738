"""The schedule of real fire follows from its seed alone, holds every kind, and leaves out what cannot be had."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.acceptance.chaos import WHOLE
from tests.chaos import schedule
from tests.chaos.rights import CLOCK, DISK


def test_a_seed_draws_the_same_schedule_again_and_another_seed_another() -> None:
    assert schedule.draw(7, 4.0) == schedule.draw(7, 4.0)
    assert schedule.draw(7, 4.0) != schedule.draw(8, 4.0)


def test_the_shortest_schedule_has_every_kind_and_nothing_happens_after_its_end() -> None:
    faults = schedule.draw(1, 1.0)
    assert {fault.kind for fault in faults} == set(schedule.PER_MINUTE)
    assert max(fault.at_s for fault in faults) < 60.0
    assert faults == sorted(faults)


def test_the_whole_one_has_more_of_each_than_must_happen() -> None:
    counts = Counter(fault.kind for fault in schedule.draw(1, WHOLE.minutes))
    wanted = {kind: WHOLE.at_least[kind] for kind in schedule.PER_MINUTE}
    assert {kind: counts[kind] for kind in wanted if counts[kind] < wanted[kind]} == {}


def test_what_cannot_be_had_is_left_out_and_shifts_no_other() -> None:
    every = schedule.draw(3, 5.0)
    without = schedule.draw(3, 5.0, {CLOCK: "no library", DISK: "no mounts"})
    assert without == [fault for fault in every if fault.kind not in (CLOCK, DISK)]


def test_a_stop_is_either_within_the_lease_or_beyond_lease_and_session() -> None:
    stops = [fault for fault in schedule.draw(5, 60.0) if fault.kind == "stop"]
    beyond = max(schedule.LEASE_S, schedule.SESSION_S)
    short = [fault.lasts_s for fault in stops if fault.how == "short"]
    long = [fault.lasts_s for fault in stops if fault.how == "long"]
    assert 0 < max(short) < schedule.LEASE_S
    assert min(long) > beyond
    first = next(fault for fault in schedule.draw(5, 1.0) if fault.kind == "stop")
    assert (first.target in schedule.WORKERS, first.how) == (True, "long"), "the shortest one has its zombie"


def test_the_file_holds_the_schedule(tmp_path: Path) -> None:
    faults = schedule.draw(3, 2.0)
    schedule.write(tmp_path / "schedule.jsonl", faults)
    lines = (tmp_path / "schedule.jsonl").read_text().splitlines()
    assert [schedule.Fault(**json.loads(line)) for line in lines] == faults


def test_half_of_the_jumps_of_a_clock_go_ahead_whatever_the_seed() -> None:
    for seed in range(5):
        jumps = [fault.how for fault in schedule.draw(seed, WHOLE.minutes) if fault.kind == CLOCK]
        ahead = sum(jump.startswith("+") for jump in jumps)
        assert len(jumps) > 4
        assert ahead == (len(jumps) + 1) // 2
