"""The judge of who is to stop: a good history passes, one with one thing wrong does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.oracle import stops
from waterclock.model.dag_events import DagStart
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Started
from waterclock.model.ids import US_PER_S, job_of_run, make_run_id
from waterclock.model.job import Tier
from waterclock.wire.codec import encode_event

S = US_PER_S
START = 1_795_000_020 * S
DAG_RUN = make_run_id("t:dag", START)
NODE = make_run_id("t:dag", START, node="n0")
RUN = make_run_id("t:dag", START + S)
CANCEL_S = 5.0
LIMIT = '{"attempt_timeout_us":3000000}'
Raw = dict[str, Any]


def at(at_s: float) -> int:
    return START + round(at_s * S)


def record(offset: int, at_s: float, value: bytes) -> Raw:
    return {"partition": 0, "offset": offset, "timestamp_us": at(at_s), "key": b"t:dag", "value": value}


def event(kind: EventKind, run_id: str, at_s: float, **more: Any) -> RunEvent:
    owner = {"attempt": 1, "worker": "w"} if kind is EventKind.STARTED or more.get("token") else {}
    return RunEvent(kind, job_of_run(run_id), run_id, at(at_s), **(owner | more))


def pending(run_id: str, *, is_dag: bool = False) -> RunEvent:
    detail = Pending(1, START, START, Tier.HIGH, Origin.RELEASE, dag=DagStart() if is_dag else None)
    return event(EventKind.PENDING, run_id, 0, detail=detail)


def events_of(cancelled: str, *more: RunEvent) -> list[Raw]:
    """A node and a run are claimed at offsets 3 and 4; then somebody cancels."""
    told = [pending(DAG_RUN, is_dag=True), pending(NODE), pending(RUN)]
    told += [event(EventKind.STARTED, run_id, 1, detail=Started("", 0, 0)) for run_id in (NODE, RUN)]
    told += [event(EventKind.CANCEL_REQUESTED, cancelled, CANCEL_S), *more]
    return [record(offset, (each.at - START) / S, encode_event(each)) for offset, each in enumerate(told)]


def in_hand(run_id: str, token: int, **more: Any) -> Raw:
    """From the first second on, for ever, and never asked to stop."""
    row = {"run_id": run_id, "attempt": 1, "token": token, "process": "w#1", "policy": "", "at": at(1), "at_s": 1.0}
    return row | {"asked_at_s": -1, "asked_turns": -1, "gone_turns": -1} | more


TURNS = {"w#1": [(at(1 + turn / 2), 1 + turn / 2) for turn in range(40)]}
"""Two a second; the one before which the cancel came is the eighth."""


def test_an_attempt_that_goes_on_over_its_time_is_seen() -> None:
    """Its time is over at the turn of 4 s, the seventh: it is asked in that one, or in the next."""
    (complaint,), _ = stops.overdue([in_hand(RUN, 4, policy=LIMIT)], TURNS)
    assert complaint.startswith(f"{RUN} attempt 1: 3.500 s in the hands of w#1, of 3 s")
    assert stops.overdue([in_hand(RUN, 4, policy=LIMIT, asked_turns=8)], TURNS)[0] != []
    assert stops.overdue([in_hand(RUN, 4, policy=LIMIT, asked_turns=7)], TURNS) == (
        [],
        Counter({"attempts over their time": 1}),
    )
    for good in (in_hand(RUN, 4, policy=LIMIT, gone_turns=7), in_hand(RUN, 4), in_hand(RUN, 4, policy="{}")):
        assert stops.overdue([good], TURNS)[0] == []
    assert stops.overdue([in_hand(RUN, 4, policy=LIMIT)], {"w#1": TURNS["w#1"][:7]})[0] == []


@pytest.mark.parametrize(
    ("row", "is_good"),
    [
        (in_hand(RUN, 4, policy=LIMIT, asked_turns=7, asked_at_s=4.0), True),
        (in_hand(RUN, 4, policy=LIMIT, asked_turns=5, asked_at_s=3.5), False),
        (in_hand(RUN, 4, policy=LIMIT), False),
        (in_hand(RUN, 4, asked_turns=7, asked_at_s=4.0), False),
        (in_hand(RUN, 5, policy=LIMIT, asked_turns=7, asked_at_s=4.0), False),
    ],
)
def test_who_is_said_to_have_timed_out_had_its_time(row: Raw, is_good: bool) -> None:
    said = Ended(0, "timed-out", "the attempt did not end within 3 s: ended by Stopped")
    events = events_of(DAG_RUN, event(EventKind.ATTEMPT_TIMED_OUT, RUN, 6, token=4, detail=said))
    assert (stops.timed_out(events, [row])[0] == []) is is_good
    by_itself = Ended(0, "timed-out", "it took too long")
    events = events_of(DAG_RUN, event(EventKind.ATTEMPT_TIMED_OUT, RUN, 6, token=4, detail=by_itself))
    assert stops.timed_out(events, [row])[0] == []
