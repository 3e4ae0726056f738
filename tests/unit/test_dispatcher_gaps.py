"""Gaps and the catch-up lane of a dispatcher on in-memory ports: outages, crashes, edits, lost cursors.

What comes out is judged by the brute-force walk and by the ledger, which must agree.
"""

from __future__ import annotations

from collections import Counter

import pytest
from waterclock.dispatcher.catch_up import Lane
from waterclock.dispatcher.gaps import GAPS_MAX, Gap, Progress, decode_progress
from waterclock.dispatcher.lane_share import LaneShare
from waterclock.dispatcher.loop import Pace
from waterclock.dispatcher.position import Position

from tests.oracle import books, makings, misfires, owed
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.ledger.balance import judge_job
from waterclock.ledger.facts import Facts, JobFacts
from waterclock.ledger.shards import Asked, Ledger
from waterclock.ledger.sums import Span, Sums
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.events import EventKind, Pending, Skipped
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, Once, Tier
from waterclock.model.timing import CatchUpOrder, Misfire, Timing
from waterclock.store.memory import MemoryStore
from waterclock.wire import codec

S = US_PER_S
PLACE = TopicPartition(NAMES.commands, 0)
RULES = owed.Rules(skew=30 * S)
SLOW = Pace(catch_up_per_s=1.0)
JOBS = 20


def judged(world: World) -> Counter[str]:
    """The judges' counts, of books that balance, by the ledger as well."""
    until = world.clock.now() - 1
    commands = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    work = [raw(record) for tier in Tier for record in world.records(NAMES.runs(tier))]
    complaints, counts = books.balance(commands, events, until, RULES)
    late, more = misfires.check(commands, events, until, RULES)
    assert complaints + late + makings.check(commands, events, work, RULES)[0] == []
    assert faults(world, until) == []
    return counts + more


def faults(world: World, until: int) -> list[str]:
    facts = Facts(0, until + 1)
    for record in world.records(NAMES.run_events):
        facts.take(codec.decode_event(record.value), record.timestamp_us)  # type: ignore[attr-defined]
    store = MemoryStore(world.clock, world.tables, "ledger")
    sums = Sums(3)
    for job_id, versions in store.versions(sorted(facts.jobs), back_to=0).items():
        span = Span(0, until + 1, until + 1, until + 1)
        judge_job(job_id, versions[::-1], facts.jobs.get(job_id, JobFacts()), span, sums)
    assert sum(hour.owed for hour in sums.hours.values())
    return [f"{fault.kind}: {fault.run_id} {fault.why}" for hour in sums.hours.values() for fault in hour.named]


def progress(world: World) -> Progress:
    committed = world.cluster.group(NAMES.group("dispatcher")).committed(PLACE)
    assert committed is not None
    return decode_progress(committed.metadata)


def define(world: World, count: int = JOBS, timing: Timing = Timing()) -> list[str]:  # noqa: B008  # a value
    jobs = [f"t:job{number}" for number in range(count)]
    for number, job_id in enumerate(jobs):
        spec = every(30 + number, timing=timing, start_at=START + number * S, tier=list(Tier)[number % 3])
        world.command(CommandKind.CREATE, job_id, spec)
    world.run(2)
    return jobs


def away(world: World, seconds: float) -> None:
    """No dispatcher for so long; then one that is new."""
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(round(seconds * S))
    world.dispatcher = world.start()


def until_closed(world: World, within_s: float = 120) -> None:
    for _ in range(round(within_s)):
        world.run(1, 0.1)
        if not progress(world).gaps:
            return
    raise AssertionError(f"still open: {progress(world)}")


def reasons(world: World, job_id: str = "") -> Counter[str]:
    found: Counter[str] = Counter()
    for event in world.events(EventKind.SKIPPED):
        assert isinstance(event.detail, Skipped)
        if event.job_id.startswith(job_id):
            found[event.reason] += event.detail.fire_count
    return found


