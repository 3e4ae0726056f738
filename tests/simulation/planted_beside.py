"""Bugs of overlap and limits: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest import mock

from waterclock.dispatcher import admission, admitting, putting_out
from waterclock.dispatcher.admission import Admission, Fate
from waterclock.dispatcher.flow import Flow, FlowJob
from waterclock.dispatcher.flow_runs import Held, Open

from waterclock.model.concurrency import Concurrency
from waterclock.model.events import Outcome, RunEvent, RunStatus
from waterclock.model.ids import Instant
from waterclock.wire import codec

from .planted_failures import Planted


@contextmanager
def held_forgotten() -> Iterator[None]:
    """A successor begins without the runs that its predecessor has held."""

    def restore(self: Flow, records: Iterable[tuple[str, bytes]], end: int, low: int) -> list[str]:
        return right(self, [(key, value) for key, value in records if not _is_held(key, value)], end, low)

    right = Flow.restore
    with mock.patch.object(Flow, "restore", restore):
        yield


def _is_held(key: str, value: bytes) -> bool:
    return "@" in key and bool(codec.decode_flow_run(value).held)


@contextmanager
def attempts_counted() -> Iterator[None]:
    """The limit counts attempts: a run that waits for its retry leaves its place to another."""

    def apply(self: Flow, job: FlowJob, event: RunEvent, offset: int, stamped_at: Instant, now: Instant) -> None:
        right(self, job, event, offset, stamped_at, now)
        run = job.open.get(event.run_id)
        if run is not None and run.state.status is RunStatus.RUNNING and run.state.outcome is not Outcome.NONE:
            self._ended(job, run, stamped_at)

    right = Flow.apply
    with mock.patch.object(Flow, "apply", apply):
        yield


@contextmanager
def ends_not_read() -> Iterator[None]:
    """A successor follows open runs from the end of run-events on: what ended meanwhile stays open for ever."""

    def restore(self: Flow, records: Iterable[tuple[str, bytes]], end: int, low: int) -> list[str]:
        strange = right(self, records, end, low)
        self.position = end
        return strange

    right = Flow.restore
    with mock.patch.object(Flow, "restore", restore):
        yield


@contextmanager
def pause_lets_go() -> Iterator[None]:
    """A pause does not keep what waits."""

    def may_go(_held: Held, *, paused: bool) -> bool:
        return True

    with mock.patch.object(FlowJob, "_may_go", staticmethod(may_go)):
        yield


@contextmanager
def cancelled_still_waits() -> Iterator[None]:
    """A run that is cancelled while it waits keeps its place, and goes out when its turn comes."""
    with mock.patch.object(putting_out, "withdraw", return_value=None):
        yield


@contextmanager
def all_stopped() -> Iterator[None]:
    """A fire asks every open run to end where the end of one is enough."""

    def stopped(job: FlowJob, limits: Concurrency, group: str, held_count: int) -> tuple[str, ...]:
        found = right(job, limits, group, held_count)
        if not found:
            return ()
        is_of_key = group and limits.key_limit and job.by_group[group] >= limits.key_limit
        scope = [run for run in job.open.values() if not is_of_key or run.kept.group == group]
        return tuple(run.kept.run_id for run in sorted(scope, key=admission._age) if not run.asked)

    right = admission._stopped
    with mock.patch.object(admission, "_stopped", stopped):
        yield


@contextmanager
def newest_stopped() -> Iterator[None]:
    """A fire asks the newest open run to end, and the oldest goes on."""

    def youth(run: Open) -> tuple[int, str]:
        return -run.kept.fire_at, run.kept.run_id

    with mock.patch.object(admission, "_age", youth):
        yield


@contextmanager
def held_by_key() -> Iterator[None]:
    """``max_held`` counts the runs of one key: of a job as many times so many wait as there are keys."""

    def admit(job: FlowJob, limits: Concurrency, group: str, fire_at: Instant | None, **more: bool) -> Admission:
        found = right(job, limits, group, fire_at, **more)
        if found.cap == admission.MAX_HELD and len(job.waiting(limits, group)) < limits.held_limit:
            return Admission(Fate.HOLD, admission.OVERLAP)
        return found

    right = admission.admit
    with mock.patch.object(admitting, "admit", admit):
        yield


@contextmanager
def held_one_less() -> Iterator[None]:
    """One less than ``max_held`` may wait."""
    right = Concurrency.held_limit.fget
    assert right is not None
    with mock.patch.object(Concurrency, "held_limit", property(lambda self: right(self) - 1)):
        yield


@contextmanager
def one_of_key() -> Iterator[None]:
    """One run of a key may be open, whatever ``max_concurrent_per_key`` says."""
    with mock.patch.object(Concurrency, "key_limit", property(lambda self: int(bool(self.key)))):
        yield


PLANTED_BESIDE: dict[str, Planted] = {
    "held runs forgotten at a take-over": held_forgotten,
    "limit counts attempts": attempts_counted,
    "ends of open runs not read at a take-over": ends_not_read,
    "pause lets go of what waits": pause_lets_go,
    "cancelled run still waits": cancelled_still_waits,
    "a fire stops all that are open": all_stopped,
    "a fire stops the newest": newest_stopped,
    "max_held counts the runs of one key": held_by_key,
    "one less may wait": held_one_less,
    "one run of a key, whatever its limit": one_of_key,
}
