"""Bugs in what people read, and in who is served when: patches of the product for one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from waterclock.dispatcher import answers, commands, releasing
from waterclock.dispatcher import reruns as again
from waterclock.retry_router import loop as router
from waterclock.workers import lanes

from waterclock.log.following import Beginning
from waterclock.log.port import Committed, Outgoing, TopicPartition
from waterclock.model.backfill import Backfilled
from waterclock.model.events import Pending, RunEvent, WorkRecord
from waterclock.model.ids import US_PER_S, Instant
from waterclock.recorder.batch import Batch
from waterclock.recorder.loop import Recorder
from waterclock.recorder.shard import Shard
from waterclock.store.backfill_port import BackfillRow
from waterclock.wire import messages
from waterclock.wire.names import Names

from .planted_failures import Planted

_PER_TIER = tuple[int, int, int]
_STRETCH_US = 20 * US_PER_S


@contextmanager
def orders_from_their_end() -> Iterator[None]:
    """A recorder that takes commands over begins at their end: what came while nobody was there is in no audit."""
    right = Recorder._beginning

    def beginning(self: Recorder, place: TopicPartition, committed: Committed | None) -> Beginning:
        if place.topic != self._names.commands:
            return right(self, place, committed)
        end = self._log.high_watermark(place)
        return Beginning(end, end, is_first=False)

    with mock.patch.object(Recorder, "_beginning", beginning):
        yield


@contextmanager
def first_word_of_a_batch() -> Iterator[None]:
    """Of what a batch tells of a backfill its row shows the first, and not the last."""

    def backfilled(self: Batch, shard: Shard, event: RunEvent, detail: Backfilled) -> None:
        if shard.live:
            self.backfills.setdefault((event.job_id, detail.number), BackfillRow(event.job_id, detail, event.at))

    with mock.patch.object(Batch, "_backfilled", backfilled):
        yield


@contextmanager
def words_kept() -> Iterator[None]:
    """A version keeps the words of the one before it where its command brings none."""
    right = commands._changed

    def changed(command: Any, place: Any, stamp_at: Any, before: Any, standing: Any) -> Any:
        after = right(command, place, stamp_at, before, standing)
        return after if after is None or after.note or before is None else after._replace(note=before.note)

    with mock.patch.object(commands, "_changed", changed):
        yield


@contextmanager
def waits_untold() -> Iterator[None]:
    """Whoever triggers a job is not told that its run waits for others."""
    with mock.patch.object(answers, "_came_to", return_value={}):
        yield


@contextmanager
def nodes_under_one_key() -> Iterator[None]:
    """The work of all nodes of a Dag lies under the key of its job: one worker gets them all."""
    right = messages.work_message

    def work_message(names: Names, work: WorkRecord) -> Outgoing:
        return right(names, work)._replace(key=work.job_id.encode())

    with mock.patch("waterclock.dag_engine.telling.work_message", work_message):
        yield


@contextmanager
def turns_of_one_id() -> Iterator[None]:
    """Each pause of a DagRun bears the id of its first: who drops repeats takes it for paused, or not, for ever."""
    with mock.patch.object(messages, "_OFTEN", ()):
        yield


@contextmanager
def rerun_of_all() -> Iterator[None]:
    """A rerun forgets from which nodes on it was to begin."""
    right = again.pending_of_rerun

    def pending_of_rerun(version: Any, run: Any) -> Pending:
        return right(version, run._replace(rerun_from=()))

    with mock.patch.object(again, "pending_of_rerun", pending_of_rerun):
        yield


@contextmanager
def low_waits_for_all() -> Iterator[None]:
    """LOW is served where the other tiers have nothing."""
    right = lanes.share

    def share(free: int, hungry: Any, credit: _PER_TIER, weights: _PER_TIER = lanes.WEIGHTS) -> Any:
        served = (*hungry[:2], hungry[2] and not any(hungry[:2]))
        return right(free, served, credit, weights)

    with mock.patch.object(lanes, "share", share):
        yield


@contextmanager
def expiries_in_their_hour() -> Iterator[None]:
    """A router ends what is over its time in every second stretch of twenty seconds alone."""
    right = router.expire

    def expire(draft: Any, names: Names, shard: Any, now: Instant, limit: int, until: Instant) -> None:
        if now // _STRETCH_US % 2:
            right(draft, names, shard, now, limit, until)

    with mock.patch.object(router, "expire", expire):
        yield


@contextmanager
def let_go_in_their_hour() -> Iterator[None]:
    """An owner lets go what waits for others in every second stretch of two minutes alone."""
    right = releasing.settle

    def settle(shard: Any, index: Any, out: Any, now: Instant) -> bool:
        return right(shard, index, out, now) if now // (6 * _STRETCH_US) % 2 else False

    with mock.patch.object(releasing, "settle", settle):
        yield


PLANTED_TOLD: dict[str, Planted] = {
    "orders that came while no recorder was there": orders_from_their_end,
    "the first word of a batch about a backfill": first_word_of_a_batch,
    "a version keeps the words of the one before": words_kept,
    "whoever asks is not told that a run waits": waits_untold,
    "work of nodes under the key of their job": nodes_under_one_key,
    "pauses of a DagRun under one event id": turns_of_one_id,
    "rerun forgets where it begins": rerun_of_all,
    "LOW waits until the others have nothing": low_waits_for_all,
    "what waits is let go in its hours": let_go_in_their_hour,
    "expiries have their hours": expiries_in_their_hour,
}