def test_what_is_on_time_goes_on_at_once_and_the_gap_is_worked_off_behind_it() -> None:
    world = World(partitions=1, pace=SLOW)
    define(world)
    world.command(CommandKind.CREATE, "t:beat", every(1))
    world.run(1)
    away(world, 600)
    back_at = world.clock.now()
    world.run(8)
    (gap,) = progress(world).gaps
    assert 0 < gap.row_count < JOBS + 1
    world.run(5)
    beats = [event for event in world.events(EventKind.PENDING) if event.job_id == "t:beat"]
    on_time = [each for each in beats if isinstance(each.detail, Pending) and each.detail.fire_at > back_at + 3 * S]
    assert len(on_time) >= 5
    assert all(each.at - each.detail.fire_at < S for each in on_time)  # type: ignore[union-attr]
    until_closed(world)
    assert judged(world)["decided in gaps"] >= JOBS
    assert reasons(world).keys() == {"coalesced"}


@pytest.mark.parametrize("misfire", list(Misfire))
def test_take_overs_in_the_middle_of_a_catch_up_go_on_exactly(misfire: Misfire) -> None:
    world = World(partitions=1, pace=SLOW)
    order = CatchUpOrder.NEWEST if misfire is Misfire.ALL else CatchUpOrder.OLDEST
    define(world, timing=Timing(misfire=misfire, catch_up_max=3, catch_up_order=order))
    away(world, 400)
    seen = []
    for _ in range(4):
        world.run(6)
        seen.append(progress(world))
        world.crash()
    assert all(each.gaps for each in seen[:3])
    assert len({each.gaps[0].position for each in seen[:3]}) == 3
    until_closed(world)
    counts = judged(world)
    assert counts["decided in gaps"] >= JOBS
    assert all(runs.startswith("t:job") for runs in world.runs())


def test_an_outage_while_a_gap_is_open_opens_another_and_the_ninth_is_caught_up_in_order() -> None:
    world = World(partitions=1, pace=Pace(catch_up_per_s=0.01))
    define(world, 3)
    most = 0
    for _ in range(GAPS_MAX + 2):
        away(world, 100)
        world.run(4)
        most = max(most, len(progress(world).gaps))
        starts = [gap.start for gap in progress(world).gaps]
        assert starts == sorted(starts)
    assert most == GAPS_MAX
    world.pace = None
    world.crash()
    until_closed(world)
    judged(world)


def test_a_pause_skips_what_is_undecided_in_a_gap_and_leaves_what_is_decided() -> None:
    world = World(partitions=1, pace=SLOW)
    jobs = define(world)
    away(world, 400)
    world.run(9)
    assert progress(world).gaps
    for job_id in jobs:
        world.command(CommandKind.PAUSE, job_id)
    world.run(2)
    done = reasons(world)
    assert done["coalesced"]
    assert done["paused"]
    said = [event.detail for event in world.events(EventKind.REVISED)][len(jobs) :]
    listed = [detail for detail in said if detail.gaps]  # type: ignore[union-attr]
    assert 0 < len(listed) < JOBS
    world.crash()
    world.run(3)
    for job_id in jobs[::2]:
        world.command(CommandKind.RESUME, job_id)
    until_closed(world)
    world.run(40)
    judged(world)


def test_edits_and_deletes_within_a_gap_leave_its_fires_to_their_own_versions() -> None:
    world = World(partitions=1, pace=SLOW)
    jobs = define(world)
    away(world, 300)
    world.run(8)
    assert progress(world).gaps
    for number, job_id in enumerate(jobs):
        kind = (CommandKind.UPDATE, CommandKind.DELETE, CommandKind.TRIGGER)[number % 3]
        spec = every(17, payload=b"new", tier=Tier.HIGH) if kind is CommandKind.UPDATE else None
        world.command(kind, job_id, spec)
    world.run(2)
    world.crash()
    for job_id in jobs[1::3]:
        world.command(CommandKind.CREATE, job_id, every(9))
    until_closed(world)
    world.run(40)
    counts = judged(world)
    assert counts["skipped:deleted"]
    assert counts["triggered"]


