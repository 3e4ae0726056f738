"""Ends that have to come together: which make a run, which lapse, and that it is said, whoever owns the shard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from waterclock.dispatcher import gathering, inbox, starts
from waterclock.dispatcher.gathering import Gatherings

from tests.oracle import triggers as judge
from tests.unit.dispatcher_world import NAMES, World, raw
from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.events import EventKind, Pending, RunEvent, Skipped
from waterclock.model.gathering import Arrival, Gathering
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import NEVER, Command, CommandKind, JobSpec
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.triggers import CONDITIONS_MAX, Ended, JobTriggers, RunEnds, Triggers, triggers_from_json
from waterclock.wire import codec

JOB, LOAD, ITEMS = "acme:report", "acme:load", "acme:items"
WITHIN_US = 10 * US_PER_S
BOTH = (RunEnds("load"), RunEnds("items", Ended.ANY))
ALL = JobSpec("demo.noop", NEVER, on=Triggers(BOTH, within_us=WITHIN_US, wants_all=True))
ANY = JobSpec("demo.noop", NEVER, on=Triggers(BOTH, within_us=WITHIN_US))


class Windows(World):
    """A dispatcher that has such a job, and a hand that tells it of ends as the router does."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(partitions=1)
        self.command(CommandKind.CREATE, JOB, spec)
        self.run(1)
        self.number = 0
        self.gathers = spec.on is not None and spec.on.within_us > 0

    def ended(self, job_id: str, status: str = "succeeded", hops: int = 1, wait_s: float = 0.5) -> str:
        self.number += 1
        source = make_run_id(job_id, self.clock.now() + self.number)
        self.told(source, status, hops)
        self.run(wait_s)
        return source

    def told(self, source: str, status: str = "succeeded", hops: int = 1, **more: Any) -> None:
        more = {"ended": status, "ended_at": self.clock.now(), "hops": hops, "gathers": self.gathers} | more
        self.command(CommandKind.TRIGGER, JOB, triggered_by=source, command_id=f"{source}/{status}", **more)

    def made(self) -> list[tuple[str, int]]:
        found = [event.detail for event in self.events(EventKind.PENDING)]
        return [(each.triggered_by, each.hops) for each in found if isinstance(each, Pending)]

    def skipped(self) -> list[tuple[str, str]]:
        found = self.events(EventKind.SKIPPED)
        return [(each.reason, each.detail.cap) for each in found if isinstance(each.detail, Skipped)]

    def judged(self) -> list[str]:
        """What the oracle says of windows; ends themselves are not in this log."""
        topics = [[raw(record) for record in self.records(topic)] for topic in (NAMES.commands, NAMES.run_events)]
        complaints, _ = judge.check(*topics, until=self.clock.now())
        return [each for each in complaints if "which has not ended" not in each and " as number " not in each]


class Ahead(Windows):
    """The owner's clock is three seconds ahead of the brokers', by which ends count."""

    ahead_us = 3 * US_PER_S


@pytest.mark.parametrize("spec", [ALL, ANY])
def test_no_window_ends_before_its_time_by_an_owner_whose_clock_is_ahead(spec: JobSpec) -> None:
    world = Ahead(spec)
    world.ended(LOAD, wait_s=7.5)
    last = world.ended(ITEMS, wait_s=1)
    world.run(12)
    assert world.made() == [(last, 1)]
    assert (world.skipped(), world.judged()) == ([], [])


def test_a_window_ends_soon_after_its_time_by_an_owner_whose_clock_is_ahead() -> None:
    world = Ahead(ANY)
    last = world.ended(LOAD, wait_s=9)
    assert [record for record in world.records(NAMES.commands) if b"lapse/" in (record.value or b"")]
    assert world.made() == []
    world.run(2)
    assert world.made() == [(last, 1)]
    assert world.judged() == []


def test_all_that_come_within_the_window_make_one_run_by_the_last_of_them() -> None:
    world = Windows(ALL)
    world.ended(LOAD, hops=4)
    assert world.made() == []
    last = world.ended(ITEMS, "failed", hops=2)
    assert world.made() == [(last, 4)]
    world.run(15)
    assert (world.skipped(), world.judged()) == ([], [])


