"""Bugs to be caught: each a patch of the product for the time of one play, never a switch in the product.

A simulation that has never caught anything proves nothing. Each bug here was, somewhere, somebody's real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from waterclock.dispatcher import applying, commands, known, takeover, window
from waterclock.dispatcher.keys import Keys
from waterclock.dispatcher.loop import Dispatcher
from waterclock.dispatcher.rows import Ahead, due_row
from waterclock.dispatcher.shard import Shard
from waterclock.workers.executors import emitting
from waterclock.workers.executors.emitting import Outlet

from tests.compiled_schedules import forget_compiled
from waterclock.log.memory_producer import MemoryProducer
from waterclock.log.port import Outgoing
from waterclock.model.cron_walk import CronWalk
from waterclock.model.events import WorkRecord
from waterclock.model.job import JobVersion, Once
from waterclock.transact import Round, Rounds

from .planted_backfills import PLANTED_BACKFILLS
from .planted_beside import PLANTED_BESIDE
from .planted_calendars import PLANTED_CALENDARS
from .planted_control import PLANTED_CONTROL
from .planted_counts import PLANTED_COUNTS
from .planted_dags import PLANTED_DAGS
from .planted_delays import PLANTED_DELAYS
from .planted_failures import PLANTED_FAILURES, Planted
from .planted_fires import PLANTED_FIRES
from .planted_gaps import PLANTED_GAPS
from .planted_kept import PLANTED_KEPT
from .planted_stops import PLANTED_STOPS
from .planted_told import PLANTED_TOLD
from .planted_triggers import PLANTED_TRIGGERS
from .planted_upkeep import PLANTED_UPKEEP


@contextmanager
def cursor_apart() -> Iterator[None]:
    """The runs go out in one transaction, positions and cursor in a second one after it."""
    commit = Rounds.commit

    def commit_twice(self: Rounds, draft: Round) -> None:
        if ".dispatcher." not in self.transactional_id or not (draft.messages and draft.offsets):
            commit(self, draft)
            return
        records, positions = Round(draft.epoch), Round(draft.epoch)
        records.messages, positions.offsets = draft.messages, draft.offsets
        commit(self, records)
        commit(self, positions)

    with mock.patch.object(Rounds, "commit", commit_twice):
        yield


@contextmanager
def no_seek() -> Iterator[None]:
    """After an abort the dispatcher goes on with what it holds, and reads on where it was."""
    with mock.patch.object(Dispatcher, "_drop_all", return_value=None):
        yield


@contextmanager
def dirty_producer() -> Iterator[None]:
    """A producer that had an answer lost goes on being used, as librdkafka would let it."""

    def allow(self: MemoryProducer, *_: object) -> None:
        self._cluster.faults.lets_dirty_producers_begin = True

    begin = MemoryProducer.begin

    def begin_anyway(self: MemoryProducer) -> None:
        allow(self)
        begin(self)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Rounds, "_renew", return_value=None))
        patches.enter_context(mock.patch.object(MemoryProducer, "begin", begin_anyway))
        patches.enter_context(mock.patch.object(MemoryProducer, "dirty", False))
        yield


@contextmanager
def row_behind() -> Iterator[None]:
    """A due time behind the cursor is not decided at once: its row is inserted, and nobody ever reads it."""

    def rows_of(shard: Shard, version: JobVersion, _edge_at: int) -> Ahead:
        schedule = version.spec.schedule
        first_at = schedule.at if isinstance(schedule, Once) else None
        if first_at is None or first_at > max(_edge_at, version.stamp_at):
            return right(shard, version, _edge_at)
        return Ahead([due_row(version, first_at, version.stamp_at)], [])

    right = applying._rows_of
    with (
        mock.patch.object(commands, "decide_behind", return_value=((), ())),
        mock.patch.object(applying, "_rows_of", rows_of),
    ):
        yield


@contextmanager
def no_row_ahead() -> Iterator[None]:
    """While a minute waits in the window, the next row of its recurring jobs is not written."""
    with mock.patch.object(window, "_following_row", return_value=None):
        yield


@contextmanager
def fold_twice() -> Iterator[None]:
    """In autumn a local time that comes twice fires twice, whatever the schedule says."""
    init = CronWalk.__init__

    def init_both(self: CronWalk, *words: Any, shift: bool, first_only: bool) -> None:
        init(self, *words, shift=shift, first_only=False)

    forget_compiled()
    try:
        with mock.patch.object(CronWalk, "__init__", init_both):
            yield
    finally:
        forget_compiled()


@contextmanager
def effects_apart() -> Iterator[None]:
    """What handlers emitted goes out in a transaction of its own, before the one with the outcome."""
    commit = Rounds.commit

    def commit_twice(self: Rounds, draft: Round) -> None:
        emitted = [message for message in draft.messages if message.topic == "sim.outputs"]
        if emitted and ".worker." in self.transactional_id:
            apart, rest = Round(draft.epoch), Round(draft.epoch)
            apart.messages = emitted
            commit(self, apart)
            rest.offsets, rest.tickets = draft.offsets, draft.tickets
            # Claims and the tracked outcome stand before what was emitted, so the tickets keep their places.
            rest.messages = [message for message in draft.messages if message.topic != "sim.outputs"]
            draft = rest
        commit(self, draft)

    with mock.patch.object(Rounds, "commit", commit_twice):
        yield


@contextmanager
def attempt_in_the_effect() -> Iterator[None]:
    """The effect id has the attempt in it, so a second attempt's records look like other effects."""

    def record(self: Outlet, work: WorkRecord, number: int, *words: Any) -> Outgoing:
        with mock.patch.object(emitting, "effect_id", lambda run_id, of: f"{run_id}/{work.attempt}/out/{of}"):
            return right(self, work, number, *words)

    right = Outlet.record
    with mock.patch.object(Outlet, "record", record):
        yield


