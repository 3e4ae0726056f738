"""Compares, slowly and for ever, what must follow with what did (guarantees 2.5). Its repairs should be 0.

Two things can stay away: the claim of a run that waits (its work was consumed by a round of which the STARTED did not
count, or was not written: a torn claim), and the verdict on an attempt that ended. Each is repaired by doing once more
what should have been done: the work record again, marked for verification, so that whoever claims it reads its STARTED
back before any user code runs; the verdict again, which the reducer ignores if it was there. So a repair that was not
needed changes nothing. Dead letters that are missing do not show here: the letter leaves in the round that reads the
verdict, and nothing cheap can tell afterwards.

A third thing it only asks for: open attempts of a worker of which ``leases`` holds no record would never be judged. A
beat is written in that worker's name, once a look: the keeper whose partition the name hashes to then knows it, hears
nothing more, and fences it. (If it lives, it beats itself, and nothing happens.)

What must hold: ``inspected.py``. A retry is looked for on the delay topics first: while one of them may still hold it,
its tier says nothing; nor does it while a dispatcher that is behind may still have it. By positions, and by no clock:
who writes to a rung stamps by a clock of his own, and so does the worker whose failure is retried. How it fails:
work that retention has removed, or a retry that went with its pool, ends the run (RUN_EXPIRED, ``work-record-gone``); a
backend that is away, and the next look comes half a minute later. A look goes past some thousands of open runs and
looks into a few of each tier; the next one goes on where it stopped. So after a disaster with thousands of orphans it
takes as many minutes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Committed, Log, Record, TopicPartition
from waterclock.model.cursor_text import undecided_from
from waterclock.model.errors import BackendDown, LostResource, NotFound
from waterclock.model.events import Heartbeat, RunStatus
from waterclock.model.fold import OpenRun
from waterclock.model.ids import US_PER_S
from waterclock.model.known_state import state_to_text
from waterclock.model.reduce import RunState
from waterclock.transact import Round
from waterclock.wire.messages import heartbeat_message, work_message
from waterclock.wire.names import RUNGS, Names

from .endings import end_waiting
from .hops import LADDER_US_MAX
from .inspected import GONE, Inspected, Suspect
from .letters import WORK_GONE
from .made_work import SEARCHED_MAX, Birth, MadeWork, work_of
from .rung import group_of
from .shard import Shard
from .trail import Note, Trail, trail_of
from .work_records import WorkRecords

_OVERDUE_US = 60 * US_PER_S
_DEFERRED_OVERDUE_US = 3_600 * US_PER_S
"""The same for a retry that waits with the dispatcher: one that is late has a reason, and repairs count as faults."""
_LARGEST_FIRST = tuple(sorted(RUNGS, key=lambda rung: -RUNGS[rung]))
_FLUSH_S = 5.0
_LOOKED_AT_MAX = 5_000
_SEEK = 1_000
"""Reading one more PENDING costs as much as reading past so many records; asking where a retry is, too."""
_COST_MAX = 20 * _SEEK
"""Of one look at a shard: about a second, a twentieth of it in each step."""

_Waiting: TypeAlias = tuple[str, OpenRun[Note], RunState]
"""A run that has waited for too long, and its state when that was seen."""

_log = structlog.get_logger()


class Reconciler:
    """Looks at the shards of one router, every ``every_s``. What has waited for less than that is left alone."""

    def __init__(
        self, log: Log, clock: Clock, names: Names, records: WorkRecords, made: MadeWork, *, every_s: float = 30.0
    ) -> None:
        self._log = log
        self._records = records
        self._made = made
        self._clock = clock
        self._names = names
        self._every_s = every_s
        self._look_at_s = clock.monotonic_s() + every_s
        self._looked_at: tuple[Shard, ...] = ()
        self._looking: Iterator[None] = iter(())

    def look(self, draft: Round, shards: Sequence[Shard]) -> None:
        """Put what is to be repaired into the round. Raises nothing of ours: what cannot be asked waits.

        A look costs about a second for each shard, and the deaths of workers, verdicts and retries wait behind it: so
        each call does a little of one, and leaves it where the shards have changed meanwhile.
        """
        try:
            for shard in shards:
                if shard.inspected.ripe and shard.next_offset >= shard.inspected.barrier:
                    self._judge(draft, shard)
                if shard.inspected.unanswered and shard.next_offset >= shard.inspected.answer_barrier:
                    self._ask_again(shard)
            self._go_on(tuple(shards))
        except (BackendDown, LostResource, NotFound) as trouble:
            self._looking = iter(())
            _log.info("reconciler waits", trouble=str(trouble))

    def _go_on(self, shards: tuple[Shard, ...]) -> None:
        """The next part of the look that goes on, or of a new one when it is time."""
        if shards == self._looked_at and any(True for _ in islice(self._looking, 1)):
            return
        if self._clock.monotonic_s() >= self._look_at_s:
            self._look_at_s = self._clock.monotonic_s() + self._every_s
            self._looked_at, self._looking = shards, self._inspect(shards)

    # Noticing -----------------------------------------------------------------------------------------------------

    def _inspect(self, shards: Sequence[Shard]) -> Iterator[None]:
        """One look, part by part; between two of them the shards are read on."""
        positions = _Positions(self._log)
        for shard in shards:
            self._ripen(shard, positions)
            asked = self._note_unanswered(shard)
            self._ask_about_unknown_workers(shard)
            waiting = self._waiting(shard, asked)
            shard.inspected.position_before = shard.next_offset
            yield
            for near in _near(waiting):
                self._suspect(shard, near, positions)
                yield

    def _ripen(self, shard: Shard, positions: _Positions) -> None:
        """Whose work was consumed is judged as soon as run-events was read to where it ends now."""
        notes, runs = shard.inspected, shard.fold.open
        if any(each.rungs for each in notes.suspects.values()):
            positions.ask(group_of(self._names, rung) for rung in _LARGEST_FIRST)
        for known in list(notes.suspects.values()):
            run = runs.get(known.run_id)
            if run is None or run.state != known.state:
                del notes.suspects[known.run_id]
                continue
            suspect = notes.suspects[known.run_id] = self._past_rungs(known, positions)
            if suspect.rungs:
                continue
            if suspect.tier_end == GONE:  # at two looks: nobody is about to claim it any more
                is_taken = not known.rungs
            else:
                taken_to = positions.of(self._names.worker_group_of(suspect.tier.topic)).get(suspect.tier)
                is_taken = taken_to is not None and taken_to.offset >= suspect.tier_end
            if is_taken:
                del notes.suspects[suspect.run_id]
                notes.ripe.append(suspect)
        if notes.ripe:
            notes.barrier = self._log.high_watermark(shard.partition)

    def _past_rungs(self, suspect: Suspect, positions: _Positions) -> Suspect:
        """What is known of it now: which rungs it has left; with the last of them, where its tier ends."""
        while suspect.rungs:
            rung = suspect.rungs[0]
            place = TopicPartition(self._names.delay(rung), suspect.tier.partition)
            passed_to = positions.passed_to(group_of(self._names, rung), place)
            if suspect.rung_end < 0:
                suspect = suspect._replace(rung_end=positions.end_of(place))
            if passed_to < suspect.rung_end:
                return suspect
            suspect = suspect._replace(rungs=suspect.rungs[1:], rung_end=-1, tier_end=GONE)
        if suspect.tier_end == GONE:
            with suppress(NotFound):  # its pool was taken away: nothing that was to go there can be claimed
                suspect = suspect._replace(tier_end=self._log.high_watermark(suspect.tier))
        return suspect

    def _note_unanswered(self, shard: Shard) -> Collection[str]:
        """Attempts that had ended at the last look and have no verdict yet: it stands before the present end, or never.

        Those that still wait for an earlier barrier wait for this one then: looks are half a minute apart.
        """
        notes, runs = shard.inspected, shard.fold.open
        still = {run_id: state for run_id, state in notes.undecided.items() if _stands(runs, run_id, state)}
        if still:
            notes.unanswered |= still
            notes.answer_barrier = self._log.high_watermark(shard.partition)
        return notes.unanswered.keys()

    def _ask_about_unknown_workers(self, shard: Shard) -> None:
        """Those of whom nothing stands on ``leases`` at two looks in a row."""
        before, unknown = shard.inspected.unknown_workers, shard.attempts.unknown_workers()
        shard.inspected.unknown_workers = frozenset(unknown)
        asked = [(worker, run_id) for worker, run_id in unknown.items() if worker in before]
        if not asked:
            return
        appender = self._log.appender()
        try:
            for worker, run_id in asked:
                _log.error("worker is not known on leases", worker=worker, run_id=run_id)
                incarnation = shard.fold.open[run_id].state.incarnation
                beat = Heartbeat(worker, incarnation, self._clock.now(), "", 0, 0, slots=0, pool="")
                appender.append(heartbeat_message(self._names, beat))
            appender.flush(_FLUSH_S)
        finally:
            appender.close()

    def _waiting(self, shard: Shard, asked: Collection[str]) -> list[_Waiting]:
        """Goes on round the open runs: those that have waited for too long, and a note of who wants a verdict.

        Stops where looking into them would cost too much, and goes on from there at the next look.
        """
        notes, waiting, cost, last = shard.inspected, list[_Waiting](), 0, -_SEEK
        notes.undecided = {}
        for run_id, run in notes.sweep.onward(shard.fold.open, _LOOKED_AT_MAX):
            if run.state.undecided and run_id not in asked and not shard.waits_its_turn(run_id):
                notes.undecided[run_id] = run.state
            elif self._has_waited(shard, run_id, run):
                waiting.append((run_id, run, run.state))
                is_retry = run.state.status is RunStatus.RETRYING
                cost += _SEEK if is_retry else min(abs(run.first_offset - last), _SEEK)
                last = run.first_offset
                if cost >= _COST_MAX:
                    break
        return waiting

    def _has_waited(self, shard: Shard, run_id: str, run: OpenRun[Note]) -> bool:
        """It waited before the last look already, for longer than it should, and there is room to look into it."""
        notes, (status, *_), trail = shard.inspected, run.state, trail_of(run.note)
        if notes.position_before is None or run.first_offset >= notes.position_before:
            return False
        if status is RunStatus.PENDING:
            return not (run.state.held or run.state.is_dag) and not notes.knows(run_id)
        if status is not RunStatus.RETRYING or trail.work is None:
            return False
        overdue_at = self._clock.now() - (_DEFERRED_OVERDUE_US if _is_deferred(trail) else _OVERDUE_US)
        has_room = notes.has_room(trail.work.topic, on_rungs=True)
        return trail.claimable_at <= overdue_at and has_room and not notes.knows(run_id)

    def _suspect(self, shard: Shard, near: Sequence[_Waiting], positions: _Positions) -> None:
        """Note where the work of these can be claimed, and up to where it must have been."""
        waiting = [(run_id, run) for run_id, run, state in near if run.state == state]
        notes, pending = shard.inspected, [run for _, run in waiting if run.state.status is RunStatus.PENDING]
        born = self._made.births(shard.partition, [run.first_offset for run in pending])
        for run_id, run in waiting:
            rungs = _LARGEST_FIRST if run.state.status is RunStatus.RETRYING else ()
            try:
                birth = self._claimable(shard, run_id, run, born, positions)
                if birth is not None and notes.has_room(birth.tier.topic, on_rungs=bool(rungs)):
                    end = 0 if rungs else self._log.high_watermark(birth.tier)
                    notes.suspects[run_id] = Suspect(run_id, run.state, birth.tier, end, birth.at, rungs=rungs)
            except NotFound as trouble:  # its pool was taken away; the others are looked into all the same
                _log.info("reconciler passes over a run", run_id=run_id, trouble=str(trouble))

    def _claimable(
        self, shard: Shard, run_id: str, run: OpenRun[Note], born: dict[int, Birth], positions: _Positions
    ) -> Birth | None:
        """The tier on which its work stands, stood or will stand. None: it may be elsewhere, or nobody knows."""
        number, trail = shard.partition.partition, trail_of(run.note)
        if run.state.status is RunStatus.PENDING:
            return born.get(run.first_offset)
        if trail.work is None:
            return None
        tier = self._made.place_of(trail.work.topic, run_id, shard.partition)
        if _is_deferred(trail) and self._may_be_with_dispatcher(number, trail.claimable_at, positions):
            return None
        return Birth(tier, 0)

    def _may_be_with_dispatcher(self, partition: int, due_at: int, positions: _Positions) -> bool:
        """Whether a command that was given before this was due may wait unread, or what it asked for be undecided."""
        place = TopicPartition(self._names.commands, partition)
        at = positions.of(self._names.group("dispatcher")).get(place)
        if at is None or at.offset < self._log.offset_at(place, due_at):
            return True
        undecided_at = undecided_from(at.metadata)
        return undecided_at is None or undecided_at <= due_at

    # Repairing ----------------------------------------------------------------------------------------------------

    def _ask_again(self, shard: Shard) -> None:
        """Whatever verdict was written was read by now: ask for the missing ones once more."""
        notes = shard.inspected
        unanswered, notes.unanswered = notes.unanswered, {}
        for run_id, state in unanswered.items():
            if _stands(shard.fold.open, run_id, state):
                self._repaired(shard, run_id, "no verdict came")
                shard.ask_again(run_id)

    def _judge(self, draft: Round, shard: Shard) -> None:
        """Everything that could speak for these was read: whoever still waits is an orphan."""
        runs, notes = shard.fold.open, shard.inspected
        ripe, notes.ripe = notes.ripe, []
        orphans = [each for each in ripe if each.run_id in runs and runs[each.run_id].state == each.state]
        claims = {each.run_id: trail_of(runs[each.run_id].note).work for each in orphans}
        claimed = self._records.records([place for place in claims.values() if place is not None])
        made = [each for each in orphans if claims[each.run_id] is None]
        found = self._search(notes, made)
        for suspect in orphans:
            place = claims[suspect.run_id]
            record = found.get(suspect.run_id) if place is None else claimed.get(place)
            if suspect.run_id not in notes.suspects:  # else the search for it goes on
                self._repair(draft, shard, suspect, record)

    def _search(self, notes: Inspected, made: Sequence[Suspect]) -> dict[str, Record]:
        """The work of runs that were never claimed. Whose search is not over is a suspect again, for the next look."""
        found: dict[str, Record] = {}
        for tier in dict.fromkeys(each.tier for each in made):
            ours = [each for each in made if each.tier == tier]
            try:
                starts = [max(each.searched_to, self._made.begins(Birth(tier, each.born_at))) for each in ours]
            except NotFound as trouble:  # its pool was taken away: that says nothing about the work
                _log.info("reconciler passes over a topic", topic=tier.topic, trouble=str(trouble))
                notes.suspects |= {each.run_id: each for each in ours}
                continue
            end = min(max(each.tier_end for each in ours), min(starts) + SEARCHED_MAX)
            works, reached = self._made.search(tier, {each.run_id for each in ours}, min(starts), end)
            found |= works
            for each, start in zip(ours, starts, strict=True):
                if each.run_id not in works and reached < each.tier_end:
                    notes.suspects[each.run_id] = each._replace(searched_to=max(start, reached))
        return found

    def _repair(self, draft: Round, shard: Shard, suspect: Suspect, record: Record | None) -> None:
        """Its work once more, marked; without work its end."""
        work = None if record is None else work_of(record)
        if record is None or work is None or work.run_id != suspect.run_id:
            self._repaired(shard, suspect.run_id, "its work is gone: it ends")
            end_waiting(draft, self._names, suspect.run_id, suspect.state, WORK_GONE, self._clock.now())
            return
        self._repaired(shard, suspect.run_id, f"nobody claimed attempt {suspect.state.attempt + 1}")
        marked = work._replace(
            attempt=suspect.state.attempt + 1,
            verify_from=shard.next_offset,
            verify_state=state_to_text(suspect.state),
        )
        draft.append(work_message(self._names, marked)._replace(key=record.key or work.job_id.encode()))

    def _repaired(self, shard: Shard, run_id: str, why: str) -> None:
        shard.repairs += 1
        _log.error("repaired", run_id=run_id, why=why, partition=shard.partition.partition, repairs=shard.repairs)


def _stands(runs: Mapping[str, OpenRun[Note]], run_id: str, state: RunState) -> bool:
    """Whether nothing has happened to the run since it was seen in this state."""
    return run_id in runs and runs[run_id].state == state


def _near(waiting: Sequence[_Waiting]) -> Iterator[list[_Waiting]]:
    """In parts of about equal cost: a retry by itself, of the others those whose PENDINGs are read in one stretch."""
    near: list[_Waiting] = []
    for each in waiting:
        is_retry = each[2].status is RunStatus.RETRYING
        if near and (is_retry or not 0 <= each[1].first_offset - near[0][1].first_offset <= _SEEK):
            yield near
            near = []
        near.append(each)
        if is_retry:
            yield near
            near = []
    if near:
        yield near


def _is_deferred(trail: Trail) -> bool:
    """Whether the retry waits with the dispatcher: longer than the ladder reaches.

    By the wait on which its verdict chose between the two, not by instants: the failure's is its worker's. A wait that
    is not known may be the dispatcher's.
    """
    return not 0 <= trail.delay_us <= LADDER_US_MAX


class _Positions:
    """What groups have committed, and where rungs begin and end: each asked once in a look.

    What left a rung stands on a smaller one before the larger one's position says so: so a rung's end is asked for
    after the positions of all of them (``ask``).
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, dict[TopicPartition, Committed]] = {}
        self._lows: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    def of(self, group: str) -> dict[TopicPartition, Committed]:
        """Raises BackendDown."""
        if group not in self._known:
            self._known[group] = self._log.group_positions(group)
        return self._known[group]

    def ask(self, groups: Iterable[str]) -> None:
        """Ask for all of these that were not asked for yet. Raises BackendDown."""
        for group in groups:
            self.of(group)

    def passed_to(self, group: str, place: TopicPartition) -> int:
        """What lies below has left this place: it was handed on, or retention took it. Raises BackendDown."""
        if place not in self._lows:
            self._lows[place] = self._log.low_watermark(place)
        at = self.of(group).get(place)
        return self._lows[place] if at is None else max(self._lows[place], at.offset)

    def end_of(self, place: TopicPartition) -> int:
        """Raises BackendDown."""
        if place not in self._ends:
            self._ends[place] = self._log.high_watermark(place)
        return self._ends[place]
