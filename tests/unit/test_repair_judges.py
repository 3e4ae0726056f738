"""The judge of what a reconciler did: a history that needed it not passes, each of its deeds is told."""

from __future__ import annotations

from typing import Any

from tests.oracle import repairs
from tests.unit.test_failure_judges import RUN, Log, S, lost_and_retried
from waterclock.model.events import EventKind, Heartbeat, WorkRecord
from waterclock.model.job import Tier
from waterclock.wire.codec import encode_heartbeat, encode_work

WORK = WorkRecord(RUN, 0, 0, 1, "acme:invoice", 1, Tier.HIGH, "default", "calls.async", b"")
QUIET = {0: (6, "fold-from=6")}
BEAT = Heartbeat("worker-1", 3, 0, "waterclock.worker.worker-1", 0, 0, slots=32)


def record(value: bytes) -> dict[str, Any]:
    return {"partition": 0, "offset": 0, "timestamp_us": 0, "key": b"", "value": value}


def judged(log: Log | None = None, **dumps: Any) -> list[str]:
    work = [record(encode_work(WORK)), record(encode_work(WORK._replace(attempt=2)))]
    given = {"work": work, "beats": [record(encode_heartbeat(BEAT))], "told": QUIET} | dumps
    complaints: list[str] = repairs.check((log or lost_and_retried()).chronicle(), **given)[0]
    return complaints


def slow_verdict(after_s: int) -> Log:
    log = Log()
    log.pending()
    first = log.started()
    log.ended(EventKind.ATTEMPT_LOST, first, error="lost")
    log.retrying(2, due_at=4 * S)
    log.records[-1]["timestamp_us"] = log.records[-2]["timestamp_us"] + after_s * S
    return log


def test_a_history_without_repairs_passes() -> None:
    assert judged() == []


def test_work_that_was_handed_out_twice_is_a_repair() -> None:
    work = [record(encode_work(WORK))] * 2
    assert judged(work=work) == [f"{RUN}: work of attempt 1 was handed out 2 times"]


def test_what_the_router_counted_is_told_even_where_nothing_else_shows_it() -> None:
    assert judged(told={0: (6, "fold-from=6"), 1: (9, "fold-from=2 repairs=3")}) == ["partition 1: 3 repairs"]


def test_positions_that_tell_nothing_prove_nothing() -> None:
    assert judged(told={}) == ["no position tells how much was repaired"]
    assert judged(told={0: (6, "fold-from=6"), 1: (9, "")}) == ["partition 1: nothing is told of repairs in ''"]
    assert judged(told={0: (6, "fold-from=6"), 1: (0, "")}) == []


def test_a_run_that_ended_because_its_work_was_gone_is_told() -> None:
    log = Log()
    log.pending()
    log.say(EventKind.RUN_EXPIRED, reason="work-record-gone")
    assert judged(log) == [f"{RUN}: RUN_EXPIRED, work-record-gone"]


def test_a_beat_in_the_name_of_an_unknown_worker_is_told() -> None:
    beat = BEAT._replace(transactional_id="", slots=0, pool="")
    assert judged(beats=[record(encode_heartbeat(beat))]) == ["worker-1: a beat in its name, at 0@0"]


def test_a_verdict_that_came_late_is_told() -> None:
    assert judged(slow_verdict(10)) == []
    assert len(judged(slow_verdict(11))) == 1
    assert judged(slow_verdict(11), hidden_us=5 * S) == []
