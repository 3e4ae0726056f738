"""Records that have to come together, with one another or with ends of runs: what the intake tells, what is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.oracle import sources as sources_judge
from tests.unit.dispatcher_world import raw
from tests.unit.test_topic_listener import NAMES, ORDERS, PLACED
from tests.unit.test_topic_listener import World as Listening
from tests.unit.test_triggers_windows import ALL, JOB, LOAD, WITHIN_US, Windows
from waterclock.model.document import PAYLOAD_MAX, spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.events import EventKind
from waterclock.model.job import NEVER, CommandKind, JobSpec, Tier
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.triggers import Condition, JobTriggers, RecordComes, RunEnds, Triggers
from waterclock.model.triggers_document import check_triggers
from waterclock.wire import codec
from waterclock.wire.messages import job_triggers_message

RETURNED = (("type", "returned"),)
VALUE = b'{"type": "placed"}'
MIXED = (RunEnds("load"), RecordComes(ORDERS, PLACED))
BOTH_KINDS = (RecordComes(ORDERS, PLACED), RecordComes(ORDERS, RETURNED))


def waiting(*conditions: Condition, wants_all: bool = True) -> JobSpec:
    return JobSpec("demo.noop", NEVER, payload=b"own", on=Triggers(conditions, (), WITHIN_US, wants_all))


class Records(Windows):
    """A dispatcher whose job waits for records, and a hand that tells it of them as the intake does."""

    offset = 0

    def came(self, headers: tuple[tuple[str, str], ...] = PLACED, wait_s: float = 0.5, **more: Any) -> str:
        self.offset += 1
        source = f"{ORDERS}/1/{self.offset}"
        more = {"command_id": f"record/i/1/{self.offset}", "headers": headers, "gathers": True, "payload": VALUE} | more
        self.command(CommandKind.TRIGGER, JOB, triggered_by=source, **more)
        self.run(wait_s)
        return source

    def payloads(self) -> list[bytes]:
        works = [codec.decode_work(record.value) for record in self.records(NAMES.runs(Tier.MEDIUM))]  # type: ignore[attr-defined]
        return [work.payload for work in works]


def test_a_record_and_an_end_that_come_together_make_one_run_with_the_jobs_own_payload() -> None:
    world = Records(waiting(*MIXED))
    world.ended(LOAD, hops=3)
    assert world.made() == []
    record = world.came()
    assert (world.made(), world.payloads()) == ([(record, 3)], [b"own"])
    world.run(12)
    assert (world.skipped(), world.judged()) == ([], [])


def test_a_record_alone_lapses_and_the_skip_names_what_was_missing() -> None:
    world = Records(waiting(*BOTH_KINDS))
    world.came()
    world.run(12)
    assert (world.made(), world.skipped()) == ([], [("window", f"{ORDERS} type=returned")])
    assert world.judged() == []


def test_a_record_that_meets_two_conditions_counts_for_both() -> None:
    world = Records(waiting(RecordComes(ORDERS), RecordComes(ORDERS, PLACED), RunEnds("load")))
    world.came()
    last = world.ended(LOAD)
    assert (world.made(), world.judged()) == ([(last, 1)], [])


def test_of_many_records_in_a_window_one_run_is_made_when_it_is_over() -> None:
    world = Records(waiting(RecordComes(ORDERS, PLACED), wants_all=False))
    records = [world.came(wait_s=0.2) for _ in range(20)]
    assert world.made() == []
    world.run(11)
    assert (world.made(), world.skipped(), world.judged()) == ([(records[-1], 0)], [], [])


@pytest.mark.parametrize("wants_all", [True, False])
def test_a_record_in_half_a_window_goes_on_with_the_next_owner(*, wants_all: bool) -> None:
    world = Records(waiting(*MIXED, wants_all=wants_all))
    record = world.came()
    world.crash()
    world.run(1)
    last = world.ended(LOAD) if wants_all else record
    world.run(12)
    assert ([source for source, _ in world.made()], world.judged()) == ([last], [])


def test_a_record_that_is_told_twice_has_its_part_once() -> None:
    world = Records(waiting(*MIXED))
    world.came()
    world.ended(LOAD)
    world.came(command_id="record/i/1/1")
    world.ended(LOAD)
    assert len(world.made()) == 1


@pytest.mark.parametrize(
    ("headers", "conditions"),
    [
        (RETURNED, MIXED),  # it has another header by now
        ((), MIXED),
        (PLACED, (RunEnds("load"), RecordComes("elsewhere", PLACED))),
        (PLACED, ALL.on.conditions if ALL.on else ()),
    ],
)
def test_a_record_that_nobody_waits_for_any_more_is_refused(
    headers: tuple[tuple[str, str], ...], conditions: tuple[Condition, ...]
) -> None:
    world = Records(waiting(*conditions))
    world.came(headers)
    (refused,) = world.records(NAMES.rejects)
    reject = codec.decode_reject(refused.value)  # type: ignore[attr-defined]
    assert (reject.pointer, "any more" in reject.reason) == ("/triggered_by", True)
    assert (world.made(), world.judged()) == ([], [])


def test_a_record_cannot_bring_hops_of_its_own() -> None:
    world = Records(waiting(*MIXED))
    world.came(hops=7)
    last = world.ended(LOAD, hops=2)
    assert world.made() == [(last, 2)]


def test_a_paused_job_leaves_out_what_records_completed() -> None:
    world = Records(waiting(*MIXED))
    world.ended(LOAD)
    world.command(CommandKind.PAUSE, JOB)
    world.came()
    assert ([reason for reason, _ in world.skipped()], world.made(), world.judged()) == (["paused"], [], [])


def test_an_edit_of_what_records_are_waited_for_ends_the_window() -> None:
    world = Records(waiting(*MIXED))
    world.came()
    world.command(CommandKind.UPDATE, JOB, waiting(RunEnds("load"), RecordComes(ORDERS, RETURNED)))
    world.run(1)
    assert (world.skipped(), world.judged()) == ([("window", "its conditions changed")], [])


@pytest.mark.parametrize(
    ("after", "made"),
    [
        (RecordComes(ORDERS, PLACED), [VALUE]),  # it waits for it still, and for nothing else
        (RecordComes(ORDERS, RETURNED), []),
        (RunEnds("load"), []),
    ],
)
def test_what_was_told_for_a_window_that_is_gone_makes_a_run_only_if_it_is_waited_for(
    after: Condition, made: list[bytes]
) -> None:
    world = Records(waiting(*MIXED))
    world.command(CommandKind.UPDATE, JOB, replace(waiting(after), on=Triggers((after,))))
    world.came()
    assert world.payloads() == made
    assert len(world.records(NAMES.rejects)) == (not made)
    assert world.judged() == []


def test_an_end_that_was_told_for_a_window_that_is_gone_makes_no_run_unless_it_is_waited_for() -> None:
    world = Records(waiting(*MIXED))
    world.command(CommandKind.UPDATE, JOB, replace(waiting(*MIXED), on=Triggers((RecordComes(ORDERS, PLACED),))))
    world.ended(LOAD)
    assert (world.made(), len(world.records(NAMES.rejects)), world.judged()) == ([], 1, [])


def test_a_record_that_is_told_again_after_an_edit_is_the_same_record() -> None:
    world = Records(waiting(*MIXED))
    world.command(CommandKind.UPDATE, JOB, replace(waiting(*MIXED), on=Triggers((RecordComes(ORDERS, PLACED),))))
    world.came(gathers=False)
    world.command(CommandKind.UPDATE, JOB, waiting(RecordComes(ORDERS), RunEnds("load")))
    world.offset = 0
    world.came(headers=())
    assert (len(world.made()), world.records(NAMES.rejects)) == (1, [])


# What the intake tells ---------------------------------------------------------------------------------------------


def listening(on: Triggers, job_id: str = JOB) -> Listening:
    world = Listening()
    since = (world.clock.now(),) * len(on.conditions)
    world.append(job_triggers_message(NAMES, JobTriggers(job_id, 7, 1, replace(on, since=since))))
    return world


def test_the_intake_tells_which_headers_were_asked_for_and_no_others() -> None:
    on = waiting(*BOTH_KINDS, RecordComes(ORDERS, (("region", "eu"),)), RunEnds("load")).on
    assert on is not None
    world = listening(on)
    world.record(b"value", (("type", b"placed"), ("region", b"eu"), ("trace", b"\xff")))
    world.turn(world.listener())
    (command,) = world.commands
    assert command.headers == (("region", "eu"), ("type", "placed"))
    assert on.places_passed_by(ORDERS, {name: text.encode() for name, text in command.headers}) == (0, 2)


def test_a_command_says_whether_it_was_told_for_a_window() -> None:
    world = listening(Triggers(BOTH_KINDS, (), WITHIN_US, wants_all=True))
    world.waits("acme:ship")
    world.record(b"value")
    world.turn(world.listener())
    assert {each.job_id: each.gathers for each in world.commands} == {JOB: True, "acme:ship": False}
    assert {(each.headers, each.payload) for each in world.commands} == {(PLACED, b"value")}


def test_the_largest_conditions_on_headers_fit_into_a_command_beside_the_largest_value() -> None:
    headers = tuple((f"h{number}", "\U0001f30d" * 200) for number in range(10, 42))
    on = Triggers(tuple(RecordComes(ORDERS, headers[at : at + 8]) for at in range(0, 32, 8)), (), WITHIN_US)
    check_triggers(on)
    with pytest.raises(RequestError, match="characters"):
        check_triggers(replace(on, conditions=(*on.conditions, RecordComes(ORDERS, headers[4:12]))))
    world = listening(on)
    place = world.record(b"x" * PAYLOAD_MAX, tuple((name, text.encode()) for name, text in headers))
    world.turn(world.listener())
    assert (world.started, world.rejects) == ([(JOB, place)], [])


def test_a_value_that_is_too_large_keeps_out_those_alone_whose_payload_it_is() -> None:
    world = listening(Triggers(BOTH_KINDS, (), WITHIN_US, wants_all=True))
    world.waits("acme:ship")
    place = world.record(b"x" * (PAYLOAD_MAX + 1))
    world.turn(world.listener())
    assert world.started == [(JOB, place)]
    assert [each.pointer for each in world.rejects] == ["/payload"]


def test_a_large_value_that_is_nobodys_payload_is_no_fault() -> None:
    world = listening(Triggers(BOTH_KINDS, (), WITHIN_US, wants_all=True))
    place = world.record(b"x" * (PAYLOAD_MAX + 1))
    world.turn(world.listener())
    assert (world.started, world.rejects) == ([(JOB, place)], [])


# Documents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["all", "any"])
def test_records_in_a_window_come_back_by_every_way(word: str) -> None:
    conditions = [{"topic": ORDERS, "headers": {"type": "placed"}}, {"topic": ORDERS}, {"job": "load"}]
    spec = spec_from_document({"handler": "demo.noop", "on": {word: conditions, "within": "10s"}})
    assert spec_from_document(spec_to_document(spec)) == spec
    assert spec_from_json(spec_to_json(spec)) == spec


# The judges --------------------------------------------------------------------------------------------------------


def told_of(world: Records) -> tuple[list[Any], list[Any], dict[str, list[Any]]]:
    commands, events = ([raw(each) for each in world.records(topic)] for topic in (NAMES.commands, NAMES.run_events))
    at = world.clock.now()
    sold = [
        {"partition": 1, "offset": offset, "timestamp_us": at, "value": VALUE} for offset in range(1, world.offset + 1)
    ]
    return commands, events, {ORDERS: sold}


def test_the_judge_of_records_sees_headers_that_a_record_has_not() -> None:
    world = Records(waiting(*BOTH_KINDS))
    world.came()
    assert sources_judge.check(*told_of(world))[0] == []
    world.came(RETURNED)
    assert world.events(EventKind.PENDING)
    complaints, _ = sources_judge.check(*told_of(world))
    assert [each for each in complaints if "headers that it has not" in each]


def test_the_judge_of_records_sees_headers_that_were_not_told() -> None:
    world = Records(waiting(*BOTH_KINDS))
    world.run(11)  # by then whoever reads committed records knows for certain what is asked for
    world.came(())
    complaints, _ = sources_judge.check(*told_of(world))
    assert [each for each in complaints if "without the headers" in each]


@pytest.mark.parametrize(
    ("told", "word"), [({"payload": b"other"}, "another payload"), ({"gathers": False}, "as if it had no window")]
)
def test_the_judge_of_records_sees_a_record_that_is_told_otherwise(told: dict[str, Any], word: str) -> None:
    world = Records(waiting(*BOTH_KINDS))
    world.came(**told)
    complaints, _ = sources_judge.check(*told_of(world))
    assert [each for each in complaints if word in each]
