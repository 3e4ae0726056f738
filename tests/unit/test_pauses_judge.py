"""The judge of pauses that end by themselves: a good history passes, one with one thing wrong does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.oracle import books, owed, pauses
from waterclock.model.events import EventKind, Origin, Pending, Revised, RunEvent, Skipped
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.wire.codec import encode_command, encode_event

S = US_PER_S
START = 1_795_000_020 * S
JOB = "t:beat"
SPEC = JobSpec("demo.noop", Every(2 * S, START), Tier.MEDIUM)
UNTIL, WITHIN = START + 30 * S, 5 * S
RULES = owed.Rules(grace=5 * S, skew=S)
Raw = dict[str, Any]


def record(offset: int, at_s: float, value: bytes) -> Raw:
    return {"partition": 0, "offset": offset, "timestamp_us": at(at_s), "key": JOB.encode(), "value": value}


def at(at_s: float) -> int:
    return START + round(at_s * S)


def history(*, resume_s: float, written_s: float, skipped_to_s: float, runs_s: Sequence[int]) -> tuple[list[Raw], ...]:
    """Created at 1 s, paused at 5 s until ``resume_s``, its end written at ``written_s``."""
    given = [
        (1.0, Command(CommandKind.CREATE, JOB, "c0", "test", at(1), spec=SPEC)),
        (5.0, Command(CommandKind.PAUSE, JOB, "c1", "test", at(5), resume_at=at(resume_s))),
        (
            written_s,
            Command(
                CommandKind.RESUME, JOB, "r", "dispatcher", 1, expected_revision=ordinal(1, 1), resume_at=at(resume_s)
            ),
        ),
    ]
    commands = [record(offset, at_s, encode_command(command)) for offset, (at_s, command) in enumerate(given)]
    events = [RunEvent(EventKind.REVISED, JOB, "", at(1), detail=Revised(ordinal(1, 0), at(1), at(1), "x"))]
    events += [made(2, 0), made(4, 0)]
    events += [RunEvent(EventKind.REVISED, JOB, "", at(5), detail=Revised(ordinal(1, 1), at(5), at(5), "x"))]
    stamp = max(at(written_s), at(resume_s) - 1)
    first, count = at(6), (at(skipped_to_s) - at(6)) // (2 * S) + 1
    skip = Skipped(ordinal(1, 1), first, at(skipped_to_s), count, Tier.MEDIUM, 0, "")
    events += [RunEvent(EventKind.SKIPPED, JOB, make_run_id(JOB, first), at(written_s), reason="paused", detail=skip)]
    detail = Revised(ordinal(1, 2), stamp, at(written_s), "x")
    events += [RunEvent(EventKind.REVISED, JOB, "", at(written_s), detail=detail)]
    events += [made(fire_s, 2) for fire_s in runs_s]
    return commands, [record(offset, (each.at - START) / S, encode_event(each)) for offset, each in enumerate(events)]


def made(fire_s: int, revision: int) -> RunEvent:
    detail = Pending(ordinal(1, revision), at(fire_s), at(fire_s), Tier.MEDIUM, Origin.SCHEDULE, handler=SPEC.handler)
    return RunEvent(EventKind.PENDING, JOB, make_run_id(JOB, at(fire_s)), at(fire_s), detail=detail)


def complaints(found: tuple[list[Raw], ...]) -> list[str]:
    commands, events = found
    told = pauses.check(commands, events, UNTIL, START, WITHIN, RULES)[0]
    return told + books.balance(commands, events, UNTIL, RULES)[0]


def test_a_pause_that_ends_at_its_instant_passes() -> None:
    good = history(resume_s=20, written_s=10, skipped_to_s=18, runs_s=range(20, 31, 2))
    assert complaints(good) == []
    assert pauses.check(*good, UNTIL, START, WITHIN, RULES)[1]["pauses ended in time"] == 1


def test_an_end_that_is_written_late_counts_when_it_is_written() -> None:
    late = history(resume_s=20, written_s=23, skipped_to_s=22, runs_s=range(24, 31, 2))
    assert complaints(late) == []
    assert pauses.check(*late, UNTIL, START, WITHIN, RULES)[1]["pauses ended late"] == 1


@pytest.mark.parametrize(("skipped_to_s", "first_run_s"), [(18, 22), (20, 22), (16, 20), (16, 18)])
def test_a_pause_that_covers_a_fire_too_few_or_too_many_is_seen(skipped_to_s: int, first_run_s: int) -> None:
    wrong = history(resume_s=20, written_s=10, skipped_to_s=skipped_to_s, runs_s=range(first_run_s, 31, 2))
    assert complaints(wrong)


def test_a_pause_that_goes_on_past_its_end_is_seen() -> None:
    commands, events = history(resume_s=20, written_s=10, skipped_to_s=18, runs_s=range(20, 31, 2))
    still_paused = commands[:2], list(events[:4])
    assert [each for each in complaints(still_paused) if "longer" in each]


def test_a_pause_that_went_on_while_something_was_wrong_is_excused() -> None:
    late = history(resume_s=20, written_s=28, skipped_to_s=28, runs_s=[30])
    assert [each for each in complaints(late) if "longer" in each]
    commands, events = late
    assert pauses.check(commands, events, UNTIL, at(27), WITHIN, RULES)[0] == []
