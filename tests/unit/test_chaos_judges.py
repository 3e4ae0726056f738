"""What only chaos judges: whether its faults happened, how far a clock was off, who was hit, and H."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.excuses import LateEnd
from tests.acceptance.real_stack import stamped_by_the_broker
from tests.chaos import happened, judging, keeping
from tests.chaos.clock_windows import TRUE_US, Window, early_us_at, felt, windows
from tests.chaos.coming_to_rest import differ
from tests.chaos.deeds import Deed
from tests.chaos.director import CLOCK_HEALED
from tests.chaos.recovery import killed_inside
from tests.unit.rest_world import GOOD, MS, Heard, S, T, Told, at_rest, record, told, whole
from waterclock.model.events import EventKind, Lease, LeaseKind
from waterclock.wire.codec import encode_lease
from waterclock.wire.names import Names, topic_specs

# The clock ------------------------------------------------------------------------------------------------------------

JUMPS = [
    Deed(10 * S, "clock", "dispatcher-2", "+12.5"),
    Deed(20 * S, CLOCK_HEALED, "dispatcher-2"),
    Deed(100 * S, "clock", "dispatcher-2", "-300.0"),
    Deed(110 * S, CLOCK_HEALED, "dispatcher-2"),
]


def test_a_run_may_be_early_only_where_a_clock_was_ahead_when_it_was_made() -> None:
    allowed = early_us_at(windows(JUMPS))
    assert [allowed(at * S) for at in (9, 10, 21, 31, 32)] == [
        TRUE_US,
        TRUE_US + 12_500_000,
        TRUE_US + 12_500_000,
        TRUE_US + 12_500_000,
        TRUE_US,
    ]
    assert allowed(105 * S) == TRUE_US
    assert early_us_at([])(0) == TRUE_US


def test_a_jump_shows_in_the_time_that_an_event_bears() -> None:
    off = [Window(10 * S, 20 * S, 12 * S), Window(100 * S, 110 * S, -300 * S)]
    assert felt(off, [(15 * S, {"at": 27 * S})]) == 1
    assert felt(off, [(15 * S, {"at": 15 * S}), (30 * S, {"at": 42 * S})]) == 0
    assert felt(off, [(15 * S, {"at": 26 * S}), (101 * S, {"at": -199 * S})]) == 2


# What happened --------------------------------------------------------------------------------------------------------


def test_a_fault_of_the_network_counts_with_a_connection_to_happen_to() -> None:
    notes: dict[str, list[dict[str, Any]]] = {
        "kafka": [
            {"listening": 1},
            {"obeyed": {"cut": True}, "connections": 0},
            {"obeyed": {"cut": True}, "connections": 3},
            {"obeyed": {"delay": 0.1}, "connections": 3},
            {"obeyed": {"delay": 0.0}, "connections": 3},
            {"obeyed": {"stop": "answers"}, "connections": 1},
            {"obeyed": {"go": "answers", "cut": True}, "connections": 1},
            {"arrived": "waterclock.worker.worker-1", "broker_gone": True},
            {"arrived": "waterclock.worker.worker-1", "broker_gone": False},
            {"landed": "waterclock.worker.worker-1", "error": 47},
        ],
        "cassandra": [{"obeyed": {"stop": "requests"}, "connections": 0}],
    }
    counts = happened.of_network(notes)
    assert counts == {"cut": 1, "delay": 1, "one-way": 1, "late-endtxn": 1, "late-endtxn accepted": 0}


def fenced(worker: str, at: int) -> dict[str, Any]:
    return record(9, at, encode_lease(Lease(LeaseKind.FENCED, worker, at)))


SLEPT = [Deed(10 * S, "stop", "worker-1", "long"), Deed(25 * S, "return", "worker-1", "woken")]


@pytest.mark.parametrize(
    ("deeds", "lease", "count"),
    [
        (SLEPT, fenced("worker-1", 20 * S), 1),
        (SLEPT, fenced("worker-2", 20 * S), 0),
        (SLEPT, fenced("worker-1", 30 * S), 0),
        ([SLEPT[0], Deed(21 * S, "kill", "worker-1"), SLEPT[1]], fenced("worker-1", 20 * S), 0),
        (SLEPT[:1], fenced("worker-1", 20 * S), 0),
    ],
)
def test_a_zombie_was_fenced_in_its_sleep_and_woke(deeds: list[Deed], lease: dict[str, Any], count: int) -> None:
    assert happened.fenced_asleep([lease], deeds) == count


def test_what_did_not_happen_is_told() -> None:
    found = at_rest(whole())
    deeds = [
        Deed(T, "kill", "worker-1", "at any time"),
        Deed(T, "cut", "kafka"),
        Deed(T, "clock", "dispatcher-2", "+9.0"),
    ]
    wanted = {"kill": 1, "cut": 1, "clock": 1, happened.LOST: 1, happened.IGNORED: 1, happened.CROSSED: 1}
    roles = {"worker-1": "workers", "api-1": "api"}
    happened.judge_happened(found, happened.Told(deeds, {"kafka": []}), wanted, {"full-disk"}, roles)
    assert isinstance(found.evidence, Heard)
    assert [each.splitlines()[0] for each in found.evidence.told] == [
        "1 roles that were never killed:",
        "0 times cut, wanted 1",
        "0 times clock, wanted 1",
        "0 times attempt lost, wanted 1",
    ]


# Kills ----------------------------------------------------------------------------------------------------------------


def test_a_kill_was_inside_a_transaction_only_where_the_killed_ones_own_records_were_left() -> None:
    log = Told()
    log.pending(GOOD, 10 * S)
    log.started(GOOD, 20 * S)
    log.say(EventKind.RETRYING, GOOD, 30 * S, 2)

    def inside(target: str, at: int, kind: str = "kill") -> bool:
        return bool(killed_inside([Deed(at, kind, target)], log.records))

    assert inside("worker-1", 21 * S)
    assert inside("dispatcher-2", 10 * S + 5 * MS)
    assert inside("retry-router-1", 31 * S)
    assert inside("kafka", 21 * S, "kill-kafka")
    assert not inside("worker-2", 21 * S)
    assert not inside("recorder-1", 21 * S)
    assert not inside("worker-1", 11 * S)
    assert not inside("worker-1", 23 * S)


# What a client was told -----------------------------------------------------------------------------------------------


def order(door: str, result: str, **more: Any) -> dict[str, Any]:
    answer = {"partition": 0, "offset": 0} if door == "job-events" else {}
    base = {"op": "create", "door": door, "job": "acme:none", "key": "", "run_id": "", "t0": 1, "t1": 2, "tries": 2}
    return {**base, "result": result, "status": 200, "answer": answer, **more}


def heard(history: list[dict[str, Any]]) -> list[str]:
    found = at_rest(whole())
    judging.judge_history(found, history)
    assert isinstance(found.evidence, Heard)
    return [complaint for complaint in found.evidence.told if "complaints about" not in complaint]


def test_each_door_must_have_said_yes_to_half_of_what_it_was_asked() -> None:
    good = [order("api", "ok"), order("job-events", "ok")]
    assert heard(good) == []
    # Together they would still be half.
    uneven = [*good, *good, *[order("api", "ok")] * 2, *[order("job-events", "fail")] * 3]
    assert heard(uneven) == ["2 of 5 orders by job-events were answered with yes"]
    assert heard(good[:1]) == ["0 of 0 orders by job-events were answered with yes"]


def test_only_an_end_that_the_broker_accepted_excuses_anything() -> None:
    notes = [
        {"at": 5, "landed": "waterclock.worker.worker-1", "error": 0},
        {"at": 6, "landed": "waterclock.worker.worker-1", "error": 47},
        {"at": 7, "arrived": "waterclock.worker.worker-1", "broker_gone": False},
    ]
    assert judging.excuses([], notes).late_ends == [LateEnd(5, "waterclock.worker.worker-1")]


def test_topics_whose_records_are_held_against_each_other_are_stamped_by_the_broker() -> None:
    names = Names("waterclock")
    specs = stamped_by_the_broker(names, topic_specs(names, 4))
    stamped = {spec.name for spec in specs if spec.config.get("message.timestamp.type") == "LogAppendTime"}
    assert stamped == {names.commands, names.run_events, names.control, names.leases}
    assert [spec.name for spec in specs] == [spec.name for spec in topic_specs(names, 4)]


def test_what_came_went_or_changed_within_a_minute_is_told() -> None:
    first = {"commands[0]@1": b"a", "commands[0]@2": b"b", "job x": 1}
    assert differ(first, dict(first)) == []
    other = {"commands[0]@1": b"z", "commands[0]@3": b"b", "job x": 1}
    assert [each.partition(": ")[0] for each in differ(first, other)] == [
        "commands[0]@1",
        "commands[0]@2",
        "commands[0]@3",
    ]


def test_the_made_up_history_has_what_a_play_has_to_show() -> None:
    counts = happened.effects(at_rest(whole(told())), [])
    assert (counts[happened.IGNORED], counts[happened.CROSSED], counts[happened.LOST]) == (1, 1, 0)


def test_what_was_kept_is_judged_as_it_was(tmp_path: Path) -> None:
    emitted = record(0, T, b"\x00", headers=[("ce_id", b"x/out/0")])
    taken = whole(outputs=[emitted], rejects=[], beats=[])
    plain = ("events", "commands", "job_events", "rejects", "control", "leases", "beats", "dlq", "work", "outputs")
    kept: dict[str, Any] = {name: getattr(taken, name) for name in plain}
    kept |= {f"table-{table}": lines for table, lines in taken.rows.items()}
    kept["behind"] = [{"topic": topic, "partition": at, "offset": o} for (topic, at), o in taken.behind.items()]
    kept["told"] = [{"partition": at, "offset": o, "text": text} for at, (o, text) in taken.told.items()]
    for name, lines in kept.items():
        keeping.write(tmp_path / f"{name}.jsonl", lines)
    ledger = tmp_path / "sink"
    keeping.write(ledger, taken.ledger)
    back = keeping.load(tmp_path, ledger)
    assert [record["headers"] for record in back.outputs] == [[["ce_id", b"x/out/0"]]]
    assert back._replace(outputs=()) == taken._replace(outputs=())