@contextmanager
def repeat_applied() -> Iterator[None]:
    """Nobody looks whether an intention was served before."""
    with mock.patch.object(known, "is_repeat", return_value=False):
        yield


@contextmanager
def keys_forgotten() -> Iterator[None]:
    """A successor begins without the intentions that its predecessor has served."""
    read = takeover._read_state

    def read_without(*where: Any) -> takeover.Kept:
        return read(*where)._replace(keys=Keys())

    with mock.patch.object(takeover, "_read_state", read_without):
        yield


RARE = frozenset(
    {
        "dead letter before its verdict is accepted",
        "retry apart from its verdict",
        "hello outside the transaction",
        "control barrier at the last stable offset",
        "no control barrier",
        "lost before fencing",
        "a take-over goes on for partitions that have changed",
    }
)
"""Those that take hundreds of seeds: ``make show NAME=planted-bugs`` looks for them, ``make test`` does not."""

NUMBERS = {
    "outcome committed before the effect": 1,
    "reducer skips the token check": 2,
    "no seek after abort": 5,
    "attempt not counted after a crash": 7,
    "fold fires twice": 9,
    "child released on an attempt that is retried": 10,
    "dead letter before the last retry": 11,
    "lost before fencing": 12,
    "keeper judges while lagging": 14,
    "dirty producer reused": 15,
    "cursor committed apart from the runs": 16,
    "row inserted behind the cursor": 17,
    "cancel overwrites an attempt's success": 18,
    "catch-up without a cap": 19,
    "effect id contains the attempt": 22,
    "cancel told to run-events before control": 26,
    "control barrier at the last stable offset": 27,
    "dead letter before its verdict is accepted": 29,
    "hello outside the transaction": 30,
}
"""Those of the list of thirty that the design asks for, by their number there."""

PLANTED: dict[str, Planted] = {
    "cursor committed apart from the runs": cursor_apart,
    "no seek after abort": no_seek,
    "dirty producer reused": dirty_producer,
    "row inserted behind the cursor": row_behind,
    "next row not written ahead": no_row_ahead,
    "fold fires twice": fold_twice,
    "repeat applied twice": repeat_applied,
    "intentions forgotten at a take-over": keys_forgotten,
    "records sent apart from their outcome": effects_apart,
    "effect id contains the attempt": attempt_in_the_effect,
    **PLANTED_FAILURES,
    **PLANTED_FIRES,
    **PLANTED_CONTROL,
    **PLANTED_COUNTS,
    **PLANTED_DELAYS,
    **PLANTED_BESIDE,
    **PLANTED_UPKEEP,
    **PLANTED_GAPS,
    **PLANTED_CALENDARS,
    **PLANTED_DAGS,
    **PLANTED_BACKFILLS,
    **PLANTED_TRIGGERS,
    **PLANTED_KEPT,
    **PLANTED_STOPS,
    **PLANTED_TOLD,
}