def test_commands_given_during_the_outage_count_from_their_own_time() -> None:
    world = World(partitions=1, pace=SLOW)
    jobs = define(world, 8)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(150 * S)
    for number, job_id in enumerate(jobs):
        if number % 2:
            world.command(CommandKind.PAUSE, job_id)
        else:
            world.command(CommandKind.UPDATE, job_id, every(11, start_at=START))
        world.clock.advance(10 * S)
    world.command(CommandKind.CREATE, "t:born", every(20))
    world.clock.advance(100 * S)
    world.command(CommandKind.RESUME, jobs[1])
    world.clock.advance(70 * S)
    world.dispatcher = world.start()
    world.run(4)
    assert progress(world).gaps
    until_closed(world)
    world.run(30)
    judged(world)
    assert {run.partition("@")[0] for run in world.runs()} >= {"t:born", jobs[0], jobs[1]}


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_lost_cursor_is_built_anew_with_its_gaps(steps: int) -> None:
    world = World(partitions=1, pace=SLOW)
    define(world)
    away(world, 300)
    world.run(4 + 1.5 * steps)
    before = progress(world)
    assert before.gaps
    world.cluster.kill(f"d1-{world.lives}")
    group = world.cluster.group(NAMES.group("dispatcher"))
    position = group.committed(PLACE)
    assert position is not None
    group.commit({PLACE: Committed(position.offset, "")})
    world.dispatcher = world.start()
    world.run(1, 0.01)
    assert progress(world).gaps[0].start == before.gaps[0].start
    assert progress(world).gaps[0].position >= before.gaps[0].position
    until_closed(world)
    judged(world)


def test_a_gap_that_is_closed_does_not_come_back_with_a_lost_cursor() -> None:
    world = World(partitions=1)
    jobs = define(world)
    away(world, 300)
    world.run(1)
    world.command(CommandKind.PAUSE, jobs[0])
    until_closed(world)
    world.cluster.kill(f"d1-{world.lives}")
    group = world.cluster.group(NAMES.group("dispatcher"))
    position = group.committed(PLACE)
    assert position is not None
    group.commit({PLACE: Committed(position.offset, "")})
    world.dispatcher = world.start()
    world.run(8)
    assert not progress(world).gaps
    judged(world)


def test_a_deferred_attempt_and_a_one_off_in_a_gap_go_out_in_it() -> None:
    world = World(partitions=1, pace=SLOW)
    define(world, 4)
    world.command(CommandKind.CREATE, "t:once", JobSpec("demo.noop", Once(START + 100 * S)))
    world.run(40)
    work = codec.decode_work(world.records(NAMES.runs(Tier.HIGH))[0].value)  # type: ignore[attr-defined]
    again = work._replace(attempt=2, verify_from=0)
    offset = world.command(
        CommandKind.DEFER, work.job_id, due_at=world.clock.now() + 130 * S, work=codec.encode_work(again)
    )
    world.run(2)
    assert offset
    away(world, 400)
    until_closed(world)
    attempts = [codec.decode_work(each.value) for each in world.records(NAMES.runs(Tier.HIGH))]  # type: ignore[attr-defined]
    assert [each.attempt for each in attempts if each.run_id == work.run_id] == [1, 2]
    assert len(world.runs("t:once")) == 1


def test_the_ledger_judges_what_lies_beyond_an_open_gap_and_says_what_it_leaves_out() -> None:
    world = World(partitions=1, pace=SLOW)
    define(world)
    away(world, 400)
    back_at = world.clock.now()
    world.run(12)
    (gap,) = progress(world).gaps
    store = MemoryStore(world.clock, world.tables, "ledger")
    ledger = Ledger(world.outside, NAMES, store, 1)
    asked = Asked(START, world.clock.now())
    verdict = ledger.judge(0, asked, ledger.positions())
    assert verdict.is_balanced
    assert not verdict.is_whole
    assert [remark.text for remark in verdict.remarks if "still to be caught up" in remark.text]
    made = [event.detail.fire_at for event in world.events(EventKind.PENDING) if isinstance(event.detail, Pending)]
    (hour,) = verdict.hours.values()
    assert hour.not_yet >= (gap.to_at - gap.position.due_at) // (60 * S)
    assert hour.runs >= sum(fire_at > back_at for fire_at in made) - 1 > 0
    until_closed(world)
    after = ledger.judge(0, asked, ledger.positions())
    assert after.is_balanced
    assert after.is_whole


