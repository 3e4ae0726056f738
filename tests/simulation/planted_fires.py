"""Bugs of what fires and of what is called: patches of the product for the time of one play. See ``planted.py``.

They are those that books of mere numbers cannot see: each fire still comes to a run or to a skip, and to the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from waterclock.dispatcher import applying, blocked, catch_up, commands, deciding, herds, misfire, shard
from waterclock.dispatcher.misfire import Decision
from waterclock.dispatcher.owed import Stretch
from waterclock.dispatcher.shard import Decided, Shard
from waterclock.dispatcher.timeline import Timeline
from waterclock.workers.attempts import Attempts
from waterclock.workers.executors.port import Attempt, EndedAttempt

from waterclock import transact
from waterclock.model import timetable
from waterclock.model.events import Outcome
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import JobSpec, JobStatus, JobVersion
from waterclock.model.timing import Misfire, Timing

Planted = Callable[[], AbstractContextManager[None]]
_NO_CAP_US = 400 * US_PER_S
"""Not for ever: after two hours a play would have tens of thousands of runs."""


@contextmanager
def pause_unheeded() -> Iterator[None]:
    """A paused job goes on firing, and nothing is written down as skipped when the pause ends."""

    def cut(shard: Shard, version: JobVersion) -> None:
        if version.status is not JobStatus.PAUSED:
            cut_older(shard, version)

    def close(after: JobVersion, versions: Sequence[JobVersion], *rest: Any) -> commands.Applied:
        applied = right(after, versions, *rest)
        if after.status is JobStatus.PAUSED:
            return applied._replace(skipped=(), decided_at=None)
        was_paused = bool(versions) and versions[0].status is JobStatus.PAUSED
        return applied._replace(skipped=()) if was_paused else applied

    cut_older, right = applying._cut_older, commands._close
    with mock.patch.object(applying, "_cut_older", cut), mock.patch.object(commands, "_close", close):
        yield


@contextmanager
def herds_unjudged() -> Iterator[None]:
    """What was sent before its instant goes out, whatever came meanwhile, and whatever was decided at it."""
    calm, begins = mock.patch.object(herds, "_is_calm", _has_no_jump), mock.patch.object(transact, "_begins", _is_true)
    with calm, begins:
        yield


def _has_no_jump(shard: Shard) -> bool:
    return shard.may_decide and shard.jump is None and shard.flow.ready


def _is_true(*_: object) -> bool:
    return True


def _with_grace(change: Callable[[int], int]) -> Planted:
    """The dispatcher decides with another grace."""

    @contextmanager
    def planted() -> Iterator[None]:
        def changed(right: Callable[..., int]) -> Callable[..., int]:
            def decide(*words: Any) -> int:
                *head, grace_us = words
                return right(*head, change(grace_us))

            return decide

        on_time = mock.patch.object(deciding, "decide_fires", changed(deciding.decide_fires))
        with on_time, mock.patch.object(catch_up, "work_off", changed(catch_up.work_off)):
            yield

    return planted


def _with_policy(change: Callable[[Timing], Timing]) -> Planted:
    """What was missed is decided by another policy than its job's."""

    @contextmanager
    def planted() -> Iterator[None]:
        def decide(owed: Sequence[Stretch], now: Instant, grace_us: int) -> Decision:
            return right([_with_timing(stretch, change) for stretch in owed], now, grace_us)

        right = deciding.decide
        with mock.patch.object(deciding, "decide", decide), mock.patch.object(misfire, "decide", decide):
            yield

    return planted


def _with_timing(stretch: Stretch, change: Callable[[Timing], Timing]) -> Stretch:
    spec = stretch.version.spec
    return stretch._replace(version=stretch.version._replace(spec=replace(spec, timing=change(spec.timing))))


@contextmanager
def pause_by_due_time() -> Iterator[None]:
    """A pause decides what is due by then and no more: a fire that jitter holds back is skipped, and runs as well."""

    def covers(self: Decided, due_at: Instant, _fire_at: Instant) -> bool:
        return due_at <= self.at

    with mock.patch.object(Decided, "covers", covers), mock.patch.object(Shard, "fires_decided_to", return_value=0):
        yield


