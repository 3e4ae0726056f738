"""The judges of what is owed have tests of their own: a good history passes, one with one thing wrong does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.oracle import books, makings, misfires, owed, timeliness
from waterclock.model.events import EventKind, Origin, Pending, Revised, RunEvent, Skipped, WorkRecord
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Command, CommandKind, Dates, Every, JobSpec, Once, Tier
from waterclock.model.timing import CatchUpOrder, Misfire, Timing
from waterclock.wire.codec import encode_command, encode_event, encode_work

S = US_PER_S
START = 1_795_000_020 * S
JOB = "t:beat"
SPEC = JobSpec("demo.noop", Every(2 * S, START), Tier.MEDIUM, policy=FailurePolicy(max_attempts=2))
UNTIL = START + 20 * S
RULES = owed.Rules(grace=5 * S, skew=S)
Record = dict[str, Any]


class Log:
    """Commands and run-events of one partition, as a dispatcher without a fault would leave them. Times in seconds."""

    def __init__(self) -> None:
        self.commands: list[Record] = []
        self.events: list[Record] = []
        self.work: list[Record] = []

    def command(
        self, kind: CommandKind, at_s: float, spec: JobSpec | None = None, *, edge_s: float | None = None
    ) -> None:
        """Given, and applied at once: every fire up to then is decided."""
        at, offset = START + round(at_s * S), len(self.commands)
        command = Command(kind, JOB, f"c{offset}", "test", at, spec=spec)
        self.commands.append(_record(offset, at, encode_command(command)))
        if kind is not CommandKind.TRIGGER:
            self.revised(offset, at_s, at_s if edge_s is None else edge_s)

    def revised(self, revision: int, at_s: float, edge_s: float) -> None:
        at = START + round(at_s * S)
        detail = Revised(revision, START + round(self._stamp_s(revision) * S), START + round(edge_s * S), "x")
        self.say(RunEvent(EventKind.REVISED, JOB, "", at, detail=detail))

    def _stamp_s(self, revision: int) -> float:
        return (self.commands[revision]["timestamp_us"] - START) / S

    def run(self, fires_s: Iterable[float], revision: int = 0, *, at_s: float | None = None) -> None:
        """These fires are made, each at its instant or all at once."""
        for fire_s in fires_s:
            fire = START + round(fire_s * S)
            at = fire if at_s is None else START + round(at_s * S)
            detail = Pending(revision, fire, fire, SPEC.tier, Origin.SCHEDULE, handler=SPEC.handler)
            run_id = make_run_id(JOB, fire)
            self.say(RunEvent(EventKind.PENDING, JOB, run_id, at, detail=detail))
            work = WorkRecord(run_id, fire, fire, 1, JOB, revision, SPEC.tier, "default", SPEC.handler, b"")
            work = work._replace(policy=policy_to_json(SPEC.policy))
            self.work.append(_record(len(self.work), at, encode_work(work)))

    def skip(
        self, from_s: float, to_s: float, reason: str, at_s: float, revision: int = 0, instead_s: float = 0
    ) -> None:
        from_at, to_at = START + round(from_s * S), START + round(to_s * S)
        instead = make_run_id(JOB, START + round(instead_s * S)) if instead_s else ""
        count = (to_at - from_at) // (2 * S) + 1
        detail = Skipped(revision, from_at, to_at, count, SPEC.tier, from_at if instead else 0, instead)
        at = START + round(at_s * S)
        run_id = make_run_id(JOB, from_at)
        self.say(RunEvent(EventKind.SKIPPED, JOB, run_id, at, reason=reason, detail=detail))

    def say(self, event: RunEvent) -> None:
        self.events.append(_record(len(self.events), event.at, encode_event(event)))

    def complaints(self) -> list[str]:
        """Of the books, and of the policy for late fires."""
        late, _ = misfires.check(self.commands, self.events, UNTIL, RULES)
        return books.balance(self.commands, self.events, UNTIL, RULES)[0] + late


def _record(offset: int, at: int, value: bytes) -> Record:
    return {"partition": 0, "offset": offset, "timestamp_us": at, "key": JOB.encode(), "value": value}


def created() -> Log:
    log = Log()
    log.command(CommandKind.CREATE, 1, SPEC)
    return log


def paused(log: Log) -> Log:
    log.run([2, 4])
    log.command(CommandKind.PAUSE, 5)
    return log


def test_a_good_history_balances() -> None:
    log = paused(created())
    log.skip(6, 10, "paused", 11, revision=1)
    log.command(CommandKind.RESUME, 11)
    log.run([12], revision=2)
    log.skip(14, 16, "coalesced", 19.5, revision=2, instead_s=18)
    log.run([18], revision=2, at_s=19.5)
    log.run([20], revision=2)
    assert log.complaints() == []
    assert makings.check(log.commands, log.events, log.work, RULES)[0] == []


def resumed_late(skipped_to_s: float, first_run_s: int) -> Log:
    """The resume is given at 7 s and waits for the store until 13.5 s."""
    log = paused(created())
    log.skip(6, skipped_to_s, "paused", 13.5, revision=1)
    log.command(CommandKind.RESUME, 7)
    log.events.pop()
    log.revised(2, 13.5, 13.5)
    log.run(range(first_run_s, 21, 2), revision=2)
    return log


def test_a_pause_covers_what_came_until_a_late_resume_was_applied() -> None:
    log = resumed_late(12, 14)
    assert log.complaints() == []
    assert books.balance(log.commands, log.events, UNTIL, RULES)[1]["skipped behind a late command"] == 3


@pytest.mark.parametrize(("skipped_to_s", "first_run_s"), [(6, 14), (10, 14), (14, 14), (12, 16), (6, 8)])
def test_a_late_resume_that_leaves_a_fire_or_decides_one_twice_is_seen(skipped_to_s: float, first_run_s: int) -> None:
    assert resumed_late(skipped_to_s, first_run_s).complaints()


def test_a_paused_job_that_goes_on_firing_is_seen() -> None:
    log = paused(created())
    log.run([6, 8, 10], revision=1)
    log.command(CommandKind.RESUME, 11)
    log.run(range(12, 21, 2), revision=2)
    assert [each for each in log.complaints() if "owed was a skip (paused)" in each]


@pytest.mark.parametrize("reason", ["paused", "deleted"])
def test_fires_of_an_active_job_that_are_skipped_as_paused_are_seen(reason: str) -> None:
    log = created()
    log.skip(2, 20, reason, 20)
    assert [each for each in log.complaints() if f"skipped ({reason}), owed was a run" in each]


def test_what_was_undecided_when_a_delete_came_ends_with_that_reason_alone() -> None:
    for reason, is_right in (("deleted", True), ("paused", False)):
        log = created()
        log.run([2, 4])
        log.skip(6, 8, reason, 9)
        log.command(CommandKind.DELETE, 9, edge_s=5)
        assert (log.complaints() == []) is is_right


@pytest.mark.parametrize(
    ("at_s", "instead_s", "made", "word"),
    [
        (10, 8, True, "within the grace"),  # nothing was late
        (19.5, 0, False, "no newer run"),  # in favour of nobody
        (19.5, 8, True, "newer fires were due"),  # not the newest
    ],
)
def test_a_skip_in_favour_of_a_newer_run_needs_a_late_fire_and_that_run(
    at_s: float, instead_s: float, word: str, *, made: bool
) -> None:
    log = created()
    log.skip(6, 6, "coalesced", at_s, instead_s=instead_s)
    log.run([8] if made else [], at_s=at_s)
    assert [each for each in log.complaints() if word in each]


def test_a_catch_up_that_makes_every_run_is_seen() -> None:
    log = created()
    log.run(range(2, 21, 2), at_s=20)
    assert [each for each in log.complaints() if "had to be skipped (coalesced)" in each]


@pytest.mark.parametrize(
    ("edges_s", "word"),
    [
        ([3_600], "ahead of its record"),  # nothing is owed below it
        ([1, 0], "behind an older one"),
    ],
)
def test_an_edge_that_no_timeline_can_have_is_seen(edges_s: list[float], word: str) -> None:
    log = Log()
    log.command(CommandKind.CREATE, 1, SPEC, edge_s=edges_s[0])
    for edge_s in edges_s[1:]:
        log.command(CommandKind.UPDATE, 1.5, replace(SPEC, payload=b"2"), edge_s=edge_s)
    assert [each for each in log.complaints() if word in each]


def test_an_edge_behind_what_was_decided_is_seen() -> None:
    log = created()
    log.run([2, 4, 6])
    log.command(CommandKind.UPDATE, 7, replace(SPEC, payload=b"2"), edge_s=3)
    assert [each for each in log.complaints() if "behind what was decided" in each]


def test_two_edges_of_one_revision_are_seen() -> None:
    log = created()
    log.revised(0, 1, 19)
    log.run([20])
    assert [each for each in log.complaints() if "differ" in each]


def test_a_run_of_a_revision_that_does_not_owe_it_is_seen() -> None:
    log = created()
    log.run([2, 4])
    log.command(CommandKind.UPDATE, 5, replace(SPEC, handler="demo.other"))
    log.run(range(6, 21, 2), revision=0)
    assert [each for each in log.complaints() if "made of revision 0, owed by 1" in each]
    wrong, _ = makings.check(log.commands, log.events, log.work, RULES)
    assert [each for each in wrong if "says handler 'demo.noop', meant was 'demo.other'" in each]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload", b"another"),
        ("tier", Tier.LOW),
        ("pool", "side"),
        ("at_most_once", True),
        ("policy", ""),
        ("redrives", 1),
        ("executor", '{"http":{}}'),
    ],
)
def test_work_that_says_something_else_than_its_command_is_seen(name: str, value: object) -> None:
    log = created()
    fire = START + 2 * S
    work = WorkRecord(make_run_id(JOB, fire), fire, fire, 1, JOB, 0, SPEC.tier, "default", SPEC.handler, b"")
    work = work._replace(**({"policy": policy_to_json(SPEC.policy)} | {name: value}))
    log.run([2])
    wrong, _ = makings.check(log.commands, log.events, [_record(0, fire, encode_work(work))], RULES)
    assert [each for each in wrong if f"says {name} " in each]


def test_a_skip_of_a_revision_that_never_was_is_seen() -> None:
    log = created()
    log.skip(2, 4, "paused", 5, revision=7)
    assert [each for each in log.complaints() if "no revision of it" in each]


@pytest.mark.parametrize(("at_s", "late"), [(12.5, 0), (15.5, 1)])
def test_a_healed_system_decides_what_is_due_at_once(at_s: float, late: int) -> None:
    log = created()
    log.run([12], at_s=at_s)
    bounds = timeliness.Bounds(within=60 * S, settled=5 * S, late=3 * S)
    complaints, _ = timeliness.check(log.commands, log.events, UNTIL, START + 2 * S, bounds, RULES)
    assert len(complaints) == late
    bounds = timeliness.Bounds(within=2 * S, settled=60 * S, late=3 * S)
    complaints, _ = timeliness.check(log.commands, log.events, UNTIL, START + 2 * S, bounds, RULES)
    assert len(complaints) == late


# Policies, ends, dates and jitter ---------------------------------------------------------------------------------


def with_timing(**parts: Any) -> Log:
    log = Log()
    log.command(CommandKind.CREATE, 1, replace(SPEC, timing=Timing(**parts)))
    return log


@pytest.mark.parametrize(
    ("parts", "runs_s", "skips"),
    [
        ({}, [18], [(2, 16, "coalesced", 18)]),
        ({"misfire": Misfire.SKIP}, [14, 16, 18], [(2, 12, "misfire", 0)]),
        ({"misfire": Misfire.ALL}, range(2, 20, 2), []),
        ({"misfire": Misfire.ALL, "catch_up_max": 3}, [14, 16, 18], [(2, 12, "cap", 0)]),
        ({"misfire": Misfire.ALL, "catch_up_order": CatchUpOrder.NEWEST}, range(18, 0, -2), []),
        ({"misfire": Misfire.ALL, "catch_up_window_us": 10 * S}, range(10, 20, 2), [(2, 8, "expired", 0)]),
        ({"catch_up_window_us": 10 * S}, [18], [(2, 8, "expired", 0), (10, 16, "coalesced", 18)]),
    ],
)
def test_each_policy_is_judged_by_what_it_says_and_by_nothing_else(
    parts: dict[str, Any], runs_s: Iterable[int], skips: list[tuple[int, int, str, int]]
) -> None:
    """What is right under one policy is wrong under every other that would decide otherwise."""
    others: list[dict[str, Any]] = [{}, {"misfire": Misfire.SKIP}, {"misfire": Misfire.ALL}, parts]
    for other in others:
        log = with_timing(**other)
        for from_s, to_s, reason, instead_s in skips:
            log.skip(from_s, to_s, reason, 19, instead_s=instead_s)
        log.run(runs_s, at_s=19)
        log.run([20])
        assert (log.complaints() == []) is (other == parts)


def test_a_fire_outside_of_its_jobs_ends_is_seen_and_so_is_one_left_out() -> None:
    for runs_s, complaints in (([6, 8, 10], 0), ([6, 8], 1), ([4, 6, 8, 10], 1), ([6, 8, 10, 12], 1)):
        log = with_timing(from_at=START + 6 * S, until_at=START + 12 * S)
        log.run(runs_s)
        assert len(log.complaints()) == complaints


def test_each_date_is_owed_once() -> None:
    for runs_s, complaints in (([5, 7], 0), ([5], 1), ([5, 7, 9], 1)):
        log = Log()
        log.command(CommandKind.CREATE, 1, replace(SPEC, schedule=Dates((START, START + 5 * S, START + 7 * S))))
        log.run(runs_s)
        assert len(log.complaints()) == complaints


def test_a_run_that_is_due_at_another_moment_than_its_jitter_says_is_seen() -> None:
    log = with_timing(jitter_us=S)
    log.run([2])
    wrong, _ = makings.check(log.commands, log.events, log.work, RULES)
    assert [each for each in wrong if "PENDING says due_at" in each]
    assert [each for each in wrong if "work of attempt 1 says due_at" in each]
    early = misfires.check(log.commands, log.events, UNTIL, RULES._replace(skew=0))[0]
    assert [each for each in early if "us early" in each]


def test_a_one_off_that_lies_behind_is_judged_by_its_policy_as_of_its_command() -> None:
    for misfire, runs, reason in ((Misfire.LATEST, True, ""), (Misfire.SKIP, False, "misfire")):
        for is_right in (True, False):
            log = Log()
            spec = replace(SPEC, schedule=Once(START - 100 * S), timing=Timing(misfire=misfire))
            log.command(CommandKind.CREATE, 1, spec)
            if runs is is_right:
                log.run([-100], at_s=1)
            else:
                log.skip(-100, -100, reason or "coalesced", 1)
            assert (log.complaints() == []) is is_right
