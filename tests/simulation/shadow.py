"""A shadow for every shard: after a round has landed, what a successor would know is held against what its owner knows.

A crash tells whether what a successor does is right, some day; this tells at once, at each round, whether it knows the
same. Not part of a play: put in for its time, as planted bugs are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from unittest import mock

from waterclock.dispatcher import takeover, window
from waterclock.dispatcher.errands import do_at_once
from waterclock.dispatcher.flow import Flow, FlowJob
from waterclock.dispatcher.loop import Dispatcher
from waterclock.dispatcher.shard import Decided, Shard
from waterclock.dispatcher.timeline import Chain, Deferred

from waterclock.log.memory import MemoryLog
from waterclock.log.port import Committed, Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, LostResource, RequestError
from waterclock.model.ids import US_PER_MINUTE
from waterclock.store.memory import MemoryStore
from waterclock.transact import Round
from waterclock.wire.codec import decode_event


class Shadows:
    """What was compared, and what differed."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.rounds = 0
        self.met: Counter[str] = Counter()
        self.odd: list[str] = []

    def landed(self, dispatcher: Any, draft: Round) -> None:
        """A round of this dispatcher has landed."""
        for place, committed in draft.offsets.get(dispatcher._inputs, {}).items():
            if self.looks_at(dispatcher._inputs, place, committed):
                try:
                    self._compare(dispatcher, dispatcher._shards[place.partition], committed)
                except (BackendDown, LostResource):  # markers that have not landed hide what was committed
                    self.met["hidden"] += 1

    def looks_at(self, consumer: Any, place: TopicPartition, committed: Committed) -> bool:
        """Whether this round is one to be looked at. Not where its owner stood still in its commit, and somebody else
        has gone on: that is not whom a successor follows."""
        self.rounds += 1
        if consumer._group.committed(place) != committed:
            self.met["overtaken"] += 1
            return False
        return self.rounds % self.every == 0

    def _compare(self, dispatcher: Any, owner: Shard, committed: Committed) -> None:
        log = MemoryLog(dispatcher._log.cluster, "outside")
        names, now = dispatcher._names, dispatcher._clock.now()
        shadow = takeover.take_over(
            log, names, owner.partition, dispatcher._partitions, dispatcher._generation, committed, now
        )
        catch_up(log, TopicPartition(names.run_events, owner.partition), shadow.flow, owner.flow, now)
        for state_key in owner.keys.forgotten:  # their tombstones come in a later round
            shadow.keys.drop(state_key)
        mine, theirs = knowledge(owner), knowledge(shadow)
        # While commands wait, rows may be those of somebody who ran ahead, and fires wait for the commands.
        if shadow.caught_up and owner.jump is None and not dispatcher._rebuilds.held(owner, now):
            tables = dispatcher._index.tables
            with mock.patch.object(tables, "on_call", None):
                load_like(owner, shadow, ReadOnly(MemoryStore(dispatcher._clock, tables, "outside")), names)
            mine["chains"], theirs["chains"] = chains(owner, owner), chains(shadow, owner)
        self.met.update({name: bool(part) for name, part in mine.items()})
        self.met["compared"] += 1
        for name in mine:
            if mine[name] != theirs[name]:
                self.odd.append(f"{name} of {owner.partition}: {difference(mine[name], theirs[name])}")


class ReadOnly:
    """A store that a successor reads, and writes nothing to: what it does not find its owner has not written."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write_due(self, rows: Any) -> None:
        """Nothing."""


def load_like(owner: Shard, shadow: Shard, store: Any, names: Any) -> None:
    """Load the time index as far as the owner has."""
    while shadow.loaded_minute < owner.loaded_minute:
        do_at_once(window.load_slice(shadow, store, names, len(shadow.slots)))


def chains(shard: Shard, owner: Shard) -> dict[Any, Any]:
    """By job and revision the next fires in the minutes that the owner has loaded whole, and the deferred attempts."""
    found: dict[Any, Any] = {}
    for due_at, _, job_id, entry, revision, item in shard.timeline._heap:
        at = due_at if isinstance(item, Deferred) else first_undecided(item, shard.decided.get(job_id))
        if at is not None and at // US_PER_MINUTE < owner.loaded_minute:
            found.setdefault((job_id, revision, entry), set()).add(at)
    return found


def first_undecided(chain: Chain, decided: Decided | None) -> int | None:
    """When the chain is due next, but for what was decided ahead; None: nothing is left of it."""
    chain = copy(chain)
    while not chain.is_cut:
        if decided is None or not decided.covers(chain.due_at, chain.next_at):
            return chain.due_at
        if not chain.advance():
            return None
    return None


def catch_up(log: MemoryLog, place: TopicPartition, flow: Flow, owner: Flow, now: int) -> None:
    """Read run-events on to where the owner has."""
    for record in read_range(log, Isolation.COMMITTED, place, flow.position, owner.position):
        job = flow.followed.get(record.key or b"")
        flow.position = record.offset + 1
        if job is not None:
            try:
                flow.apply(job, decode_event(record.value or b""), record.offset, record.timestamp_us, now)
            except RequestError:
                continue


def knowledge(shard: Shard) -> dict[str, Any]:
    """What one has to know of a shard, by what it is."""
    flow, keys = shard.flow, shard.keys
    jobs = {job_id: of_job(job) for job_id, job in flow.jobs.items() if job.open or job.held or not job.is_free}
    return {
        "progress": shard.progress,
        "offset": shard.next_offset,
        "decided": shard.decided,
        "keys": {**keys._given, **keys._standing_in},
        "jobs": jobs,
        "backfills": {each.backfill_id: each.told for each in shard.backfills},
        "gatherings": shard.gatherings._open,
    }


def of_job(job: FlowJob) -> Any:
    """Its counts, who waits in which order, and who is open in what state."""
    held = [each.kept._replace(group="") for each in job.held.values()]
    nodes = {run_id: None if run.dag is None else run.dag.open_nodes for run_id, run in job.open.items()}
    return job.kept, held, {run_id: run.state for run_id, run in job.open.items()}, nodes, dict(job.by_group)


def difference(mine: Any, theirs: Any) -> str:
    """Of two tables the entries that differ."""
    if not isinstance(mine, dict):
        return f"{mine!r} here, {theirs!r} there"
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    return "; ".join(f"{key}: {mine.get(key)!r} here, {theirs.get(key)!r} there" for key in keys[:3])


@contextmanager
def shadowed(shadows: Shadows) -> Iterator[None]:
    """For the time of a play."""
    landed = Dispatcher._note_landed

    def note_landed(dispatcher: Dispatcher, draft: Round) -> None:
        landed(dispatcher, draft)
        shadows.landed(dispatcher, draft)

    with mock.patch.object(Dispatcher, "_note_landed", note_landed):
        yield