class AheadWorld(World):
    """Its dispatchers' clock is 25 s ahead: commands are stamped inside a gap that is already open."""

    ahead_us = 25 * S


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.UPDATE, CommandKind.DELETE])
def test_a_command_stamped_inside_a_gap_finds_it_decided(kind: CommandKind) -> None:
    world = AheadWorld(partitions=1, pace=SLOW)
    timing = Timing(jitter_us=2 * S)
    jobs = define(world, 12, timing)
    world.command(CommandKind.CREATE, "t:beat", every(5, start_at=START))
    world.run(1)
    away(world, 300)
    world.run(2)
    (gap,) = progress(world).gaps
    assert world.clock.now() < gap.to_at
    for number, job_id in enumerate([*jobs, "t:beat", "t:new"]):
        is_new = job_id == "t:new" or kind is CommandKind.UPDATE
        world.command(
            CommandKind.CREATE if is_new else kind, job_id, every(7 + number, start_at=START) if is_new else None
        )
    world.run(2)
    world.crash()
    world.run(30)
    for job_id in jobs if kind is CommandKind.PAUSE else ():
        world.command(CommandKind.RESUME, job_id)
    until_closed(world)
    world.run(60)
    judged(world)


def test_a_bucket_is_disposed_of_only_below_every_gap() -> None:
    world = World(partitions=1, pace=Pace(catch_up_per_s=0.001))
    define(world, 3)
    away(world, 4_000)
    world.run(3)
    assert progress(world).gaps
    disposed: list[int] = []
    store = world.dispatcher._index
    dispose = store.dispose_due
    store.dispose_due = lambda slots, minute: disposed.append(minute) or dispose(slots, minute)  # type: ignore[method-assign,func-returns-value]
    world.run(600, 1.0)
    (gap,) = progress(world).gaps
    assert all(minute < gap.position.due_at // (60 * S) for minute in disposed)
    world.pace = None
    world.crash()
    until_closed(world)
    judged(world)


def test_without_a_fire_in_the_backlog_no_gap_is_opened() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, "t:rare", every(700))
    world.run(2)
    away(world, 500)
    world.run(3)
    assert not progress(world).gaps
    assert progress(world).cursor.due_at > world.clock.now() - 10 * S
    world.run(250, 0.25)
    assert len(world.runs("t:rare")) == 1
    judged(world)


def test_the_lane_has_a_quarter_while_work_on_time_waits() -> None:
    world = World(partitions=1, pace=Pace(round_records=4, catch_up_per_s=0))
    define(world, 60)
    for number in range(100):
        world.command(CommandKind.CREATE, f"t:beat{number}", every(1))
    world.run(1)
    away(world, 200)
    world.run(20)  # twenty rounds of four in a second are fewer than fall due
    made = [event.detail for event in world.events(EventKind.PENDING)]
    in_gap = [isinstance(detail, Pending) and detail.gap_to_at > 0 for detail in made]
    since = in_gap[in_gap.index(True) : len(in_gap) - in_gap[::-1].index(True)]
    assert len(since) > 100
    assert 0.15 < sum(since) / len(since) < 0.4  # at first nothing waits
    world.pace = None
    world.crash()
    until_closed(world)
    world.run(30)
    judged(world)


def test_the_share_is_kept_over_rounds_of_any_size_and_the_rate_as_well() -> None:
    for limit in (1, 3, 8, 2_000):
        share, lane = LaneShare(0.25, 0.0, 0.0), Lane(Gap(Position(0), 1, Position(0)), range(4))
        on_time = lanes = 0
        for _ in range(400):
            kept = limit - share.kept_back(limit)
            took = share.allowed(lane, limit, kept, on_time_waits=True, now_s=0.0)
            share.spend(lane, took, on_time_waits=True)
            on_time, lanes = on_time + kept, lanes + took
        assert 0.19 <= lanes / (lanes + on_time) <= 0.251
        assert share.allowed(lane, limit, 0, on_time_waits=False, now_s=0.0) == limit
    share = LaneShare(0.25, 10.0, 0.0)
    taken = 0
    for tick in range(1, 1_001):
        took = share.allowed(lane, 2_000, 0, on_time_waits=False, now_s=tick / 100)
        share.spend(lane, took, on_time_waits=False)
        taken += took
    assert 100 <= taken <= 110