@contextmanager
def end_included() -> Iterator[None]:
    """A fire at the very end of a job's time is its own as well."""

    def next_fire(spec: JobSpec, anchor_at: Instant, after: Instant) -> Instant | None:
        return right(_longer(spec), anchor_at, after)

    def last_fire(spec: JobSpec, anchor_at: Instant, after: Instant, until: Instant) -> Instant | None:
        return right_last(_longer(spec), anchor_at, after, until)

    right, right_last = timetable.next_fire, timetable.last_fire
    with mock.patch.object(timetable, "next_fire", next_fire), mock.patch.object(timetable, "last_fire", last_fire):
        yield


def _longer(spec: JobSpec) -> JobSpec:
    timing = spec.timing
    return replace(spec, timing=replace(timing, until_at=timing.until_at + 1)) if timing.until_at else spec


@contextmanager
def another_salt() -> Iterator[None]:
    """A release that computes other offsets: every job with jitter fires at another moment."""
    with mock.patch.object(timetable, "_SALT", b"jitter/2"):
        yield


@contextmanager
def outcome_first() -> Iterator[None]:
    """A success is recorded first, and the user code called after it: a crash in between takes the effect away."""
    waiting: WeakKeyDictionary[Attempts, list[list[Attempt]]] = WeakKeyDictionary()

    def run(self: Attempts, attempts: Sequence[Attempt]) -> None:
        early = [each for each in attempts if each.work.handler == "sim.ok"]
        for attempt in early:
            self._slots.stick(attempt)
            self._end(EndedAttempt(attempt, Outcome.SUCCEEDED, result=b"1"))
        if early:
            waiting.setdefault(self, [[], []])[1] += early
        right(self, [each for each in attempts if each not in early])

    def tend(self: Attempts) -> None:
        turns = waiting.setdefault(self, [[], []])
        due, turns[:] = turns[0], [turns[1], []]
        if due:
            self._executors.submit(due)
        tends(self)

    right, tends = Attempts._run, Attempts.tend
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Attempts, "_run", run))
        patches.enter_context(mock.patch.object(Attempts, "tend", tend))
        yield


@contextmanager
def instants_cut() -> Iterator[None]:
    """Each version's fire of one instant has a place of its own, and a round may end between two at the same one."""
    with (
        mock.patch.object(Timeline, "take_beside", return_value=()),
        mock.patch.object(shard, "first_tier", return_value=None),
    ):
        yield


@contextmanager
def blocked_for_all() -> Iterator[None]:
    """Many blocked fires are decided ahead, whatever another version of the job has due meanwhile."""
    with mock.patch.object(blocked, "_owes_beside", return_value=False):
        yield


@contextmanager
def own_tiers() -> Iterator[None]:
    """Whoever asks what of a job is decided asks by the tier of the version that it looks at."""
    with mock.patch.object(shard, "first_tier", return_value=None):
        yield


PLANTED_FIRES: dict[str, Planted] = {
    "pause is not heeded": pause_unheeded,
    "skips what is within the grace": _with_grace(lambda _: 0),
    "catch-up without a cap": _with_grace(lambda grace_us: max(grace_us, _NO_CAP_US)),
    "misfire policy is not heeded": _with_policy(lambda timing: replace(timing, misfire=Misfire.LATEST)),
    "catch-up window is not heeded": _with_policy(
        lambda timing: replace(timing, catch_up_window_us=10**6 * timing.catch_up_window_us)
    ),
    "pause forgets what is still due": pause_by_due_time,
    "the end of a job's time is included": end_included,
    "jitter with another salt": another_salt,
    "a herd is not held against what was decided": herds_unjudged,
    "outcome committed before the effect": outcome_first,
    "a round ends inside an instant of a job": instants_cut,
    "an instant of a job is asked for by several tiers": own_tiers,
    "blocked neighbours decide for every version": blocked_for_all,
}
