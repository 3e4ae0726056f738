"""One seed, played: troubled for a while, healed, brought to rest, dumped and judged.

The end of a play is always the same: nothing goes wrong any more, every process that is dead is started (in half of the
seeds those too that live), the dispatchers decide what is due and stop, the others finish what is left. Then whatever
the log and the tables hold is all that counts.
"""

from __future__ import annotations

import collections
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from waterclock.dispatcher.gaps import decode_progress
from waterclock.dispatcher.loop import Dispatcher

from waterclock.log.memory import Killed
from waterclock.log.port import TopicPartition
from waterclock.model.errors import BackendDown, LostResource
from waterclock.model.ids import US_PER_S, Instant, job_of_run
from waterclock.model.job import JobStatus
from waterclock.store.memory import MemoryStore

from .api_clients import ApiClients
from .asking import Asking
from .beside_people import BESIDE, probes
from .checkers import CHECKERS, Checker, judged
from .counted_people import COUNTED
from .dice import dice
from .dumps import Dumps, take_dumps
from .losses import Losses
from .nemesis import Nemesis
from .pacing import Pacing
from .people import LADDER_US, STEADY, Order
from .plan import POOLS, Plan, draw
from .remembered import decoded_once
from .schedule import Schedule
from .senders import Garbage, Senders
from .stage import silenced, with_constants
from .standing import DOORS, lagging
from .story import Story
from .tidying import tidied_up_afterwards
from .world import NAMES, Life, World
from .zone_data import zone_that_may_go
from .zone_people import ABROAD

