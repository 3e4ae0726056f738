"""The judges of what waits: who is served, let go and ended in time passes; what is left to wait has its name."""

from __future__ import annotations

from typing import Any

from tests.oracle import late_acts, letting_go, passed_over
from tests.oracle.chronicle import Chronicle
from waterclock.model.events import EventKind, Origin, Pending, RunEvent, Started, WorkRecord
from waterclock.model.job import Tier
from waterclock.wire.codec import encode_event, encode_work

S = 1_000_000
JOB = "acme:invoice"
Record = dict[str, Any]


def event(at_s: float, kind: EventKind, run: str, attempt: int = 0, **more: Any) -> Record:
    at = round(at_s * S)
    value = encode_event(RunEvent(kind, JOB, f"{JOB}@{run}", at, attempt, **more))
    return {"partition": 0, "offset": at, "timestamp_us": at, "value": value}


def begun(at_s: float, run: str, topic: str, offset: int = 0, worker: str = "w") -> Record:
    return event(at_s, EventKind.STARTED, run, 1, worker=worker, detail=Started(topic, 0, offset))


def made(at_s: float, run: str, **more: Any) -> Record:
    return event(at_s, EventKind.PENDING, run, detail=Pending(1, 0, None, Tier.LOW, Origin.TRIGGER, **more))


def work(at_s: float, run: str, topic: str) -> Record:
    value = encode_work(WorkRecord(f"{JOB}@{run}", 0, 0, 1, JOB, 1, Tier.LOW, "default", "h", b""))
    return {"topic": topic, "partition": 0, "offset": 0, "timestamp_us": round(at_s * S), "value": value}


LOW, HIGH = "waterclock.runs.low", "waterclock.runs.high"


def test_a_tier_of_which_nothing_begins_while_much_of_others_does_is_passed_over() -> None:
    waits = [work(0, "low", LOW)]
    high = [begun(at, f"high{at}", HIGH, at) for at in range(1, 70)]
    soon, late = begun(30.5, "low", LOW), begun(75, "low", LOW)
    assert passed_over.check([*high, soon], waits, 0)[0] == []
    (wrong,) = passed_over.check([*high, late], waits, 0)[0]
    assert wrong == f"{JOB}@low: waits on {LOW} while w begins 69 of other tiers, none of its own"


def test_nobody_is_passed_over_by_another_worker_before_the_heal_or_where_a_tool_took_the_work() -> None:
    waits, late = [work(0, "low", LOW)], begun(75, "low", LOW)
    high = [begun(at, f"high{at}", HIGH, at) for at in range(1, 70)]
    elsewhere = [begun(at, f"high{at}", HIGH, at, "another") for at in range(1, 70)]
    assert passed_over.check([*elsewhere, late], waits, 0)[0] == []
    assert passed_over.check([*high, late], waits, 60 * S)[0] == []
    assert passed_over.check([*high, late], waits, 0, [(LOW, 0, 0, 1)])[0] == []


def test_nobody_is_passed_over_by_who_was_given_the_partition_just_now() -> None:
    waits, late = [work(0, "low", LOW)], begun(75, "low", LOW)
    high = [begun(at, f"high{at}", HIGH, at) for at in range(1, 70)]
    given = [(LOW, 0, "w", 60 * S), (LOW, 1, "w", 70 * S), (LOW, 0, "another", 72 * S), (LOW, 0, "w", 80 * S)]
    assert passed_over.check([*high, late], waits, 0, (), given)[0] == []
    assert passed_over.check([*high, late], waits, 0, (), [(LOW, 0, "w", 5 * S), *given[1:]])[0] != []


def over_its_time(ended: Record) -> list[str]:
    others = [made(at, f"other{at}") for at in range(1, 30)]
    records = sorted([made(0, "late", queue_timeout_us=5 * S), *others, ended], key=lambda each: each["offset"])
    return late_acts.expiries(Chronicle(records), records, 0, 8 * S)[0]


def test_who_waits_beyond_its_time_is_ended_before_much_else_goes_on() -> None:
    assert over_its_time(event(8.5, EventKind.RUN_EXPIRED, "late", reason="expired")) == []
    assert over_its_time(begun(4.5, "late", LOW)) == []
    for ended in (event(20.5, EventKind.RUN_EXPIRED, "late", reason="expired"), begun(20.5, "late", LOW)):
        (wrong,) = over_its_time(ended)
        assert wrong.startswith(f"{JOB}@late: over its time at {5 * S}, ")


def test_a_sleep_of_the_world_is_not_late() -> None:
    records = [made(0, "late", queue_timeout_us=5 * S), made(6, "before"), made(3_600, "behind")]
    records.append(event(3_601, EventKind.RUN_EXPIRED, "late", reason="expired"))
    assert late_acts.expiries(Chronicle(records), records, 0, 8 * S)[0] == []


class Job:
    """One as the judge of limits has it: a run waits, and one may be open."""

    def __init__(self, open_runs: dict[str, None], *, paused: bool = False, unlimited: tuple[str, ...] = ()) -> None:
        spec = {"concurrency": '{"overlap":"buffer_all"}'}
        self.newest = type("Version", (), {"status": "ACTIVE", "spec": spec})
        self.held = {"waits": None}
        self.people: set[str] = set()
        self.open = open_runs
        self.alive = set(open_runs) | set(unlimited)
        self._paused = paused

    def is_paused(self, _at: int) -> bool:
        return self._paused


def let_go_after(seconds: int, *, paused: bool = False, unlimited: tuple[str, ...] = ()) -> list[str]:
    acts = late_acts.Acts(late_acts.BY_THE_OWNER)
    room = letting_go.Room(acts, 0, 10 * S)
    found = [*room.look(Job({"open": None}), made(0, "first"))]
    found += room.look(Job({}, paused=paused, unlimited=unlimited), made(1, "ended"))
    for at in range(2, seconds):
        acts.note(made(at, "another"), {"kind": "PENDING", "run_id": "x"})
    job = Job({})
    job.held = {}
    return [*found, *room.look(job, made(seconds, "goes"))]


def test_who_waits_is_let_go_once_there_is_room() -> None:
    assert let_go_after(8) == []
    assert let_go_after(30) == ["waits: there was room for it, and its owner did other things for 27000000 us"]
    assert let_go_after(30, paused=True) == []
    assert let_go_after(30, unlimited=("older",)) == []
