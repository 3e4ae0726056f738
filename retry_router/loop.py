"""The retry router's story: own, read, judge, answer.

It follows run-events, and ``leases`` beside them. Every attempt that ended badly gets its verdict in the same round
that advances the offsets past it, so a crash repeats neither; every verdict that is read back as accepted gets its dead
letter in the round that advances past the verdict; every end of a run starts, in the round that advances past it, the
jobs that wait for such an end. Open attempts of the dead are called lost, runs whose time is over
are expired, and what has stayed away too long is looked into by the reconciler.

What must hold: one verdict for each ended attempt and one letter for each accepted verdict, across crashes, take-overs
and doubtful commits; nothing is called lost before the log was read to where it ended when the death was known. How it
fails: any trouble drops what is held and begins again from the committed position (design §5.5); fenced by a twin it
stops, and the message names the id.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence

import structlog

from waterclock.abandoned import Abandoned
from waterclock.clock import Clock
from waterclock.listeners import Listeners
from waterclock.log import known_until
from waterclock.log.following import HELD_BY_ROLE, beginning
from waterclock.log.port import Committed, Log, Outgoing, Polled, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LostResource, RequestError
from waterclock.model.events import Reject, SourceRecord
from waterclock.model.fold import OPEN_MAX, WINDOW, Fold, parse_repairs
from waterclock.taking_over import TakingOver, take_each
from waterclock.transact import Round, Rounds
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import command_message, dead_letter_message, event_message, reject_message
from waterclock.wire.names import Names

from .deaths import Deaths
from .endings import expire, lost_event
from .letters import letter
from .made_work import MadeWork, NeverClaimed
from .open_attempts import OpenAttempts
from .open_runs import KEPT_BEHIND, kept_runs
from .reconciler import Reconciler
from .round_size import RoundSize
from .shard import GivenUp, Shard, Wanted
from .trail import Note
from .triggering import LISTENERS_MAX, RunEnd, met_by, started_by, untold, waits_for, weight
from .verdicts import Verdicts
from .work_records import WorkRecords, source_of

ROLE = "retry-router"

_POLL_S = 0.05
_TROUBLE_WAIT_S = 0.5
COMMANDS_MAX = 20_000
"""What the ends of one round start, about: once it is reached the rest of what was polled waits for the next round."""

_log = structlog.get_logger()


class RetryRouter:
    """The core. ``instance`` is the process slot's stable name, ``generation`` that of the topics.

    ``kept_behind``: a run that is open for so many offsets is kept in the state topic. ``window``: that of its folds.
    ``reconcile_every_s``: how often it looks for what has stayed away. ``open_runs_max``: open runs of one partition;
    at one more it ends, at every start.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        names: Names,
        instance: str,
        *,
        generation: int = 1,
        round_records: int = 1_000,
        offsets_every_s: float = 2.0,
        kept_behind: int = KEPT_BEHIND,
        window: int = WINDOW,
        open_runs_max: int = OPEN_MAX,
        reconcile_every_s: float = 30.0,
    ) -> None:
        self._log = log
        self._clock = clock
        self._names = names
        self._generation = generation
        self._round_records = round_records
        self._size = RoundSize(round_records)
        self._offsets_every_s = offsets_every_s
        self._kept_behind = kept_behind
        self._window = window
        self._open_runs_max = open_runs_max
        self._consumer = log.consumer(names.group(ROLE), [names.run_events], instance=instance)
        abandoned = Abandoned(log, names, ROLE, instance)
        self._rounds = Rounds(log, names.transactional_id(ROLE, instance), abandoned=abandoned)
        self._deaths = Deaths(log, names.leases)
        self._work = WorkRecords(log)
        self._verdicts = Verdicts(log, names, self._work)
        self._made = MadeWork(log, names, self._work)
        self._reconciler = Reconciler(log, clock, names, self._work, self._made, every_s=reconcile_every_s)
        self._shards: dict[int, Shard] = {}
        self._taking_over = TakingOver(clock, self._take_all)
        self._is_troubled = False
        self._offsets_due_s = 0.0
        self._has_joined = False
        self._listeners = Listeners(log, names.triggers, waits_for, clock)
        self._wanted = Wanted()
        self._unread: deque[Record] = deque()
        """Polled, and not folded yet: what is before them is enough for one round."""
        self._ignored: Counter[str] = Counter()

    @property
    def ready(self) -> bool:
        """A member of the group, and every partition that is ours has caught up."""
        return self._has_joined and not self._taking_over.places and all(shard.live for shard in self._shards.values())

    def step(self) -> bool:
        """One cycle; see ``waterclock.role``. Raises Fenced, and FoldFull at the bound of open runs."""
        try:
            if self._is_troubled:
                self._notice(self._rounds.poll(self._consumer, 0, _TROUBLE_WAIT_S))
                self._is_troubled = False
            self._taking_over.go_on()
            room = self._room()
            polled = self._rounds.poll(self._consumer, room, _POLL_S)
            self._notice(polled)
            if room or (self._unread and self._listeners.caught_up):
                self._read(polled.records, has_asked=room > 0)
            is_behind = bool(self._unread) or len(polled.records) >= room
            self._hear_of_deaths()
            if not self._knows_listeners():
                return True
            has_more = bool(self._unread or polled.records or polled.assigned) or self._taking_over.is_under_way
            return self._answer(is_behind=is_behind) or has_more
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            self._start_over(trouble)
            return False

    def drain(self) -> bool:
        """Commit what is decided; there is nothing else to finish."""
        try:
            if self._listeners.caught_up:  # else the positions lie past ends that are not answered
                self._commit(self._rounds.draft())
        except (LostResource, BackendDown) as trouble:
            _log.warning("last positions not committed", trouble=str(trouble))
        return False

    def close(self) -> None:
        """Give up the producer, and the membership as a static member does: the slot's next process takes over."""
        self._rounds.close()
        self._deaths.close()
        self._listeners.close()
        self._work.close()
        self._consumer.close()

    # Owning -------------------------------------------------------------------------------------------------------

    def _notice(self, polled: Polled) -> None:
        """Membership: forget what is no longer ours, remember what must be taken over."""
        for gone in polled.revoked:
            self._shards.pop(gone.partition, None)
            self._unread = deque(each for each in self._unread if each.partition != gone.partition)
        self._taking_over.note(polled)
        self._has_joined = self._has_joined or self._consumer.has_share
        if polled.revoked and not self._listeners.caught_up:
            raise LostResource("partitions were taken away before what they brought was answered")

    def _take_all(self) -> Iterator[None]:
        """Start new partitions where their fold begins."""
        shards = yield from take_each(self._rounds, self._consumer, self._taking_over.places, self._taken)
        self._shards |= {shard.partition.partition: shard for shard in shards}
        for shard in shards:
            if shard.live:  # else it does so when it goes live: who died while it was made was told to the others alone
                shard.attempts.suspect_all()
        self._offsets_due_s = self._clock.monotonic_s()

    def _taken(self, place: TopicPartition, committed: Committed | None) -> Generator[None, None, Shard]:
        """A partition as its last owner left it: what the state topic keeps, and where the rest is to be read from."""
        start = beginning(self._log, place, committed)
        bound = self._open_runs_max
        fold: Fold[Note] = Fold(generation=self._generation, window=self._window, open_max=bound, held_by=HELD_BY_ROLE)
        kept = kept_runs(self._names, ROLE, place.partition, behind=self._kept_behind)
        yield from kept.restoring(self._log, fold)
        _log.info("partition taken over", partition=place.partition, kept_runs=len(fold.open), **start._asdict())
        shard = Shard(place, start, fold, OpenAttempts(self._deaths), kept)
        shard.predecessor_to = self._log.high_watermark(place)
        shard.repairs = 0 if committed is None else parse_repairs(committed.metadata)
        return shard

    def _start_over(self, trouble: Exception) -> None:
        """Every trouble leads back to the committed positions (design §5.5)."""
        _log.warning("begins again from the committed positions", trouble=str(trouble))
        self._size.met(trouble)
        self._shards.clear()
        self._unread.clear()
        self._wanted = Wanted()
        self._taking_over.begin_again(self._consumer.owned())
        self._is_troubled = True

    # Reading ------------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """How many events this turn polls: none while some wait, partitions are being taken over, or it is not known
        yet what the last ones start."""
        waits = self._unread or self._taking_over.is_under_way or not self._listeners.caught_up
        return 0 if waits else self._round_records

    def _knows_listeners(self) -> bool:
        """Whether all were read who are started by what ended; they are asked for after the ends were polled."""
        if self._wanted.ends and not self._wanted.has_asked:
            self._listeners.ask()
            self._wanted.has_asked = True
        self._listeners.look()
        return self._listeners.caught_up

    def _read(self, records: Sequence[Record], *, has_asked: bool) -> None:
        """Fold the records, as far as a round has room for them and for what they start; then each shard stands behind
        what was folded. Of a shard that is not live nothing is decided: its records take no room.

        ``has_asked``: records were asked for, so that none of them says where the client stands.
        """
        wanted, shards = self._wanted, self._shards
        self._unread.extend(records)
        unread, self._unread = self._unread, deque()
        most, room = self._size.now, COMMANDS_MAX
        for record in unread:
            shard = shards.get(record.partition)
            if shard is None:
                continue
            if not shard.live and record.offset >= shard.act_from:
                shard.go_live()
            if shard.live and (most <= 0 or room <= 0):
                self._unread.append(record)
                continue
            shard.has_begun = True
            most -= shard.live
            told = len(wanted.ends)
            try:
                shard.take(decode_event(record.value or b""), record.offset, wanted)
            except RequestError as error:  # undecodable, or it names no run
                if shard.live:
                    wanted.rejects.append(self._reject(record, error))
            if len(wanted.ends) > told:
                room -= sum(weight(self._listeners.count_of(end.job_id)) for end in wanted.ends[told:])
        waiting = {record.partition: record.offset for record in reversed(self._unread)}
        for number, shard in shards.items():
            shard.has_begun = shard.has_begun or (has_asked and not records)
            if number in waiting:
                shard.next_offset = waiting[number]
            elif shard.catch_up(self._consumer):
                shard.go_live()
        self._ignored.update(wanted.ignored)
        wanted.ignored.clear()

    def _hear_of_deaths(self) -> None:
        """After the events: who is called dead from now on is judged by a high watermark that is taken from now on."""
        for worker in self._deaths.look():
            for shard in self._shards.values():
                shard.attempts.died(worker)

    # Answering ----------------------------------------------------------------------------------------------------

    def _answer(self, *, is_behind: bool) -> bool:
        """Verdicts, letters, what ends start, and rejects, and the positions, in one round. False: nothing was due.

        ``is_behind``: there is more to be read. Of runs that are over their time only what is known of an earlier
        instant counts: what looks like waiting may have ended since, further on in the log.
        """
        wanted, self._wanted = self._wanted, Wanted()
        shards = [shard for shard in self._shards.values() if shard.live]
        draft = self._rounds.draft()
        for shard in shards:
            draft.extend(self._lost(shard, is_behind=is_behind))
        now = self._clock.now()
        # Also where a poll has brought less than it could: a client hands out what it has, and there may be more.
        wanting = shards if is_behind else [shard for shard in shards if shard.deadlines.has_before(now)]
        known_until.look(self._log, self._clock, wanting)
        for shard in (each for each in shards if each.has_read_predecessor):
            expire(draft, self._names, shard, now, self._round_records, shard.known_until.at(now))
        if not is_behind or (shards and all(shard.known_until.keeps_up(self._clock) for shard in shards)):
            self._reconciler.look(draft, shards)
        draft.extend(self._decided(shards))
        draft.extend(self._letters(wanted.given_up))
        draft.extend(self._started(wanted.ends))
        draft.extend(wanted.rejects)
        if draft.empty and self._clock.monotonic_s() < self._offsets_due_s:
            return False
        return self._commit(draft)

    def _commit(self, draft: Round) -> bool:
        """Send the round with every position that moved; one that says anything carries those of all live shards.

        Only offsets fence a router that has lost its partitions and does not know it (design §5.4), and on a quiet
        partition none has moved. Raises LostResource, BackendDown.
        """
        live = [shard for shard in self._shards.values() if shard.live]
        now_s = self._clock.monotonic_s()
        for shard in live:
            draft.extend(shard.kept.messages(shard.fold, now_s))
        says = bool(draft.messages or draft.ahead)
        positions = {shard: due for shard in live if (due := shard.stand() if says else shard.to_commit()) is not None}
        for shard, due in positions.items():
            draft.advance(self._consumer, shard.partition, due.offset, due.metadata)
        self._offsets_due_s = now_s + self._offsets_every_s
        if self._ignored:
            _log.info("events ignored", **self._ignored)
            self._ignored.clear()
        if draft.empty:
            return False
        self._rounds.commit(draft)
        if len(live) == len(self._shards):  # else the round that failed is still to come again
            self._size.landed()
        for shard, due in positions.items():
            shard.committed = due
        return bool(draft.messages)

    def _decided(self, shards: Sequence[Shard]) -> list[Outgoing]:
        """The verdicts on what has ended badly, and what follows from them.

        Of what no position waits for, as many as a round takes events. What was read is decided in the very round that
        advances past it.
        """
        room = self._size.now
        for shard in shards:
            room -= shard.take_turns(room)
        undecided = [each for shard in shards for each in shard.take_undecided()]
        known_to = {shard.partition.partition: shard.next_offset for shard in shards}
        return self._verdicts.messages(undecided, self._clock.now(), known_to)

    def _lost(self, shard: Shard, *, is_behind: bool) -> Iterator[Outgoing]:
        """ATTEMPT_LOST for the open attempts of the dead, once the partition was read far enough."""
        runs, by_worker = shard.fold.open, Counter[str]()
        is_behind = is_behind or not shard.has_read_predecessor
        for run_id in shard.attempts.lost(
            shard.next_offset,
            lambda: self._log.high_watermark(shard.partition),
            runs,
            self._round_records,
            now_s=self._clock.monotonic_s(),
            is_behind=is_behind,
        ):
            state = runs[run_id].state
            by_worker[state.worker] += 1
            yield event_message(self._names, lost_event(run_id, state, self._clock.now()))
        if by_worker:
            _log.warning("attempts lost", partition=shard.partition.partition, by_worker=dict(by_worker))

    def _started(self, ends: Sequence[RunEnd]) -> Iterator[Outgoing]:
        """The commands to jobs that are started by these ends."""
        now = self._clock.now()
        for end in ends:
            met = met_by(end, self._listeners.of(end.job_id))
            ring = self._listeners.leading_back(end.job_id) if len(met) > 1 else ()
            for command in started_by(end, met[:LISTENERS_MAX], ring, now):
                yield command_message(self._names, command)
            if left_out := [listener.job_id for listener in met[LISTENERS_MAX:]]:
                yield reject_message(self._names, untold(end, left_out, now))

    def _letters(self, given_up: Sequence[GivenUp]) -> list[Outgoing]:
        """The dead letters, with their work records read back first: no round is open over that."""
        if not given_up:
            return []
        places = [each.work_place for each in given_up]
        work = self._work.read([place for place in places if place])
        never_claimed = [
            NeverClaimed(each.event.run_id, each.partition, each.first_offset)
            for each in given_up
            if each.work_place is None
        ]
        made = {run_id: source_of(record) for run_id, record in self._made.of(never_claimed).items()}
        now = self._clock.now()
        return [
            dead_letter_message(
                self._names, letter(each, work.get(place) if place else made.get(each.event.run_id), now)
            )
            for each, place in zip(given_up, places, strict=True)
        ]

    def _reject(self, record: Record, error: RequestError) -> Outgoing:
        topic, partition, offset, _, key, value, headers = record
        source = SourceRecord(topic, partition, offset, key, value, headers)
        _log.warning("undecodable event", partition=partition, offset=offset, reason=error.message)
        return reject_message(
            self._names, Reject(ROLE, error.message, error.pointer, error.hint, self._clock.now(), source)
        )