def test_a_window_ends_also_while_commands_come_faster_than_rounds_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large payloads of somebody else, of which some wait at all times."""
    monkeypatch.setattr(inbox, "ROUND_BYTES", 1)  # one a round
    world = Windows(ALL)
    world.command(CommandKind.CREATE, "globex:large", JobSpec("demo.noop", NEVER))
    world.ended(LOAD)
    for _ in range(5):
        world.command(CommandKind.TRIGGER, "globex:large")
    for _ in range(60):
        world.command(CommandKind.TRIGGER, "globex:large")
        world.steps(1)
        world.clock.advance(US_PER_S // 4)
    assert world.dispatcher._shards[0].inbox
    assert world.skipped() == [("window", "items")]


def test_what_has_made_a_run_counts_no_more() -> None:
    world = Windows(ALL)
    world.ended(LOAD)
    first = world.ended(ITEMS)
    world.ended(ITEMS)
    assert world.made() == [(first, 1)]
    second = world.ended(LOAD)
    assert [source for source, _ in world.made()] == [first, second]
    assert world.judged() == []


def test_a_window_in_which_not_all_came_lapses_and_says_what_was_missing() -> None:
    world = Windows(ALL)
    world.ended(LOAD)
    world.run(12)
    world.ended(ITEMS)
    assert (world.made(), world.skipped()) == ([], [("window", "items")])
    world.run(12)
    assert world.skipped() == [("window", "items"), ("window", "load")]
    assert world.judged() == []


def test_what_came_late_in_a_window_that_lapsed_counts_in_the_next_one() -> None:
    world = Windows(ALL)
    world.ended(LOAD, wait_s=6)
    world.ended(LOAD, wait_s=6)  # the first one's window is over, and this one is young still
    assert world.skipped() == [("window", "items")]
    last = world.ended(ITEMS)
    assert world.made() == [(last, 1)]
    assert world.judged() == []


def test_any_within_a_window_makes_one_run_when_it_is_over() -> None:
    world = Windows(ANY)
    world.ended(LOAD, hops=3)
    last = world.ended(ITEMS)
    world.ended(LOAD, "failed")  # it meets nothing, and is refused
    assert world.made() == []
    world.run(11)
    assert world.made() == [(last, 3)]
    world.ended(LOAD, wait_s=11)
    assert len(world.made()) == 2
    assert (world.skipped(), world.judged()) == ([], [])
    assert len(world.records(NAMES.rejects)) == 1


@pytest.mark.parametrize("spec", [ALL, ANY])
def test_half_a_window_goes_on_with_its_next_owner(spec: JobSpec) -> None:
    world = Windows(spec)
    world.ended(LOAD)
    world.crash()
    world.run(1)
    last = world.ended(ITEMS)
    world.run(12)
    assert [source for source, _ in world.made()] == [last]
    assert (world.skipped(), world.judged()) == ([], [])


def test_a_window_that_was_over_while_nobody_was_there_lapses_afterwards() -> None:
    world = Windows(ALL)
    world.ended(LOAD)
    world.crash()
    world.clock.advance(60 * US_PER_S)
    world.run(3)
    assert world.skipped() == [("window", "items")]
    assert world.judged() == []


def test_an_end_that_is_told_again_has_no_second_part() -> None:
    world = Windows(ALL)
    source = world.ended(LOAD)
    world.ended(ITEMS)
    world.told(source)
    world.ended(ITEMS)
    assert len(world.made()) == 1
    assert world.judged() == []


def test_an_edit_of_what_is_waited_for_ends_the_window_and_says_so() -> None:
    world = Windows(ALL)
    world.ended(LOAD)
    world.command(CommandKind.UPDATE, JOB, replace(ALL, payload=b"2"))
    world.run(1)
    assert world.skipped() == []
    world.command(CommandKind.DELETE, JOB)
    world.run(1)
    assert world.skipped() == [("window", "its conditions changed")]
    world.run(15)
    assert (len(world.skipped()), world.judged()) == (1, [])


def test_a_paused_job_is_not_started_by_others_and_that_is_told() -> None:
    world = Windows(JobSpec("demo.noop", NEVER, on=Triggers((RunEnds("load"),))))
    world.command(CommandKind.PAUSE, JOB)
    world.ended(LOAD)
    assert (world.made(), world.skipped()) == ([], [("paused", "")])
    world.command(CommandKind.TRIGGER, JOB)
    world.run(1)
    assert world.made() == [("", 0)]
    world.command(CommandKind.RESUME, JOB)
    source = world.ended(LOAD)
    assert world.made()[1:] == [(source, 1)]
    assert world.judged() == []


@pytest.mark.parametrize("within_us", [0, US_PER_S])
def test_a_job_is_started_by_no_other_before_the_end_of_its_pause(within_us: int) -> None:
    """The resume is applied ten seconds before that, and the job shows as active; an edit may follow it."""
    spec = JobSpec("demo.noop", NEVER, on=Triggers((RunEnds("load"),), within_us=within_us))
    world = Windows(spec)
    resume_at = world.clock.now() + 30 * US_PER_S
    world.command(CommandKind.PAUSE, JOB, resume_at=resume_at)
    world.run(23)
    world.ended(LOAD, wait_s=2)
    assert (world.made(), world.skipped()) == ([], [("paused", "")])
    world.command(CommandKind.UPDATE, JOB, replace(spec, payload=b"2"))
    world.ended(LOAD, wait_s=2)
    assert (world.made(), world.skipped()[1:]) == ([], [("paused", "")])
    world.run((resume_at - world.clock.now()) / US_PER_S)
    source = world.ended(LOAD, wait_s=2)
    assert world.made() == [(source, 1)]
    assert world.judged() == []


def test_a_window_of_a_paused_job_ends_in_a_word_and_in_no_run() -> None:
    world = Windows(ALL)
    world.command(CommandKind.PAUSE, JOB)
    world.ended(LOAD)
    world.ended(ITEMS)
    assert (world.made(), world.skipped()) == ([], [("paused", "")])
    assert world.judged() == []


def test_more_windows_than_there_may_be_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "WINDOWS_MAX", 0)
    world = Windows(ALL)
    world.ended(LOAD)
    assert world.skipped() == [("window", "windows of the shard")]


def test_the_times_to_look_do_not_grow_with_what_comes() -> None:
    windows = Gatherings()
    for number in range(1_000):
        windows.put(Gathering(JOB, number, number, number + 5_000, (Arrival(LOAD, 1, number, number, (0,)),)))
        windows.drop(JOB)
    windows.put(Gathering(JOB, 2_000, 1, 7_000, ()))
    assert len(windows._due) == 1
    assert list(windows.over(6_999, 10)) == []
    assert windows.next_at() == 7_000
    assert [each.opened_at for each in windows.over(7_000, 10)] == [2_000]
    assert windows.next_at() is None


def test_a_lapse_that_comes_far_too_early_is_refused_and_one_of_another_window_does_nothing() -> None:
    world = Windows(ALL)
    world.ended(LOAD)
    world.command(CommandKind.LAPSE, JOB, due_at=world.clock.now() + 3_600 * US_PER_S, to_revision=7)
    world.command(CommandKind.LAPSE, JOB, due_at=world.clock.now(), to_revision=7)
    world.run(1)
    assert len(world.records(NAMES.rejects)) == 1
    last = world.ended(ITEMS)
    assert world.made() == [(last, 1)]
    assert world.judged() == []


# What nobody has checked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stored",
    [
        '{"any":[["load","succeeded"]],"within":"5"}',
        '{"any":[["load","succeeded"]],"within":1.5}',
        '{"any":[["load","succeeded"]],"within":true}',
        '{"any":[["load","succeeded"]],"within":1e30}',
        '{"any":[["load","succeeded"]],"within":-1}',
        '{"any":[[7,"succeeded"]]}',
        '{"any":[["load",["succeeded"]]]}',
        '{"any":[["load","succeeded"]],"since":["x"]}',
        '{"any":[["load","succeeded"]],"since":[1,2]}',
        '{"any":{"load":"succeeded"}}',
        "[]",
        "7",
        "{",
    ],
)
def test_a_stored_form_of_another_shape_is_no_command_and_stops_nobody(stored: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        triggers_from_json(stored)
    world = Windows(ALL)
    good = codec.encode_command(Command(CommandKind.CREATE, "acme:other", "x", "a", 0, spec=_with_on(stored)))
    world.outside.appender().append(_as_command(good))
    world.run(1)
    assert len(world.records(NAMES.rejects)) == 1
    world.ended(LOAD)
    last = world.ended(ITEMS)
    assert world.made() == [(last, 1)]


def _with_on(stored: str) -> JobSpec:
    """A spec whose ``on`` is written as it stands."""
    return replace(ANY, on=_Raw(stored))  # type: ignore[arg-type]


class _Raw:
    """Stands where Triggers do; see ``raw_on``."""

    def __init__(self, stored: str) -> None:
        self.stored = stored


@pytest.fixture(autouse=True)
def raw_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from waterclock.wire import records  # noqa: PLC0415 - patched here alone

    right = records.triggers_to_json
    monkeypatch.setattr(records, "triggers_to_json", lambda on: on.stored if isinstance(on, _Raw) else right(on))


def _as_command(value: bytes) -> Any:
    from waterclock.log.port import Outgoing  # noqa: PLC0415

    return Outgoing(NAMES.commands, b"acme:other", value)


@pytest.mark.parametrize(
    ("source", "pointer"),
    [
        ("acme:load@" + "9" * 200_000, "/triggered_by"),
        ("no run", "/triggered_by"),
        ("@", "/run_id"),
        ("other:load@20261121T090000Z", "/triggered_by"),
    ],
)
def test_a_trigger_by_what_is_no_run_of_the_tenant_is_refused(source: str, pointer: str) -> None:
    world = Windows(replace(ALL, on=Triggers((RunEnds("load"),))))
    world.command(CommandKind.TRIGGER, JOB, triggered_by=source, hops=1)
    last = world.ended(LOAD)
    assert world.made() == [(last, 1)]
    (refused,) = world.records(NAMES.rejects)
    assert codec.decode_reject(refused.value).pointer == pointer  # type: ignore[attr-defined]


def test_the_largest_conditions_there_may_be_fit_into_every_record() -> None:
    conditions = tuple(RunEnds(f"{number:x}" * 128, Ended.SUCCEEDED) for number in range(CONDITIONS_MAX))
    since = (2**63 - 1,) * CONDITIONS_MAX
    on = Triggers(conditions, since, within_us=31 * 86_400 * US_PER_S, wants_all=True)
    largest = codec.encode_job_triggers(JobTriggers("t" * 63 + ":" + "n" * 128, 2**62, 2**62, on))
    source = make_run_id("t" * 63 + ":" + "n" * 128, 2**53, 2**62)
    arrivals = tuple(Arrival(source, 16, 2**53, 2**62, (place,)) for place in range(CONDITIONS_MAX))
    kept = codec.encode_gathering(Gathering("t" * 63 + ":" + "n" * 128, 2**53, 2**62, 2**53, arrivals))
    assert (len(largest), len(kept)) < (8_192, 16_384)


# Documents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["all", "any"])
def test_a_window_comes_back_by_every_way(word: str) -> None:
    on = {word: [{"job": "load"}, {"job": "items", "ended": "any"}], "within": "10s"}
    spec = spec_from_document({"handler": "demo.noop", "on": on})
    assert spec.on == (ALL if word == "all" else ANY).on
    assert spec_from_document(spec_to_document(spec)) == spec
    assert spec_from_json(spec_to_json(spec)) == spec
    command = Command(CommandKind.CREATE, JOB, "c", "a", 0, spec=spec)
    assert codec.decode_command(codec.encode_command(command)) == command


@pytest.mark.parametrize(
    ("on", "pointer"),
    [
        ({"all": [{"job": "a"}, {"job": "b"}]}, "/on"),
        ({"all": [{"job": "a"}], "within": "5m"}, "/on/all"),
        ({"all": [{"job": "a"}, {"job": "b"}], "any": [{"job": "a"}], "within": "5m"}, "/on"),
        ({"any": [{"job": "a"}], "within": 5}, "/on/within"),
        ({"any": [{"job": "a"}], "within": "32d"}, "/on/within"),
        ({"all": [{"job": "a"}, {"job": "report"}], "within": "5m"}, "/on/all/1/job"),
    ],
)
def test_a_window_that_cannot_be_meant_is_refused_at_its_place(on: object, pointer: str) -> None:
    with pytest.raises(RequestError) as error:
        spec_from_document({"handler": "h", "on": on}, job_id=JOB)
    assert error.value.pointer == pointer


# The judge ---------------------------------------------------------------------------------------------------------


def test_the_judge_sees_a_run_of_half_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gathering.arrive

    def arrive(on: Triggers, before: Gathering | None, job_id: str, arrival: Arrival) -> gathering.Step:
        return right(replace(on, conditions=on.conditions[:1]), before, job_id, arrival)

    monkeypatch.setattr(gathering, "arrive", arrive)
    world = Windows(ALL)
    world.ended(LOAD)
    assert [each for each in world.judged() if "had to make None" in each]


def test_the_judge_sees_a_window_that_nobody_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Windows(ALL)
    monkeypatch.setattr(starts, "_lapse", lambda _, now: Command(CommandKind.PAUSE, "acme:none", "x", "a", now))
    world.ended(LOAD)
    world.run(75)
    assert [each for each in world.judged() if "nobody says so" in each]


def test_the_judge_sees_a_run_that_names_another_end() -> None:
    world = Windows(ALL)
    first = world.ended(LOAD)
    world.ended(ITEMS)
    events = [raw(record) for record in world.records(NAMES.run_events)]
    (pending,) = world.events(EventKind.PENDING)
    assert isinstance(pending.detail, Pending)
    other: RunEvent = pending._replace(detail=pending.detail._replace(triggered_by=first))
    place = next(n for n, each in enumerate(events) if codec.decode_event(each["value"]).kind is EventKind.PENDING)  # type: ignore[arg-type]
    events[place]["value"] = codec.encode_event(other)
    commands = [raw(record) for record in world.records(NAMES.commands)]
    complaints, _ = judge.check(commands, events, until=world.clock.now())
    assert [each for each in complaints if "was meant" in each]
