"""The judge of what has expired (I6): whose time is over passes, whose time is not is told, whatever it waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.oracle import verdicts
from tests.unit.test_failure_judges import RUN, Log, S
from waterclock.model.events import EventKind, Origin, Pending
from waterclock.model.job import Tier

QUEUE, WHOLE = {"queue_timeout_us": 3 * S}, {"run_timeout_us": 4 * S}


class Waiting(Log):
    """A trigger that was asked for at once, and may be held for others first. Nothing but expiries is judged."""

    def made(self, at_s: int = 0, origin: Origin = Origin.TRIGGER, **limits: int) -> None:
        self.until(at_s)
        self.say(EventKind.PENDING, detail=Pending(1, 0, None, Tier.HIGH, origin)._replace(**limits))

    def held(self, **limits: int) -> None:
        self.say(EventKind.HELD, reason="overlap", detail=Pending(1, 0, None, Tier.HIGH, Origin.TRIGGER, **limits))

    def expired(self, at_s: int, reason: str = "expired") -> list[str]:
        self.until(at_s)
        self.say(EventKind.RUN_EXPIRED, reason=reason)
        return self.complaints()

    def failed(self, at_s: int) -> None:
        """Its first attempt has."""
        self.ended(EventKind.ATTEMPT_FAILED, self.started(), error="ValueError")
        self.until(at_s)

    def until(self, at_s: int) -> None:
        """A second goes by with each event: others stand between."""
        for number in range(len(self.records), at_s):
            self.say(EventKind.CANCEL_REQUESTED, f"acme:other@{number}")

    def complaints(self, **policy: Any) -> list[str]:
        made = SimpleNamespace(policy=policy, at_most_once=False)
        found: list[str] = verdicts.check(self.chronicle(), meant={RUN: made})[0]
        return found


@pytest.mark.parametrize(
    ("origin", "made_s", "limits", "over_s"),
    [
        (Origin.TRIGGER, 0, QUEUE, 3),
        (Origin.TRIGGER, 2, QUEUE, 5),
        (Origin.TRIGGER, 2, WHOLE, 4),
        (Origin.TRIGGER, 2, QUEUE | WHOLE, 4),
        (Origin.SCHEDULE, 2, WHOLE, 6),
        (Origin.REDRIVE, 2, WHOLE, 6),
        (Origin.BACKFILL, 2, QUEUE | WHOLE, 5),
    ],
)
def test_who_waits_expires_when_its_time_is_over_and_not_before(
    origin: Origin, made_s: int, limits: dict[str, int], over_s: int
) -> None:
    for at_s in (over_s - 1, over_s):
        log = Waiting()
        log.made(made_s, origin, **limits)
        assert bool(log.expired(at_s)) == (at_s < over_s)


def test_the_time_of_a_run_that_was_held_counts_from_when_it_went_out() -> None:
    for at_s, told in ((7, [f"{RUN}: expired at 7000000, and its time is over at 9000000 "]), (9, [])):
        log = Waiting()
        log.held(**WHOLE)
        log.made(5, **WHOLE)
        assert [each.partition("(")[0] for each in log.expired(at_s)] == told


def test_a_run_without_a_limit_and_one_that_is_held_do_not_expire() -> None:
    log = Waiting()
    log.made()
    assert log.expired(9) == [f"{RUN}: expired at 9000000, and it has no limit"]
    log = Waiting()
    log.held(**WHOLE)
    assert log.expired(9) == [f"{RUN}: expired at 9000000, and it has no limit"]


def test_a_retry_waits_for_a_worker_from_when_it_is_due() -> None:
    for at_s in (8, 9):
        log = Waiting()
        log.made(**QUEUE)
        log.failed(3)
        log.retrying(2, due_at=6 * S)
        assert any("expired at" in each for each in log.expired(at_s)) == (at_s < 9)


@pytest.mark.parametrize("jitter", [False, True])
def test_no_retry_is_refused_that_could_begin_in_time(*, jitter: bool) -> None:
    """With jitter the wait is the longest that may be: a run that expires beside a shorter one is not told."""
    policy = {"run_timeout_us": 8 * S, "jitter": jitter, "delays_us": [2 * S]}
    for at_s in (5, 6):
        log = Waiting()
        log.made(run_timeout_us=8 * S)
        log.failed(at_s)
        log.say(EventKind.RUN_FAILED, attempt=1, reason="expired")
        assert bool(log.complaints(**policy)) == (at_s < 6)


def test_what_was_handed_back_would_begin_at_once() -> None:
    for at_s in (7, 8):
        log = Waiting()
        log.made(run_timeout_us=8 * S)
        log.ended(EventKind.ATTEMPT_FAILED, log.started(), error="drained")
        log.until(at_s)
        log.say(EventKind.RUN_FAILED, attempt=1, reason="expired")
        assert bool(log.complaints(run_timeout_us=8 * S)) == (at_s < 8)
