"""Checkers have tests of their own: a good history passes, and a history with one thing wrong does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.oracle.records import decode

from .checkers import CHECKERS
from .dumps import Dumps, RawRecord
from .play import leave
from .story import Story

SEED = 7
IDEMPOTENT = {"REVISED"}
"""A repeat of these says nothing new."""


@pytest.fixture(scope="module")
def good() -> Dumps:
    return leave(SEED, Story())


def complaints(dumps: Dumps) -> list[str]:
    return [complaint for checker in CHECKERS for complaint in checker(dumps, Counter())]


def kind_of(record: RawRecord) -> str:
    return str(decode(record["value"])[1]["kind"])


def first(dumps: Dumps, kind: str) -> RawRecord:
    return next(record for record in dumps.events if kind_of(record) == kind)


def repeated(dumps: Dumps, record: RawRecord) -> Dumps:
    """The record stands once more at the end of its partition."""
    offset = 1 + max(int(str(each["offset"])) for each in dumps.events if each["partition"] == record["partition"])
    return replace(dumps, events=[*dumps.events, {**record, "offset": offset}])


def test_a_good_history_passes(good: Dumps) -> None:
    assert complaints(good) == []
    assert len(good.events) > 30


def test_an_empty_history_fails(good: Dumps) -> None:
    empty = replace(good, commands=[], events=[], work=[], letters=[], runs=[], jobs=[], calls=[])
    assert [each for each in complaints(empty) if "empty history" in each]


def test_dropping_any_event_is_seen(good: Dumps) -> None:
    unseen = [
        kind_of(record)
        for record in good.events
        if not complaints(replace(good, events=[each for each in good.events if each is not record]))
    ]
    assert unseen == []


def test_repeating_any_event_is_seen(good: Dumps) -> None:
    unseen = {kind_of(record) for record in good.events if not complaints(repeated(good, record))}
    assert unseen <= IDEMPOTENT


Damage = Callable[[Dumps], Dumps]


@pytest.mark.parametrize(
    ("promise", "damage"),
    [
        ("I1", lambda d: replace(d, commands=d.commands[1:])),
        ("I1", lambda d: replace(d, commands=[*d.commands, {**d.commands[0], "offset": 10_000}])),
        ("I2", lambda d: replace(d, work=d.work[1:])),
        ("I2", lambda d: replace(d, work=[{**each, "topic": "waterclock.runs.high.side"} for each in d.work])),
        ("I2", lambda d: replace(d, work=[*d.work, d.work[0]])),
        ("I2", lambda d: replace(d, calls=[*d.calls, d.calls[0]])),
        ("I2", lambda d: replace(d, calls=[{**d.calls[0], "token": 5}, *d.calls[1:]])),
        ("I2", lambda d: replace(d, runs=d.runs[1:])),
        ("I2", lambda d: replace(d, runs=[{**d.runs[0], "status": "CANCELLED"}, *d.runs[1:]])),
        ("I2", lambda d: replace(d, runs=[*d.runs, {**d.runs[0], "fire_at": 0}])),
        ("I3", lambda d: replace(d, jobs=d.jobs[1:])),
        ("I3", lambda d: replace(d, jobs=[{**d.jobs[0], "status": "GONE"}, *d.jobs[1:]])),
        ("I4", lambda d: replace(d, events=[{**each, "timestamp_us": 0} for each in d.events])),
        ("I9", lambda d: replace(d, outputs=d.outputs[1:])),
        ("I9", lambda d: replace(d, outputs=[*d.outputs, d.outputs[0]])),
        ("I9", lambda d: replace(d, outputs=[*d.outputs, {"headers": (("ce_id", b"t:steady@x/out/0"),)}])),
        ("I9", lambda d: replace(d, calls=[{**each, "emits": 9} for each in d.calls])),
        ("I11", lambda d: replace(d, letters=d.letters[1:])),
        ("I11", lambda d: replace(d, letters=[*d.letters, d.letters[0]])),
        ("role", lambda d: replace(d, broken=["a role broke"])),
    ],
)
def test_one_thing_wrong_is_named_by_its_promise(good: Dumps, promise: str, damage: Damage) -> None:
    assert [each for each in complaints(damage(good)) if promise in each]
