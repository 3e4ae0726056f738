"""The judge of who is to stop: a good history passes, one with one thing wrong does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.oracle import stops
from tests.oracle.chronicle import Chronicle
from waterclock.model.dag_events import DagStart
from waterclock.model.events import Control, ControlKind, Ended, EventKind, Origin, Pending, RunEvent, Started
from waterclock.model.ids import US_PER_S, job_of_run, make_run_id
from waterclock.model.job import Tier
from waterclock.wire.codec import encode_control, encode_event

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


CANCEL = EventKind.CANCEL_REQUESTED


def events_of(cancelled: str, *more: RunEvent, kind: EventKind = CANCEL) -> list[Raw]:
    """A node and a run are claimed at offsets 3 and 4; then somebody cancels, or the time of a DagRun is over."""
    told = [pending(DAG_RUN, is_dag=True), pending(NODE), pending(RUN)]
    told += [event(EventKind.STARTED, run_id, 1, detail=Started("", 0, 0)) for run_id in (NODE, RUN)]
    told += [event(kind, cancelled, CANCEL_S), *more]
    return [record(offset, (each.at - START) / S, encode_event(each)) for offset, each in enumerate(told)]


def control_of(cancelled: str, stable_s: float = CANCEL_S, kind: EventKind = CANCEL) -> list[Raw]:
    told = Control(ControlKind[kind.value], "t:dag", cancelled, at(CANCEL_S))
    return [record(0, CANCEL_S, encode_control(told)) | {"stable_us": at(stable_s)}]


def in_hand(run_id: str, token: int, **more: Any) -> Raw:
    """From the first second on, for ever, and never asked to stop."""
    row = {"run_id": run_id, "attempt": 1, "token": token, "process": "w#1", "policy": "", "at": at(1), "at_s": 1.0}
    return row | {"asked_at_s": -1, "asked_turns": -1, "gone_turns": -1} | more


TURNS = {"w#1": [(at(1 + turn / 2), 1 + turn / 2) for turn in range(40)]}
"""Two a second; the one before which the cancel came is the eighth."""


def unheard(events: list[Raw], row: Raw, control: list[Raw], **more: Any) -> tuple[list[str], Counter[str]]:
    parts = {"turns": TURNS, "held_up": [], "turns_max": 4} | more
    heard = stops.Heard(in_hand=[row], control=control, **parts)
    complaints, counts = stops.unheard(events, Chronicle(events).ends, heard)
    return complaints, counts


@pytest.mark.parametrize(
    ("kind", "cancelled", "found", "token"),
    [
        (CANCEL, DAG_RUN, NODE, 3),
        (CANCEL, NODE, NODE, 3),
        (CANCEL, RUN, RUN, 4),
        (EventKind.RUN_EXPIRED, DAG_RUN, NODE, 3),
    ],
)
def test_a_cancel_that_does_not_reach_what_runs_is_seen(
    kind: EventKind, cancelled: str, found: str, token: int
) -> None:
    events, control = events_of(cancelled, kind=kind), control_of(cancelled, kind=kind)
    (complaint,), _ = unheard(events, in_hand(found, token), control)
    assert complaint.startswith(f"{found} attempt 1: {kind.value} at 5, ")
    complaints, counts = unheard(events, in_hand(found, token, asked_turns=10), control)
    assert (complaints, sum(n for name, n in counts.items() if name.startswith("cancels that reached"))) == ([], 1)
    late, _ = unheard(events, in_hand(found, token, asked_turns=20), control)
    assert late == [complaint]


def test_what_is_not_cancelled_or_not_running_needs_no_asking() -> None:
    assert unheard(events_of(DAG_RUN), in_hand(RUN, 4), control_of(DAG_RUN)) == ([], Counter())
    assert unheard(events_of(DAG_RUN), in_hand(NODE, 9), control_of(DAG_RUN)) == ([], Counter())
    assert unheard(events_of(RUN, kind=EventKind.RUN_EXPIRED), in_hand(RUN, 4), control_of(RUN)) == ([], Counter())


def test_who_has_ended_or_was_dropped_by_then_needs_no_asking() -> None:
    ended = event(EventKind.ATTEMPT_CANCELLED, NODE, 6, token=3, detail=Ended(0))
    assert unheard(events_of(DAG_RUN, ended), in_hand(NODE, 3), control_of(DAG_RUN))[0] == []
    assert unheard(events_of(DAG_RUN), in_hand(NODE, 3, gone_turns=9), control_of(DAG_RUN))[0] == []


def test_time_in_which_nobody_can_read_the_cancel_does_not_count() -> None:
    events, row = events_of(DAG_RUN), in_hand(NODE, 3, asked_turns=24)
    assert unheard(events, row, control_of(DAG_RUN))[0] != []
    assert unheard(events, row, control_of(DAG_RUN, stable_s=11))[0] == []
    assert unheard(events, row, control_of(DAG_RUN), held_up=[(0, at(4), at(11))])[0] == []
    assert unheard(events, row, control_of(DAG_RUN), held_up=[(1, at(4), at(11))])[0] != []
    assert unheard(events, row, control_of(DAG_RUN), turns_max=20)[0] == []


def test_who_takes_no_turns_asks_nobody() -> None:
    few = {"w#1": TURNS["w#1"][:14]}
    assert unheard(events_of(DAG_RUN), in_hand(NODE, 3), control_of(DAG_RUN), turns=few)[0] == []


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
