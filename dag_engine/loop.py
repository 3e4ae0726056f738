"""The DAG engine's story: own, read, decide, release.

It follows run-events. Every DagRun of its partitions is known with its nodes; what follows from an end of a node (nodes
to release, nodes that can never run, the end of the DagRun) leaves in one round, with the offsets. The rule is in
``waterclock/model/dag_release.py`` and looks at nothing but how nodes stand.

What must hold: a node is released once. A partition is taken over by reading what the state topic keeps and run-events
to their end, after the producer stands (design §5.5): so all that any predecessor has released is known before anything
is decided, and what it has not released is decided from how the nodes stand, not from which event comes next. A round
may therefore go past an end of which not everything was told yet: releases of a wide DagRun go out over many rounds.

How it fails: any trouble drops what is held and begins again from the committed position; fenced by a twin it stops,
and the message names the id. While the store is away DagRuns of versions that are not known yet wait; all others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import structlog

from waterclock.abandoned import Abandoned
from waterclock.clock import Clock
from waterclock.log import known_until
from waterclock.log.following import HELD_BY_ROLE, Beginning, beginning
from waterclock.log.port import Committed, Log, Polled, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LostResource, NotFound, RequestError
from waterclock.model.fold import OPEN_MAX, WINDOW, Fold
from waterclock.store.rest import rest_s
from waterclock.taking_over import TakingOver, take_each
from waterclock.transact import Round, Rounds
from waterclock.wire.codec import decode_event
from waterclock.wire.glance import run_at_a_glance
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from .earlier import EARLIER_MAX, SLICE, Earlier
from .kept import KEPT_BEHIND, KeptDags
from .open_dag import OpenDag
from .room import Room
from .shard import Shard
from .specs import Made, Specs, Versions
from .telling import RERUN_GONE, REVISION_GONE, give_up, keep, over_time, tell

ROLE = "dag-engine"

_POLL_S = 0.05
_TROUBLE_WAIT_S = 0.5
_STORE_WAIT_S = 1.0
_STORE_WAIT_S_MAX = 60.0
_FORGET_WITHIN_S = 0.1
"""What is only to be forgotten waits so long for a round that says something, and goes out by itself then."""

_log = structlog.get_logger()


class DagEngine:
    """The core. ``instance`` is the process slot's stable name, ``generation`` that of the topics.

    ``round_records``: events read in one round. ``releases_max``: nodes that one round releases, and DagRuns of each
    partition that it tells to be over their time. ``kept_behind``: see ``kept.py``. ``window``: offsets for which
    DagRuns that ended are remembered.
    ``open_runs_max``: open runs of one partition; at one more it ends, at every start.
    """

    def __init__(
        self,
        log: Log,
        store: Versions,
        clock: Clock,
        names: Names,
        instance: str,
        *,
        generation: int = 1,
        round_records: int = 1_000,
        releases_max: int = 1_000,
        offsets_every_s: float = 2.0,
        kept_behind: int = KEPT_BEHIND,
        window: int = WINDOW,
        open_runs_max: int = OPEN_MAX,
    ) -> None:
        self._log = log
        self._clock = clock
        self._names = names
        self._generation = generation
        self._round_records = round_records
        self._releases_max = releases_max
        self._offsets_every_s = offsets_every_s
        self._kept_behind = kept_behind
        self._window = window
        self._open_runs_max = open_runs_max
        self._consumer = log.consumer(names.group(ROLE), [names.run_events], instance=instance)
        abandoned = Abandoned(log, names, ROLE, instance)
        self._rounds = Rounds(log, names.transactional_id(ROLE, instance), abandoned=abandoned)
        self._specs = Specs(store)
        self._pools = Pools(log, names, clock)
        self._shards: dict[int, Shard] = {}
        self._taking_over = TakingOver(clock, self._take_all)
        self._is_troubled = False
        self._has_joined = False
        self._offsets_due_s = 0.0
        self._forget_due_s = 0.0
        self._store_due_s = 0.0
        self._turn = 0

    @property
    def ready(self) -> bool:
        """A member of the group, and every partition that is ours has caught up."""
        return self._has_joined and not self._taking_over.places and all(shard.live for shard in self._shards.values())

    def figures(self) -> dict[int, dict[str, Any]]:
        """By partition what was counted since it was taken over. Any thread may ask."""
        return {number: shard.figures.parts(len(shard.dags)) for number, shard in list(self._shards.items())}

    def step(self) -> bool:
        """One cycle; see ``waterclock.role``. Raises Fenced, and FoldFull at the bound of open runs."""
        try:
            if self._is_troubled:
                self._notice(self._rounds.poll(self._consumer, 0, _TROUBLE_WAIT_S))
                self._is_troubled = False
            self._taking_over.go_on()
            room = 0 if self._taking_over.is_under_way else self._round_records
            polled = self._rounds.poll(self._consumer, room, _POLL_S)
            self._notice(polled)
            if room:
                self._read(polled.records)
            self._learn_versions()
            is_reading = self._read_earlier()
            has_more = bool(polled.records or polled.assigned) or self._taking_over.is_under_way
            return self._answer() or is_reading or has_more
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            self._start_over(trouble)
            return False

    def drain(self) -> bool:
        """Commit what is decided; there is nothing else to finish."""
        try:
            self._commit(self._rounds.draft())
        except (LostResource, BackendDown) as trouble:
            _log.warning("last positions not committed", trouble=str(trouble))
        return False

    def close(self) -> None:
        """Give up the producer, and the membership as a static member does: the slot's next process takes over."""
        self._drop_all()
        self._rounds.close()
        self._consumer.close()

    # Owning -------------------------------------------------------------------------------------------------------

    def _notice(self, polled: Polled) -> None:
        """Membership: forget what is no longer ours, remember what must be taken over."""
        for gone in polled.revoked:
            if gone.partition in self._shards:
                self._shards.pop(gone.partition).close()
        self._taking_over.note(polled)
        self._has_joined = self._has_joined or self._consumer.has_share

    def _take_all(self) -> Iterator[None]:
        """Start new partitions where their fold begins."""
        shards = yield from take_each(self._rounds, self._consumer, self._taking_over.places, self._taken)
        self._shards |= {shard.partition.partition: shard for shard in shards}
        self._store_due_s = 0.0  # what did not answer may have been this very machine, which stood still
        self._offsets_due_s = self._clock.monotonic_s()

    def _taken(self, place: TopicPartition, committed: Committed | None) -> Generator[None, None, Shard]:
        """A partition as its last owner left it, to be read to its end as of now before anything is decided."""
        start = beginning(self._log, place, committed)
        start = Beginning(start.start_at, max(start.act_from, self._log.high_watermark(place)), start.is_first)
        bound = self._open_runs_max
        fold: Fold[None] = Fold(generation=self._generation, window=self._window, open_max=bound, held_by=HELD_BY_ROLE)
        kept = KeptDags(self._names, ROLE, place.partition, behind=self._kept_behind, start_at=start.start_at)
        dags = yield from kept.restoring(self._log, fold)
        _log.info("partition taken over", partition=place.partition, open_dag_runs=len(dags), **start._asdict())
        shard = Shard(place, start, fold, kept)
        for dag in dags:
            shard.adopt(dag)
        return shard

    def _start_over(self, trouble: Exception) -> None:
        """Every trouble leads back to the committed positions (design §5.5)."""
        _log.warning("begins again from the committed positions", trouble=str(trouble))
        self._drop_all()
        self._pools.forget()
        self._taking_over.begin_again(self._consumer.owned())
        self._is_troubled = True

    def _drop_all(self) -> None:
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    # Reading ------------------------------------------------------------------------------------------------------

    def _read(self, records: Sequence[Record]) -> None:
        """Fold the records; afterwards every shard stands at the consumer's position."""
        for record in records:
            shard = self._shards.get(record.partition)
            if shard is None:
                continue
            shard.has_begun = True
            value = record.value or b""
            seen = run_at_a_glance(value)
            if seen is not None and shard.passes_over(*seen):
                shard.fold.pass_over(record.offset)
                continue
            try:
                shard.take(decode_event(value), record.offset, record.timestamp_us)
            except RequestError as error:  # undecodable, or it names no run: the retry router forwards it to rejects
                _log.warning("event passed over", partition=record.partition, offset=record.offset, reason=str(error))
        for shard in self._shards.values():
            shard.has_begun = shard.has_begun or not records
            shard.catch_up(self._consumer)

    def _learn_versions(self) -> None:
        """Read the versions that DagRuns wait for. Where the store is away they go on waiting, and others hardly."""
        if not self._specs.wanting or self._clock.monotonic_s() < self._store_due_s:
            return
        asked_s = self._clock.monotonic_s()
        try:
            self._specs.read()
        except BackendDown as down:
            now_s = self._clock.monotonic_s()
            self._store_due_s = now_s + rest_s(now_s - asked_s, _STORE_WAIT_S, _STORE_WAIT_S_MAX)
            _log.warning("versions of Dags cannot be read", cause=str(down))

    def _read_earlier(self) -> bool:
        """Read on in the DagRuns that others run again, one slice shared by all; True where there is more."""
        found = (reading for shard in self._shards.values() for reading in shard.earlier.values())
        readings = [reading for reading in found if not reading.done]
        has_more = [reading.look(max(1, SLICE // len(readings))) for reading in readings]
        return any(has_more)

    # Deciding -----------------------------------------------------------------------------------------------------

    def _answer(self) -> bool:
        """Releases, skips and ends, and the positions, in one round. False when nothing was due."""
        draft = self._rounds.draft()
        room = Room(self._releases_max)
        shards = [shard for shard in self._in_turn() if shard.live]
        # What looks open may have ended, further on in the log: all is known until an earlier instant.
        now = self._clock.now()
        known_until.look(self._log, self._clock, [shard for shard in shards if shard.has_deadline_before(now)])
        for shard in shards:
            self._decide(draft, shard, room)
            now = self._clock.now()
            for dag in shard.take_over_time(shard.known_until.at(now), self._releases_max):
                over_time(draft, self._names, dag, now)
        now_s = self._clock.monotonic_s()
        owes = now_s >= self._forget_due_s and any(shard.kept.owes for shard in self._shards.values() if shard.live)
        if draft.empty and not owes and now_s < self._offsets_due_s:
            return False
        return self._commit(draft)

    def _in_turn(self) -> list[Shard]:
        """The shards, each round another one first: a wide DagRun of one takes all the room of a round."""
        shards = list(self._shards.values())
        self._turn += 1
        first = self._turn % len(shards) if shards else 0
        return [*shards[first:], *shards[:first]]

    def _decide(self, draft: Round, shard: Shard, room: Room) -> None:
        """Tell what follows in DagRuns of which something may; what there is no room for stays for the next round."""
        for run_id in list(shard.to_decide):
            if room.is_full:
                break
            del shard.to_decide[run_id]
            dag = shard.dags[run_id]
            if not dag.is_going or (dag.state is None and not self._begin(draft, shard, dag, room)):
                continue
            if not dag.can_release:
                continue
            if dag.is_strange:
                give_up(draft, self._names, dag, REVISION_GONE, self._clock.now())
            else:
                self._tell(draft, shard, dag, room)

    def _tell(self, draft: Round, shard: Shard, dag: OpenDag, room: Room) -> None:
        """What follows in one DagRun, into the round, as far as there is room."""
        assert dag.state is not None
        has_more = True
        while has_more and not room.is_full:  # ends: a turn takes room, or leaves nothing that may begin
            steps = dag.state.decide(room.portion)
            tell(draft, self._names, dag, steps, self._clock.now())
            room.take(steps)
            if dag.heard_at:  # else it was read from the state topic, and nobody knows since when it waits
                shard.figures.release(len(steps.releases), dag.heard_at)
            shard.figures.skipped += len(steps.skips)
            has_more = dag.state.has_more
        if has_more:
            shard.to_decide[dag.run_id] = None  # behind all others

    def _begin(self, draft: Round, shard: Shard, dag: OpenDag, room: Room) -> bool:
        """Go on with a DagRun whose version is known now. False: it waits for that or a pool, is paused, or ends."""
        if not self._specs.knows(dag.job_id, dag.revision):
            shard.to_decide[dag.run_id] = None
            return False
        made = self._specs.of(dag.job_id, dag.revision)
        if made is not None:
            shard.note_deadline(dag, made.timeout_us)  # whatever it waits for from here on, its time runs
        if not dag.can_release:
            shard.leave_earlier(dag.run_id)
            return False  # its resume comes back here
        if made is not None and not self._has_pools(dag, made):
            shard.leave_earlier(dag.run_id)
            shard.to_decide[dag.run_id] = None  # a pool was taken away: an unknown topic would block every round
            return False
        if made is not None and dag.wants_earlier and not self._keep_of_earlier(draft, shard, dag, made, room):
            return False
        if made is None or not dag.begin(made):
            give_up(draft, self._names, dag, REVISION_GONE, self._clock.now())
            return False
        return True

    def _keep_of_earlier(self, draft: Round, shard: Shard, dag: OpenDag, made: Made, room: Room) -> bool:
        """Keep of the DagRun that this one runs again what does not come after the nodes that it begins with.

        False: that one is not read to its end yet, or is gone, and this one ends. Raises BackendDown.
        """
        reading = shard.earlier.get(dag.run_id)
        if reading is None and len(shard.earlier) < EARLIER_MAX:
            what = (self._log, self._names, shard.partition, dag.linked_run, self._generation)
            try:
                reading = shard.earlier[dag.run_id] = Earlier(*what)
            except RequestError as error:  # no role of ours writes such a link
                _log.error("a rerun of what is no run", run_id=dag.run_id, reason=str(error))
                give_up(draft, self._names, dag, RERUN_GONE, self._clock.now())
                return False
        if reading is None or not reading.done:
            shard.to_decide[dag.run_id] = None
            return False
        del shard.earlier[dag.run_id]
        kept = reading.kept(made.graph, dag.revision, dag.start.rerun_from)
        if kept is None or (dag.start.payload is None and reading.given.is_gone):
            give_up(draft, self._names, dag, RERUN_GONE, self._clock.now())
            return False
        keep(draft, self._names, dag, kept, self._clock.now())
        room.take_kept(kept.values())
        dag.known |= kept
        if dag.start.payload is None and reading.given.payload is not None:
            dag.start = dag.start._replace(payload=reading.given.payload)
            shard.kept.write_at_once(dag.run_id)
        return True

    def _has_pools(self, dag: OpenDag, made: Made) -> bool:
        """Whether all its nodes' work has topics to go to; said once where it has not. Raises BackendDown."""
        try:
            for tier, pool in made.lanes:
                self._pools.check(tier, pool)
        except NotFound as missing:
            if not dag.waits_for_pool:
                _log.warning("DagRun waits for a pool", run_id=dag.run_id, cause=missing.message)
            dag.waits_for_pool = True
            return False
        return True

    def _commit(self, draft: Round) -> bool:
        """Send the round with every position that moved; one that says anything carries those of all live shards.

        Only offsets fence an engine that has lost its partitions and does not know it (design §5.4), and on a quiet
        partition none has moved. Raises LostResource, BackendDown.
        """
        live = [shard for shard in self._shards.values() if shard.live]
        ignored: Counter[str] = Counter()
        now_s = self._clock.monotonic_s()
        for shard in live:
            draft.extend(shard.kept.messages(shard.fold, shard.dags, now_s))
            ignored.update(shard.ignored)
            shard.ignored.clear()
        says = bool(draft.messages or draft.ahead)
        positions = {shard: due for shard in live if (due := shard.stand() if says else shard.to_commit()) is not None}
        for shard, due in positions.items():
            draft.advance(self._consumer, shard.partition, due.offset, due.metadata)
        self._offsets_due_s, self._forget_due_s = now_s + self._offsets_every_s, now_s + _FORGET_WITHIN_S
        if ignored:
            _log.info("events ignored", **ignored)
        if draft.empty:
            return False
        self._rounds.commit(draft)
        for shard, due in positions.items():
            shard.committed = due
            shard.figures.landed(self._clock.now())
        return bool(draft.messages)