_SECOND = US_PER_S
_HEALED = 4 * _SECOND
"""From the heal to the end of the books: fires of a healthy system are among them."""
EVENTS_WANTED = 220
_EVENTS_OF_A_RUN = 3
_SLICE = _SECOND
_HELD_LEFT = 4
_LONG_AFTER_US = 90 * _SECOND
_SLICES_MAX = 150
_TURN_OF_A_BACKFILL = 5
"""Slices within which one that waits for the one before it, and not for the end of a pause, goes on."""
_SWAMPED = 30
_GOES_ON_MAX = 6
_SLEEPS_MAX = 30
_TURNS_MAX = 200
_SLEEP_FROM_US = 20 * _SECOND
_LOOK_US = 100_000
_LOOKS_MAX = 60
_BACKEND_DOWN_US = 500_000
_ENDED_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a play. ``complaints`` is empty when every promise was kept."""

    seed: int
    complaints: tuple[str, ...]
    counts: Counter[str]
    digest: str
    lines: tuple[str, ...] = ()


def play(
    seed: int,
    *,
    checkers: Sequence[Checker] = CHECKERS,
    keeps_lines: bool = False,
    planted: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Verdict:
    """Play a seed. ``planted`` puts a bug into the product for the time of the play."""
    return play_plan(draw(seed), checkers=checkers, keeps_lines=keeps_lines, planted=planted)


def play_plan(
    plan: Plan,
    *,
    checkers: Sequence[Checker] = CHECKERS,
    keeps_lines: bool = False,
    planted: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Verdict:
    """The same for a plan that may follow from no seed."""
    with tidied_up_afterwards(), decoded_once():
        story = Story(keeps_lines=keeps_lines)
        dumps = leave_behind(plan, story, planted)
        for content in dumps.contents():
            story.add(content)
        story.counts["run events"] = len(dumps.events)
        story.weave(dumps.events, plan.start_at)
        complaints: list[str] = []
        for checker in checkers:
            complaints += judged(checker, dumps, story.counts)
        return Verdict(plan.seed, tuple(complaints), story.counts, story.digest(), tuple(story.lines))


def leave(seed: int, story: Story, planted: Callable[[], AbstractContextManager[None]] = nullcontext) -> Dumps:
    """What a play of this seed leaves behind, not judged yet."""
    return leave_behind(draw(seed), story, planted)


def leave_behind(plan: Plan, story: Story, planted: Callable[[], AbstractContextManager[None]] = nullcontext) -> Dumps:
    """The same for a plan that may follow from no seed."""
    with planted(), silenced(), with_constants(plan), zone_that_may_go() as take_zone_away:
        return _Play(plan, story, take_zone_away).run()


class _Play:
    def __init__(self, plan: Plan, story: Story, take_zone_away: Callable[[], None]) -> None:
        self._plan = plan
        self._story = story
        self._world = World(plan)
        self._world.take_zone_away = take_zone_away
        self._schedule = Schedule(self._world.clock)
        story.begin(lambda: self._world.clock.now() - plan.start_at)
        self._nemesis = Nemesis(self._world, self._schedule, story, self._restart)
        self._onlooker = self._world.onlooker
        self._asking = Asking(self._world.outside, NAMES, self._onlooker)
        self._senders = Senders(self._world.outside, NAMES, self._world.history, POOLS)
        self._clients = ApiClients(self._world, self._schedule, story, dice(plan.seed, "clients"))
        self._pace = Pacing(plan, self._world.executors)
        self._losses = Losses(self._world, dice(plan.seed, "losses"))
        self._broken: list[str] = []
        self._let_go_before: set[str] = set()
        self._ends: list[int] = []
        self._quiet = 0
        """Looks in a row at run-events that found nothing new."""

    def run(self) -> Dumps:
        schedule, world = self._schedule, self._world
        self._story.counts.update(f"small: {name}" for name in self._plan.small)
        for slot in self._plan.slots:  # by the schedule: while one is being built, and waits for a store, others begin
            schedule.after(0, lambda slot=slot: self._start(slot))
        for order in self._plan.orders:
            schedule.after(order.at, lambda order=order: self._order(order))
        for garbage in self._plan.garbage:
            schedule.after(garbage.at, lambda garbage=garbage: self._throw(garbage))
        schedule.run(self._plan.horizon)
        self._heal()
        if self._lets_catch_up():
            self._wait_for("catches up", lambda: self._decided(world.healed_at))
        self._fill()
        if self._plan.loses_rows:
            self._lose_rows()
        if self._paused_too_long():
            self._wait_for("ends the pauses whose time has come", lambda: not self._paused_too_long())
        self._end_all(again=False)
        schedule.run(schedule.tick + _SLICE)
        self._wait_for("hears what its clients want", lambda: not (self._clients.busy or lagging(world.cluster, DOORS)))
        self._end_all(again=True)
        schedule.run(schedule.tick + _SLICE)
        self._asking.resume_dag_runs(world.clock.now())
        until = world.clock.now()
        self._wait_while_it_goes_on("decides what is due", lambda: self._decided(until))
        self._come_to_rest()
        self._probe()
        self._losses.note_repairs()
        self._nemesis.retention.put_back()
        return take_dumps(world, until, self._broken)

    def _come_to_rest(self) -> None:
        """Nothing is open any more. Two slots may work for over an hour on what is called only to time out: a turn in
        which some of it ended does not count."""
        is_at_rest = self._wait_for("comes to rest", self._at_rest)
        turns_left = _SLEEPS_MAX
        for _ in range(_TURNS_MAX):
            before = len(self._onlooker.look().open)
            if not turns_left or (is_at_rest and not before):
                return
            is_at_rest = self._let_go() if is_at_rest and self._onlooker.held() else self._sleep()
            is_shorter = len(self._onlooker.look().open) < before
            turns_left -= not is_shorter
            self._story.counts["turns in which less was open"] += is_shorter

    def _lets_catch_up(self) -> bool:
        """In half of the seeds with outages nobody pauses anything before all is caught up.

        In the others many a gap ends by the pauses with which every play ends.
        """
        plan = self._plan
        return any(each.kind == "outage" for each in plan.troubles) and dice(plan.seed, "catches up").random() < 0.5

    def _fill(self) -> None:
        """The healed system works for a while; where troubles left little to judge, it is given more at once."""
        self._schedule.run(self._schedule.tick + _HEALED)
        self._onlooker.look()
        missing = EVENTS_WANTED - self._onlooker.events_count
        self._world.is_closing = True
        if missing > 0:
            steady = [job_id for job_id in STEADY if job_id in self._plan.job_ids()]
            self._asking.trigger(steady, -(-missing // _EVENTS_OF_A_RUN), self._world.clock.now())

    def _lose_rows(self) -> None:
        """The store loses rows that nobody has loaded yet, and the sweep has time to find out.

        It looks once the commands before are applied: one a round, of several hundred, is slower than anybody waits.
        """
        if self._is_swamped() and not self._wait_for("applies what was asked for", lambda: not self._is_swamped()):
            return
        lost = self._losses.lose()
        for row in lost:
            self._story.tell(self._schedule.tick, "store", f"loses the row of {row.job_id} due {row.due_at}")
        if lost:
            self._wait_for("makes lost rows again", self._losses.are_made_good)
        self._losses.note_missing()

    def _wait_while_it_goes_on(self, what: str, condition: Callable[[], bool]) -> None:
        """Longer than for anything else where commands wait, and fewer and fewer: one a round, each of two seconds."""
        for _ in range(_GOES_ON_MAX):
            before = sum(self._commands_waiting())
            if self._wait_for(what, condition) or sum(self._commands_waiting()) >= before:
                return

    def _commands_waiting(self) -> list[int]:
        """Before each dispatcher's partition."""
        return [end - at for _, _, _, at, end in lagging(self._world.cluster, (NAMES.group("dispatcher"),))]

    def _is_swamped(self) -> bool:
        """Whether a dispatcher has more commands before it than it applies in half a minute."""
        return any(waiting > _SWAMPED for waiting in self._commands_waiting())

    def _end_all(self, *, again: bool) -> None:
        """Nothing fires any more. A pause would hide whether a job was paused for its failures, or ended; but only a
        pause ends a backlog, which some dispatchers here take fire by fire."""
        now = self._world.clock.now()
        (row,) = MemoryStore(self._world.clock, self._world.tables, "onlooker").job_rows([COUNTED])
        if row is not None and row.status is not JobStatus.DELETED and self._decided(now - 3 * _SECOND):
            self._asking.quiet({COUNTED: row.spec}, now, again=again)
            self._asking.pause_all([job_id for job_id in self._job_ids() if job_id != COUNTED], now, again=again)
        else:
            self._asking.pause_all(self._job_ids(), now, again=again)

    def _job_ids(self) -> list[str]:
        return sorted(self._plan.job_ids())

    def _let_go(self) -> bool:
        """The pauses keep runs that wait for others: most are cancelled, the oldest go out once their job resumes."""
        world, held = self._world, collections.defaultdict(list)
        for run_id in self._onlooker.held():
            held[job_of_run(run_id)].append(run_id)
        wanted = {job_id for job_id in held if job_id not in self._let_go_before}
        self._let_go_before |= wanted
        self._asking.cancel(
            (run_id for job_id in held for run_id in held[job_id][_HELD_LEFT if job_id in wanted else 0 :]),
            world.clock.now(),
        )
        rows = MemoryStore(world.clock, world.tables, "onlooker").job_rows(sorted(wanted))
        self._asking.resume_quietly({row.job_id: row.spec for row in rows if row}, world.clock.now())
        return self._wait_for("lets go of what waits for others", self._at_rest)

    def _probe(self) -> None:
        """Long after the end a job with limits has room for as many as they say, and no more: whoever has forgotten an
        end, or counts otherwise, drops or holds what is asked for now."""
        world = self._world
        jobs = sorted({order.job_id for order in self._plan.orders if order.job_id.startswith(BESIDE)})
        if not jobs:
            return
        world.clock.advance(_LONG_AFTER_US)
        self._schedule.run(self._schedule.tick + _SLICE)
        rows = MemoryStore(world.clock, world.tables, "onlooker").job_rows(jobs)
        wanted = {row.job_id: probes(row.spec.concurrency) for row in rows if row}
        self._asking.probe(wanted, world.clock.now())
        self._wait_for("runs what is asked for at last", lambda: self._at_rest() and not self._onlooker.held())

    def _sleep(self) -> bool:
        """Whoever is left waits for a retry: nobody plays every second of it. Some wait for more than an hour."""
        left_us = self._until_next_retry_us()
        self._story.counts["waited beyond the ladder"] += left_us > LADDER_US
        self._world.clock.advance(max(0, left_us - _SECOND))
        return self._wait_for("comes to rest after a sleep", self._at_rest)

    def _until_next_retry_us(self) -> int:
        """Until the first of the open runs goes on; 0 where one of them does not wait for its retry."""
        chronicle = self._onlooker.look()
        waits = []
        for run_id in chronicle.open.difference(self._onlooker.held()):
            if any(node in chronicle.open for node in chronicle.runs[run_id]["nodes"] or ()):
                continue  # a DagRun waits for its nodes
            retry = chronicle.retries.get((run_id, chronicle.runs[run_id]["attempt"] + 1))
            if chronicle.runs[run_id]["status"] != "RETRYING" or retry is None:
                return 0
            waits.append(int(retry["due_at"]) - self._world.clock.now())
        return max(0, min(waits, default=0))

    def _throw(self, garbage: Garbage) -> None:
        self._story.counts[f"garbage {garbage.kind}"] += 1
        self._story.tell(self._schedule.tick, "stranger", self._senders.throw(garbage, self._schedule.tick))

    def _order(self, order: Order, patience: int = _LOOKS_MAX) -> None:
        if order.door == "api":
            self._clients.give(order)
            return
        if order.door:
            self._story.counts[f"sent {order.door} {order.fate}".rstrip()] += 1
            said = self._senders.give(order, self._world.clock.now(), self._schedule.tick)
            self._story.tell(self._schedule.tick, "sender", said)
            return
        if patience and self._asking.would_wait(order):
            self._schedule.after(_LOOK_US, lambda: self._order(order, patience - 1))
            return
        if order.job_id == ABROAD and self._world.zone_is_gone:
            self._story.counts[f"zone gone, then {order.kind}"] += 1
        self._story.tell(self._schedule.tick, "people", self._asking.give(order, self._world.clock.now()))

    # Processes ----------------------------------------------------------------------------------------------------

    def _restart(self, life: Life, us: int) -> None:
        """A new life after ``us``, unless somebody else has taken the slot meanwhile."""

        def start() -> None:
            if self._world.newest[life.slot] is life:
                self._start(life.slot)

        self._schedule.after(us, start)

    def _start(self, slot: str) -> None:
        life = self._world.register(slot)
        self._story.tell(self._schedule.tick, life.client, "starts")
        self._turn(life, lambda: self._world.build(life))

    def _step(self, life: Life) -> None:
        if not life.alive or life.leaving:
            return
        if self._pace.rests(life, self._schedule.tick):
            self._schedule.after(self._pace.until_next_look_us(life), lambda: self._step(life))
            return
        self._turn(life, self._stepped(life))

    def _stepped(self, life: Life) -> Callable[[], bool]:
        core = life.core
        assert core is not None
        return core.step

    def _turn(self, life: Life, act: Callable[[], bool | None]) -> None:
        """One turn of a process, and what a supervisor makes of its end (``waterclock/process.py``)."""
        try:
            busy = act()
        except Killed:
            return
        except BackendDown as down:
            self._story.tell(self._schedule.tick, life.client, f"waits: {down}")
            if life.core is None:
                self._schedule.after(_BACKEND_DOWN_US, lambda: self._build_again(life))
            else:
                self._schedule.after(_BACKEND_DOWN_US, lambda: self._step(life))
            return
        except LostResource as lost:
            self._end(life, f"{type(lost).__name__}: {lost}")
            return
        except Exception as bug:  # noqa: BLE001 - whatever a role lets out is what the checkers want to know
            self._broken.append(f"{life.client} broke: {type(bug).__name__}: {bug}")
            self._end(life, self._broken[-1])
            return
        if life.role == "dispatcher":
            self._world.count_take_overs(self._story.counts)
            self._world.count_herds(life, self._story.counts)
        if life.role == "worker":
            self._world.holders.look(self._world.groups_of("worker"), self._world.clock.now())
        self._world.count_wakes(life, self._story.counts)
        pause_us = self._pace.after_turn_us(life, self._schedule.tick, busy=bool(busy))
        self._schedule.after(pause_us, lambda: self._step(life))

    def _build_again(self, life: Life) -> None:
        if life.alive:
            self._turn(life, lambda: self._world.build(life))

    def _end(self, life: Life, why: str) -> None:
        self._story.tell(self._schedule.tick, life.client, f"ends: {why}")
        self._story.counts["ended"] += 1
        self._world.kill(life)
        self._restart(life, _ENDED_US)

    # The end ------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self._story.tell(self._schedule.tick, "everybody", "heals")
        self._nemesis.heal()
        self._pace.has_healed = True
        for life in self._world.lives.values():
            if life.alive and self._plan.heals_anew:
                self._world.kill(life)
        for slot in self._plan.slots:
            self._world.skew(slot, 0)
            if not self._world.newest[slot].alive:
                self._start(slot)
        self._story.counts["healed anew" if self._plan.heals_anew else "healed as it was"] += 1

    def _wait_for(self, what: str, condition: Callable[[], bool]) -> bool:
        """Bounded: what has not happened then is told by the checkers, by what is missing."""
        for _ in range(_SLICES_MAX):
            self._schedule.run(self._schedule.tick + _SLICE)
            if condition():
                return True
        self._story.tell(self._schedule.tick, "nobody", what)
        return False

    def _paused_too_long(self) -> bool:
        """Whether a pause goes on past its own end."""
        world = self._world
        rows = MemoryStore(world.clock, world.tables, "onlooker").job_rows(self._job_ids())
        return any(row.pause and 0 < row.pause.resume_at <= world.clock.now() for row in rows if row)

    def _decided(self, until: Instant) -> bool:
        """Every committed cursor has passed ``until``, and no gap is open."""
        group = self._world.cluster.group(NAMES.group("dispatcher"))
        places = [TopicPartition(NAMES.commands, number) for number in range(self._plan.partitions)]
        cursors = [committed.metadata for place in places if (committed := group.committed(place)) is not None]
        return len(cursors) == len(places) and all(
            cursor and decode_progress(cursor).undecided_from >= until for cursor in cursors
        )

    def _at_rest(self) -> bool:
        """Every run has ended, nothing new is on run-events, no user code runs, and whoever follows has followed."""
        world = self._world
        ends = [partition.high for partition in world.cluster.topic(NAMES.run_events).partitions]
        before, self._ends = self._ends, ends
        self._quiet = self._quiet + 1 if ends == before else 0
        is_busy = any(each.busy for each in world.executors.values())
        if ends != before or is_busy or self._clients.busy:
            return False
        if self._onlooker.look().open.difference(self._onlooker.held()):
            return self._until_next_retry_us() > _SLEEP_FROM_US
        if lagging(world.cluster) or self._onlooker.backfills_go_on(self._paused_jobs()):
            return False
        if not self._onlooker.has_waiting_backfills():
            return True
        return self._quiet >= _TURN_OF_A_BACKFILL and not self._reads_for_a_backfill()

    def _reads_for_a_backfill(self) -> bool:
        """Whether a dispatcher reads what has run already: in small slices that takes long, and nothing tells it."""
        cores = [life.core for life in self._world.newest.values() if life.alive and not life.leaving]
        shards = [shard for core in cores if isinstance(core, Dispatcher) for shard in core._shards.values()]
        return any(backfill.reading is not None for shard in shards for backfill in shard.backfills)

    def _paused_jobs(self) -> set[str]:
        """Jobs that are paused: what reaches into a pause waits for its end."""
        rows = MemoryStore(self._world.clock, self._world.tables, "onlooker").job_rows(self._job_ids())
        return {row.job_id for row in rows if row and row.pause}
