"""Stopping attempts: first asked, then forced, and what their outcome is then.

Three reasons: the run was cancelled, its time is over, or this worker is shutting down. What must hold:

* an attempt is asked first and forced ``grace_s`` later; the first reason counts;
* what comes back as succeeded has succeeded: the work is done. Any other end of an attempt that was asked is the
  outcome of the reason: cancelled, timed out, or handed back (failed with the class ``drained``: it costs no attempt).
  A program that was sent SIGTERM never comes back as succeeded: exit code 0 may say that it heeded the signal;
* what does not end by force either (a sync handler, a task that swallows its cancellation) is given up ``_FORCED_S``
  later: a cancelled or timed-out attempt gets its outcome all the same, and its worker slot stays taken until its code
  has ended. It is *never* handed back: another attempt would run beside it. It stays open, and is lost with its lease;
* a run that is called at most once is not handed back once it has begun: nobody knows what it did. One that came back
  and says that it had not is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from waterclock.clock import Clock
from waterclock.model.events import DRAINED, Outcome
from waterclock.model.ids import US_PER_S

from .executors import ending
from .executors.port import Attempt, EndedAttempt, Executors

OUTCOME_UNKNOWN = "outcome-unknown"

_FORCED_S = 1.0


class Why(Enum):
    """Why an attempt is stopped."""

    CANCELLED = "cancelled"
    DAG_RUN_OVER = "the time of its DagRun is over"
    TIMED_OUT = "timed out"
    DRAINED = "handed back"
    NOT_OURS = "not accepted"
    """Its claim does not count: it is stopped, and nothing is said about it."""


@dataclass(slots=True)
class _Stop:
    why: Why
    force_at_s: float
    is_forced: bool = False


class Stops:
    """What was asked to stop and has not ended."""

    def __init__(self, executors: Executors, clock: Clock, grace_s: float) -> None:
        self._executors = executors
        self._clock = clock
        self._grace_s = grace_s
        self._stops: dict[Attempt, _Stop] = {}

    def ask(self, attempts: Iterable[Attempt], why: Why, grace_s: float | None = None) -> None:
        """Ask these to stop, and force them after the grace (``grace_s``: another one than usual)."""
        force_at_s = self._clock.monotonic_s() + (self._grace_s if grace_s is None else grace_s)
        asked = []
        for attempt in attempts:
            known = self._stops.get(attempt)
            if known is None:
                self._stops[attempt] = _Stop(why, force_at_s)
                asked.append(attempt)
            elif not known.is_forced:
                known.force_at_s = min(known.force_at_s, force_at_s)
        if asked:
            self._executors.ask(asked)

    def tick(self) -> list[Attempt]:
        """Force those whose grace is over; answers those that would not end by force either, once each."""
        if not self._stops:
            return []
        now_s = self._clock.monotonic_s()
        due = [(attempt, stop) for attempt, stop in self._stops.items() if stop.force_at_s <= now_s]
        forced, deaf = [], []
        for attempt, stop in due:
            if stop.is_forced:
                stop.force_at_s = float("inf")
                deaf.append(attempt)
            else:
                stop.is_forced, stop.force_at_s = True, now_s + _FORCED_S
                forced.append(attempt)
        if forced:
            self._executors.force(forced)
        return deaf

    def ended(self, ends: list[EndedAttempt]) -> list[EndedAttempt]:
        """These came back: with the outcome of their reason where they were asked. Forgets them."""
        return [self._judged(end) for end in ends] if self._stops else ends

    def outcome_of(self, attempt: Attempt) -> EndedAttempt | None:
        """The outcome of one that does not end; None where nothing may be said while its code runs on."""
        stop = self._stops.get(attempt)
        if stop is None or stop.why in {Why.DRAINED, Why.NOT_OURS}:
            return None
        return stopped(attempt, stop.why, "its code did not stop and runs on")

    def drop(self, attempt: Attempt) -> None:
        """Nobody waits for its end any more."""
        self._stops.pop(attempt, None)

    def clear(self) -> None:
        """Forget all."""
        self._stops.clear()

    def _judged(self, end: EndedAttempt) -> EndedAttempt:
        stop = self._stops.pop(end.attempt, None)
        if stop is None or end.outcome is Outcome.SUCCEEDED:
            return end
        return stopped(end.attempt, stop.why, f"ended by {end.error_class}" if end.error_class else "", end)


def stopped(attempt: Attempt, why: Why, detail: str = "", end: EndedAttempt | None = None) -> EndedAttempt:
    """The outcome of an attempt that was stopped. ``end``: how it came back, where it did."""
    message, trace = _MESSAGES[why].format(timeout_s=attempt.timeout_us / US_PER_S), ""
    if detail:
        message = f"{message}: {detail}"
    if end is not None:
        message, trace = f"{message}: {end.error_message}" if end.error_message else message, end.error_trace
    outcome, error_class = _OUTCOMES[why]
    if why is Why.DRAINED and attempt.work.at_most_once and end is not None and end.has_begun:
        error_class = OUTCOME_UNKNOWN
    return EndedAttempt(attempt, outcome, error_class, ending.cut(message, ending.MESSAGE_MAX_BYTES), trace)


_OUTCOMES = {
    Why.CANCELLED: (Outcome.CANCELLED, "cancelled"),
    Why.DAG_RUN_OVER: (Outcome.CANCELLED, "cancelled"),
    Why.TIMED_OUT: (Outcome.TIMED_OUT, ending.TIMED_OUT),
    Why.DRAINED: (Outcome.FAILED, DRAINED),
    Why.NOT_OURS: (Outcome.CANCELLED, "not-accepted"),
}
_MESSAGES = {
    Why.CANCELLED: "the run was cancelled",
    Why.DAG_RUN_OVER: "the time of its DagRun is over",
    Why.TIMED_OUT: "the attempt did not end within {timeout_s:g} s",
    Why.DRAINED: "the worker is shutting down and hands it back",
    Why.NOT_OURS: "its claim was not accepted",
}
